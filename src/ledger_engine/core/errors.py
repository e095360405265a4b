"""The errors that a caller of the ledger can get, each with its HTTP status.

LedgerError
├── InvalidRequest         400  a body, a field or a parameter breaks a rule
│   └── OAuthRefusal       400  … an OAuth request breaks a rule; the code is one of OAuth's codes
├── AuthenticationError    401  no credential, or an invalid credential
│   └── ExpiredCredential  401  … a credential that has expired
├── PermissionDenied       403  a valid credential without the right to do this
├── NotFound               404  no such object for this project and mode
├── Conflict               409  the object's state, or a used idempotency key, forbids the request
│   └── PreconditionFailed 412  … the object is not in the state that the request names
└── StorageUnavailable     503  the database cannot be read or written now

docs/decisions.md#error-codes lists the `code`s; OAuth's codes come from RFC 6749, 4.1.2.1 and 5.2.
`http/errors.py` turns these errors into statuses and bodies.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar


class LedgerError(Exception):
    """A refused request: a `code` for programs and a `message` for people.

    `param` is the name of the wrong field or parameter; None if the error is about something else.
    """

    type: ClassVar[str] = "api_error"

    def __init__(self, code: str, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.param = param


class InvalidRequest(LedgerError):
    type = "invalid_request"


class OAuthRefusal(InvalidRequest):
    """An error with a code that OAuth defines, such as `invalid_grant`."""


class AuthenticationError(LedgerError):
    type = "authentication_error"


class ExpiredCredential(AuthenticationError):
    """A credential that was valid until `expired_at` (milliseconds)."""

    def __init__(self, message: str, expired_at: int, param: str | None = None) -> None:
        super().__init__("expired_credential", message, param)
        self.expired_at = expired_at


class PermissionDenied(LedgerError):
    type = "permission_error"


class NotFound(LedgerError):
    """There is no such object: `what` is the kind of object, `id` the requested id."""

    type = "not_found"

    def __init__(self, what: str, id: str, param: str | None = None) -> None:
        super().__init__("not_found", f"No such {what}: {id[:64]!r}.", param)


class Conflict(LedgerError):
    type = "conflict"


class PreconditionFailed(Conflict):
    """The object is not in the state that `If-Match` names (docs/decisions.md#conditional-changes)."""

    def __init__(self, message: str) -> None:
        super().__init__("precondition_failed", message, "If-Match")


class DuplicateIdempotencyKey(Conflict):
    """An idempotency key was used before, for the object `original` (docs/decisions.md#idempotency).

    `same_request` is true if this request equals the first request with the key; None if that is unknown.
    `originals` are the ids of all objects of the first request: the objects of a batch, or the object of an
    action and the objects that the action made.
    """

    def __init__(
        self, original: str, same_request: bool | None = None, originals: Sequence[str] = ()
    ) -> None:
        by, advice = {
            None: ("", "."),
            True: (" by the same request", "."),
            False: (" by another request", ". Send this one with a key of its own."),
        }[same_request]
        super().__init__(
            "duplicate_idempotency_key",
            f"This idempotency key has already been used{by}; it created {original}{advice}",
            "Idempotency-Key",
        )
        self.original = original
        self.same_request = same_request
        self.originals = originals


NO_MEMORY = "there is not enough memory"


class StorageUnavailable(LedgerError):
    """The database cannot be read or written now.

    `reason` completes the sentence "The storage is not available: …". `detail` is the database's own message,
    which may name hosts, roles and files. So `message`, which clients see, does not contain `detail`.
    `str(error)`, which commands show, and `cause`, which log entries show, contain `detail`. `unknown` is
    true if the change may have been committed.
    """

    def __init__(self, reason: str, *, detail: str = "", unknown: bool = False) -> None:
        outcome = (
            "It is not known whether the change was made: send the request again with its idempotency key"
            if unknown
            else "Nothing was changed"
        )
        super().__init__("storage_unavailable", f"The storage is not available: {reason}. {outcome}.")
        self.reason = reason
        # `cause` leaves out the sentence `outcome`, because a log entry may be about a read, which changes
        # nothing.
        self.cause = f"{reason} ({detail})" if detail else reason
        if detail:
            self.args = (f"The storage is not available: {reason} ({detail}). {outcome}.",)
