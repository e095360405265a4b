"""What can go wrong, as the caller is told it.

LedgerError
├── InvalidRequest         400  a body, a field or a parameter breaks a rule
│   └── OAuthRefusal       400  … one of OAuth's, with a code of its own
├── AuthenticationError    401  no credential, or none that counts
├── PermissionDenied       403  a good credential that may not do this
├── NotFound               404  no such object for this project and mode
├── Conflict               409  the object's state, or a used idempotency key, forbids it
└── StorageUnavailable     503  the database cannot take or give data now

The `code`s are those of decisions.md 2, OAuth's those of RFC 6749, 4.1.2.1 and 5.2. Only
`http/errors.py` turns these into statuses and bodies.
"""

from __future__ import annotations

from typing import ClassVar


class LedgerError(Exception):
    """A refusal with a `code` for programs, a `message` for people and the `param` at fault, if one is."""

    type: ClassVar[str] = "api_error"

    def __init__(self, code: str, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.param = param


class InvalidRequest(LedgerError):
    type = "invalid_request"


class OAuthRefusal(InvalidRequest):
    """What OAuth has its own word for, such as `invalid_grant`."""


class AuthenticationError(LedgerError):
    type = "authentication_error"


class PermissionDenied(LedgerError):
    type = "permission_error"


class NotFound(LedgerError):
    """`what` is the kind of object, `id` what was asked for."""

    type = "not_found"

    def __init__(self, what: str, id: str, param: str | None = None) -> None:
        super().__init__("not_found", f"No such {what}: {id[:64]!r}.", param)


class Conflict(LedgerError):
    type = "conflict"


class DuplicateIdempotencyKey(Conflict):
    """The key made `original`, the id of an object, before (decisions.md 5)."""

    def __init__(self, original: str) -> None:
        super().__init__(
            "duplicate_idempotency_key",
            f"This idempotency key was used before; it made {original}.",
            "Idempotency-Key",
        )
        self.original = original


class StorageUnavailable(LedgerError):
    def __init__(self, reason: str) -> None:
        super().__init__(
            "storage_unavailable", f"The database cannot be used now: {reason}. Nothing was changed."
        )
