"""Credentials: whose a bearer value is and what it may do."""

from __future__ import annotations

import json
from dataclasses import dataclass

from ledger_engine.access.api_keys import hash_secret
from ledger_engine.access.limits import Plan
from ledger_engine.access.projects import limits_of
from ledger_engine.core.errors import AuthenticationError
from ledger_engine.core.records import Moment
from ledger_engine.core.tenant import Scope
from ledger_engine.database import Row, Unit


@dataclass(slots=True)
class Credential:
    """A credential that is good until `expires_at` (None for an API key).

    `id` is the API key's, also for the key's tokens, or the app's. `user` is whom an app acts for.
    """

    kind: str  # api_key, access_token, oauth_token
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
    def counted_on(self) -> str:
        """What its requests are counted on (decisions.md 10)."""
        return self.id if self.user is None else f"{self.id}/{self.user}"

    def scope(self, request: str) -> Scope:
        """The scope of one request made with this credential."""
        return Scope(
            project=self.project,
            livemode=self.livemode,
            role=self.role,
            scopes=self.scopes,
            quota=self.limits.stored_objects,
            may_overdraw=self.may_overdraw,
            credential=self.id,
            request=request,
        )

    def check_expiry(self, now: int) -> None:
        """Raise AuthenticationError once the credential's time is over."""
        if self.expires_at is not None and now >= self.expires_at:
            raise AuthenticationError("expired_credential", "The access token has expired.")


# What is read of a credential and its project, whichever way it was found.
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
    """The credential with this bearer value; raises AuthenticationError when it is none that counts."""
    return _find_token(unit, value) if value.startswith("at_") else find_key(unit, value)


def find_key(unit: Unit, value: str, param: str | None = None) -> Credential:
    """The API key with this value; raises AuthenticationError, naming `param` where it came in a field."""
    row = unit.first(f"{_API_KEY} WHERE k.hash = :hash", {"hash": hash_secret(value)})
    return _read("api_key", row, param)


def require_good_key(unit: Unit, id: str, param: str) -> None:
    """Raise AuthenticationError, naming `param`, unless the key with this id may still be used."""
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
        raise AuthenticationError("invalid_credential", "The API key or token is not known.", param)
    if row["revoked_at"] is not None:
        whose = "What the user allowed" if kind == "oauth_token" else "The API key"
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
