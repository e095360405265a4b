"""Finds the API key or token with a given value, and the rights of this key or token.

An access token is valid for an hour. A refresh token is valid for 30 days, and works once: see
docs/interface.md#auth-access-token, #auth-refresh-once. A client gets both tokens in exchange for an API key.
Both tokens have the project, mode, role and scopes of this key, and work only as long as the key is valid.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated

from ledger_engine.access.api_keys import hash_secret, new_secret
from ledger_engine.access.projects import limits_of
from ledger_engine.access.quotas import Plan
from ledger_engine.core.clock import DAY
from ledger_engine.core.errors import AuthenticationError, ExpiredCredential
from ledger_engine.core.records import Moment, OneOf
from ledger_engine.core.tenant import Tenant
from ledger_engine.store import Row, Unit
from ledger_engine.store.rows import insert


@dataclass(slots=True)
class Credential:
    """A valid credential and its rights.

    A token expires at `expires_at`, in milliseconds. An API key never expires, so its `expires_at` is None.

    For an API key and for its tokens, `id` is the id of the key. For a token of an app, `id` is the id of the
    app, and `user` is the user for whom the app acts.
    """

    kind: str  # "api_key", "access_token" or "oauth_token"
    id: str
    user: str | None
    project: str
    livemode: bool
    role: str
    scopes: frozenset[str] | None
    plan: str
    limits: Plan
    may_overdraw: bool
    created: Moment
    expires_at: Moment | None

    @property
    def rate_limit_name(self) -> str:
        """Return the name under which the requests with this credential are counted for the rate limit.

        See docs/decisions.md#rate-limits-tokens.
        """
        return self.id if self.user is None else f"{self.id}/{self.user}"

    def tenant(self, request: str, traceparent: str | None = None) -> Tenant:
        """Return the tenant of one request made with this credential."""
        return Tenant(
            project=self.project,
            livemode=self.livemode,
            role=self.role,
            scopes=self.scopes,
            quota=self.limits.stored_objects,
            may_overdraw=self.may_overdraw,
            credential=self.id,
            request=request,
            traceparent=traceparent,
        )

    def check_expiry(self, now: int) -> None:
        """Raise ExpiredCredential if the credential has expired at `now` (milliseconds)."""
        if self.expires_at is not None and now >= self.expires_at:
            raise ExpiredCredential("The access token has expired.", self.expires_at)


# The columns of a credential and its project. Each statement that finds a credential reads columns with these
# names.
_PROJECT = "p.plan, p.rate_limit, p.burst, p.overdraft, p.archived_at"
_KEY = f"k.id, NULL AS user_id, k.project, k.livemode, k.role, k.scopes, k.revoked_at, {_PROJECT}"
_API_KEY = (
    f"SELECT {_KEY}, k.created, NULL AS expires FROM api_keys AS k JOIN projects AS p ON p.id = k.project"
)
_GRANT = (
    "a.id, g.user_id, a.project, a.livemode, u.role,"
    f" coalesce(g.revoked_at, a.deleted_at, u.deactivated_at) AS revoked_at, {_PROJECT}"
)


def find(unit: Unit, value: str) -> Credential:
    """Return the credential with this bearer value.

    Raises AuthenticationError if no credential has this value, or if the credential is not valid any more.
    """
    return _find_token(unit, value) if value.startswith("at_") else find_key(unit, value)


def find_key(unit: Unit, value: str, param: str | None = None) -> Credential:
    """Return the credential of the API key with this value.

    Raises AuthenticationError if no valid key has this value; `param` is the field that the error names.
    """
    row = unit.first(f"{_API_KEY} WHERE k.hash = :hash", {"hash": hash_secret(value)})
    return _read("api_key", row, param)


def require_valid_key(unit: Unit, id: str, param: str) -> None:
    """Raise AuthenticationError, which names the field `param`, unless the API key with this id is valid."""
    _read("api_key", unit.first(f"{_API_KEY} WHERE k.id = :id", {"id": id}), param)


def _find_token(unit: Unit, value: str) -> Credential:
    row = unit.first(
        f"SELECT {_KEY}, t.created, t.expires"
        " FROM tokens AS t JOIN api_keys AS k ON k.id = t.api_key JOIN projects AS p ON p.id = k.project"
        " WHERE t.hash = :hash AND t.kind = 'access'",
        {"hash": hash_secret(value)},
    )
    credential = _find_oauth_token(unit, value) if row is None else _read("access_token", row)
    credential.check_expiry(unit.now)
    return credential


def _find_oauth_token(unit: Unit, value: str) -> Credential:
    row = unit.first(
        f"SELECT {_GRANT}, t.scopes, t.created, t.expires"
        " FROM oauth_tokens AS t JOIN grants AS g ON g.id = t.grant_id JOIN apps AS a ON a.id = g.app"
        " JOIN users AS u ON u.id = g.user_id JOIN projects AS p ON p.id = a.project"
        " WHERE t.hash = :hash AND t.kind = 'access'",
        {"hash": hash_secret(value)},
    )
    return _read("oauth_token", row)


def _read(kind: str, row: Row | None, param: str | None = None) -> Credential:
    if row is None:
        raise AuthenticationError("invalid_credential", "This API key or token is not valid.", param)
    if row["revoked_at"] is not None:
        whose = "The user's permission" if kind == "oauth_token" else "The API key"
        raise AuthenticationError("revoked_credential", f"{whose} was revoked.", param)
    if row["archived_at"] is not None:
        raise AuthenticationError("revoked_credential", "The project of this credential is archived.", param)
    return Credential(
        kind=kind,
        id=row["id"],
        user=row["user_id"],
        project=row["project"],
        livemode=bool(row["livemode"]),
        role=row["role"],
        scopes=None if row["scopes"] is None else frozenset(json.loads(row["scopes"])),
        plan=row["plan"],
        limits=limits_of(row["plan"], row["rate_limit"], row["burst"]),
        may_overdraw=row["overdraft"] == "allow",
        created=row["created"],
        expires_at=row["expires"],
    )


ACCESS_SECONDS = 3600
REFRESH_SECONDS = 30 * 86_400
# An expired token stays stored for this many milliseconds. During this time, a request with the expired token
# gets the error `expired_credential`.
FORGOTTEN_AFTER_MS = 7 * DAY
# The highest number of expired tokens that one transaction deletes; the limit keeps the transaction short.
FORGOTTEN_AT_ONCE = 100


@dataclass(slots=True)
class TokenPair:
    """The values of an access and a refresh token. The access token is valid for `expires_in` seconds."""

    access_token: str
    token_type: Annotated[str, OneOf("Bearer")]
    expires_in: int
    refresh_token: str


def new_pair() -> TokenPair:
    """Return new random values for a pair of tokens.

    Call this outside the transaction that stores the pair, because a transaction may run twice.
    """
    return TokenPair(new_secret("at"), "Bearer", ACCESS_SECONDS, new_secret("rt"))


def exchange(unit: Unit, api_key: str, pair: TokenPair) -> TokenPair:
    """Store the pair for the API key with this value. Raises AuthenticationError unless the key is valid."""
    key = find_key(unit, api_key, "api_key")
    return _store(unit, key.id, pair)


def refresh(unit: Unit, refresh_token: str, pair: TokenPair) -> TokenPair:
    """Mark the refresh token as used, and store the new pair. Raises AuthenticationError.

    One statement checks and marks the token. So if several requests use the token at the same time, exactly
    one of them succeeds.
    """
    used = unit.first(
        "UPDATE tokens SET used_at = :now"
        " WHERE hash = :hash AND kind = 'refresh' AND used_at IS NULL AND expires > :now RETURNING api_key",
        {"hash": hash_secret(refresh_token), "now": unit.now},
    )
    if used is None:
        raise _refusal(unit, refresh_token)
    require_valid_key(unit, used["api_key"], "refresh_token")
    return _store(unit, used["api_key"], pair)


def _refusal(unit: Unit, refresh_token: str) -> AuthenticationError:
    row = unit.first(
        "SELECT used_at, expires FROM tokens WHERE hash = :hash AND kind = 'refresh'",
        {"hash": hash_secret(refresh_token)},
    )
    if row is None:
        return AuthenticationError("invalid_credential", "The refresh token is not valid.", "refresh_token")
    if row["used_at"] is not None:
        return AuthenticationError(
            "invalid_credential", "The refresh token has already been used; each works once.", "refresh_token"
        )
    return ExpiredCredential("The refresh token has expired.", row["expires"], "refresh_token")


def _store(unit: Unit, api_key: str, pair: TokenPair) -> TokenPair:
    secrets = (
        (pair.access_token, "access", ACCESS_SECONDS),
        (pair.refresh_token, "refresh", REFRESH_SECONDS),
    )
    for value, kind, seconds in secrets:
        token = {"hash": hash_secret(value), "kind": kind, "api_key": api_key}
        insert(unit, "tokens", token | {"created": unit.now, "expires": unit.now + seconds * 1000})
    # With each new pair, delete some tokens that expired long ago: the table must not grow for ever.
    unit.execute(
        "DELETE FROM tokens WHERE hash IN"
        " (SELECT hash FROM tokens WHERE expires < :expired ORDER BY expires LIMIT :limit)",
        {"expired": unit.now - FORGOTTEN_AFTER_MS, "limit": FORGOTTEN_AT_ONCE},
    )
    return pair
