"""API keys: long-lived credentials of one project and mode, kept as a hash, shown once (decisions.md 4)."""

from __future__ import annotations

import hashlib
import json
import secrets
import string
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Annotated, ClassVar

from ledger_engine.access import idempotency
from ledger_engine.core.errors import Conflict, InvalidRequest, NotFound, PermissionDenied
from ledger_engine.core.records import Moment, OneOf, dumps
from ledger_engine.core.tenant import ROLES, SCOPES, Scope
from ledger_engine.database import Row, Unit
from ledger_engine.database.pages import Listing, Page, PageRequest

TOPIC = "credentials"  # announced when what a credential may do has changed
NAME_MAX = 255
SECRET_LENGTH = 32
_SECRET_ALPHABET = string.ascii_letters + string.digits


@dataclass(slots=True)
class ApiKey:
    """A key without its value; `last4` is the end of it. `scopes` is None for one that is not restricted."""

    OBJECT: ClassVar[str] = "api_key"

    id: str
    name: str | None
    role: Annotated[str, OneOf(*ROLES)]
    scopes: list[str] | None
    last4: str
    created: Moment
    livemode: bool
    revoked_at: Moment | None


@dataclass(slots=True)
class NewApiKey:
    """`session` marks the key of a dashboard with its own server: it is revoked when that server ends."""

    name: str | None = None
    role: str = "admin"
    scopes: list[str] | None = None
    session: bool = False


def hash_secret(value: str) -> str:
    """What is stored of a key or a token: they are long and random, so a plain SHA-256 is enough."""
    return hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest()


def new_secret(prefix: str) -> str:
    """A fresh value with this prefix; made outside of the work that stores it."""
    return f"{prefix}_{''.join(secrets.choice(_SECRET_ALPHABET) for _ in range(SECRET_LENGTH))}"


def new_value(livemode: bool) -> str:
    """A fresh `sk_test_…` or `sk_live_…`."""
    return new_secret("sk_live" if livemode else "sk_test")


def create(unit: Unit, scope: Scope, new: NewApiKey, value: str, key: str | None = None) -> ApiKey:
    """Store a key with this value for the scope's project and mode.

    Raises PermissionDenied when it would have more rights than the credential that makes it.
    """
    _check(new)
    _require_rights_of(scope, new.role, new.scopes)
    made = ApiKey(
        id=unit.new_id("key"),
        name=new.name,
        role=new.role,
        scopes=None if new.scopes is None else sorted(set(new.scopes)),
        last4=value[-4:],
        created=Moment(unit.now),
        livemode=scope.livemode,
        revoked_at=None,
    )
    idempotency.take(unit, scope, key, made.id)
    unit.execute(
        "INSERT INTO api_keys (id, project, livemode, name, role, scopes, hash, last4, session, created)"
        " VALUES (:id, :project, :livemode, :name, :role, :scopes, :hash, :last4, :session, :created)",
        scope.bind(
            id=made.id,
            name=made.name,
            role=made.role,
            scopes=None if made.scopes is None else dumps(made.scopes),
            hash=hash_secret(value),
            last4=made.last4,
            session=new.session,
            created=made.created,
        ),
    )
    return made


def get(unit: Unit, scope: Scope, id: str) -> ApiKey:
    """The key, revoked or not; raises NotFound."""
    return _read(_row(unit, scope, id))


def page(unit: Unit, scope: Scope, wanted: PageRequest) -> Page[ApiKey]:
    """The keys of the project and mode, newest first, revoked ones too."""
    return _LISTING.page(unit, scope, wanted, {})


def every(unit: Unit, project: str) -> list[ApiKey]:
    """The keys of both modes, newest first; for the local administrator."""
    rows = unit.execute(
        "SELECT * FROM api_keys WHERE project = :project ORDER BY id DESC", {"project": project}
    )
    return [_read(row) for row in rows]


def scope_of(unit: Unit, id: str) -> Scope:
    """The local administrator's scope on the project and mode of this key; raises NotFound."""
    row = unit.first("SELECT project, livemode FROM api_keys WHERE id = :id", {"id": id})
    if row is None:
        raise NotFound("API key", id)
    return Scope(row["project"], bool(row["livemode"]))


def revoke(unit: Unit, scope: Scope, id: str) -> ApiKey:
    """Revoke the key: it and its tokens are refused from now on. Revoking it again changes nothing.

    Raises PermissionDenied when it has more rights than the credential that revokes it: whoever may do
    less must not lock out those who may do more. Any other, the own one included, can be revoked.
    """
    old = get(unit, scope, id)
    _require_rights_of(scope, old.role, old.scopes)
    if old.revoked_at is not None:
        return old
    unit.execute(
        "UPDATE api_keys SET revoked_at = :now"
        " WHERE id = :id AND project = :project AND livemode = :livemode AND revoked_at IS NULL",
        scope.bind(id=id, now=unit.now),
    )
    unit.announce(TOPIC)
    return replace(old, revoked_at=Moment(unit.now))


def roll(unit: Unit, scope: Scope, id: str, value: str, key: str | None = None) -> ApiKey:
    """Revoke the key and make one of the same name and rights, with this value, in its place. The key of a
    session stays one: it ends with its server.

    Raises PermissionDenied as `revoke` does, and Conflict when the key is revoked already: a roll that
    is sent twice must not leave a second key behind.
    """
    row = _row(unit, scope, id)
    old = _read(row)
    new = NewApiKey(old.name, old.role, old.scopes, session=bool(row["session"]))
    # Made first, so that a repeated idempotency key is told as one and not as a key revoked before.
    made = create(unit, scope, new, value, key)
    if old.revoked_at is not None:
        raise Conflict("not_recoverable", f"{id} was revoked before; make a new key instead.")
    revoke(unit, scope, id)
    return made


def revoke_sessions(unit: Unit) -> None:
    """Revoke the keys of dashboards whose servers have ended; called by the process that serves the file."""
    unit.execute(
        "UPDATE api_keys SET revoked_at = :now WHERE session = 1 AND revoked_at IS NULL", {"now": unit.now}
    )
    unit.announce(TOPIC)


def _row(unit: Unit, scope: Scope, id: str) -> Row:
    row = unit.first(
        "SELECT * FROM api_keys WHERE id = :id AND project = :project AND livemode = :livemode",
        scope.bind(id=id),
    )
    if row is None:
        raise NotFound("API key", id)
    return row


def _check(new: NewApiKey) -> None:
    if new.role not in ROLES:
        raise InvalidRequest("invalid_value", "role must be member, admin or owner.", "role")
    if new.name is not None and not 1 <= len(new.name) <= NAME_MAX:
        raise InvalidRequest("invalid_value", f"name must have 1 to {NAME_MAX} characters.", "name")
    if new.scopes is None:
        return
    if not new.scopes:
        raise InvalidRequest("invalid_value", "scopes must name at least one, or be left out.", "scopes")
    for position, name in enumerate(new.scopes):
        if name not in SCOPES:
            raise InvalidRequest("invalid_value", f"scopes are {', '.join(SCOPES)}.", f"scopes.{position}")


def _require_rights_of(scope: Scope, role: str, scopes: list[str] | None) -> None:
    """Raise PermissionDenied unless the scope has all the rights of a key with these."""
    scope.require_role(role)
    if scope.scopes is None:
        return
    if scopes is None:
        raise PermissionDenied(
            "missing_scope", "A restricted credential has no say over a key that is not restricted.", "scopes"
        )
    for name in scopes:
        scope.require_scope(name)


def _read(row: Row) -> ApiKey:
    return ApiKey(
        id=row["id"],
        name=row["name"],
        role=row["role"],
        scopes=None if row["scopes"] is None else json.loads(row["scopes"]),
        last4=row["last4"],
        created=row["created"],
        livemode=bool(row["livemode"]),
        revoked_at=row["revoked_at"],
    )


_LISTING = Listing("api_keys", _read, attrgetter("id"))
