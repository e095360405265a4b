"""API keys: long-lived credentials of one project and mode. A key is shown once, and stored as a hash.

See docs/decisions.md#credentials. Some functions are for the local administrator, who runs the commands of
`ledger-engine` on the database.
"""

from __future__ import annotations

import hashlib
import secrets
import string
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, ClassVar

from ledger_engine.access import idempotency
from ledger_engine.core.errors import Conflict, InvalidRequest, NotFound, PermissionDenied
from ledger_engine.core.ids import ApiKeyId
from ledger_engine.core.records import Moment, OneOf, dumps
from ledger_engine.core.tenant import ROLES, SCOPES, Tenant
from ledger_engine.store import Unit, Value
from ledger_engine.store.engine import Engine
from ledger_engine.store.pages import Listing, Page, PageRequest
from ledger_engine.store.rows import insert, reader, update_row

# After each commit that changed the rights of a credential, the engine notifies its listeners of this topic.
TOPIC = "credentials"
NAME_MAX = 255
SECRET_LENGTH = 32
_SECRET_ALPHABET = string.ascii_letters + string.digits


@dataclass(slots=True)
class ApiKey:
    """An API key without its value. `last4` are the value's last letters; `scopes` is None for no limit."""

    OBJECT: ClassVar[str] = "api_key"

    id: ApiKeyId
    name: str | None
    role: Annotated[str, OneOf(*ROLES)]
    scopes: list[Annotated[str, OneOf(*SCOPES)]] | None
    last4: str
    created: Moment
    livemode: bool
    revoked_at: Moment | None


@dataclass(slots=True)
class NewApiKey:
    """The fields of a new API key.

    `session` marks the key of a program that works with one server, such as a dashboard that runs its own
    server. Such a key is revoked when the server ends. `server` is the id of this server if several servers
    can serve the ledger; otherwise it is None.
    """

    name: str | None = None
    role: str = "admin"
    scopes: list[str] | None = None
    session: bool = False
    server: str | None = None


def hash_secret(value: str) -> str:
    """Return the hash under which the value of an API key or token is stored.

    These values are long and random and cannot be guessed, so a plain SHA-256 is enough.
    """
    return hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest()


def new_secret(prefix: str) -> str:
    """Return a new random value with this prefix.

    Call this outside the transaction that stores the value: a transaction may run twice.
    """
    return f"{prefix}_{''.join(secrets.choice(_SECRET_ALPHABET) for _ in range(SECRET_LENGTH))}"


def new_value(livemode: bool) -> str:
    """Return a new value `sk_test_…` or `sk_live_…` for an API key."""
    return new_secret("sk_live" if livemode else "sk_test")


def create(unit: Unit, tenant: Tenant, new: NewApiKey, value: str, key: str | None = None) -> ApiKey:
    """Store an API key with this value for the project and mode of the tenant.

    Raises PermissionDenied if the key would have more rights than the credential that creates it.
    """
    _check(new)
    _require_rights_of(tenant, new.role, new.scopes)
    api_key = ApiKey(
        id=unit.new_id("key"),
        name=new.name,
        role=new.role,
        scopes=None if new.scopes is None else sorted(set(new.scopes)),
        last4=value[-4:],
        created=Moment(unit.now),
        livemode=tenant.livemode,
        revoked_at=None,
    )
    idempotency.take(unit, tenant, key, api_key.id)
    values = tenant.bind(
        id=api_key.id,
        name=api_key.name,
        role=api_key.role,
        scopes=None if api_key.scopes is None else dumps(api_key.scopes),
        hash=hash_secret(value),
        last4=api_key.last4,
        session=new.session,
        server=new.server,
        created=api_key.created,
    )
    insert(unit, "api_keys", values)
    return api_key


def ensure(unit: Unit, tenant: Tenant, value: str) -> None:
    """Create an owner's API key with this value, unless the tenant already has such a key.

    Raises Conflict if a key with this value was revoked, has fewer rights or belongs to another project or
    mode. Raises the errors of `create` too.
    """
    row = unit.first("SELECT * FROM api_keys WHERE hash = :hash", {"hash": hash_secret(value)})
    if row is None:
        create(unit, tenant, NewApiKey("known key", "owner"), value)
        return
    key = _read(row)
    if (row["project"], key.livemode) != (tenant.project, tenant.livemode):
        reason = f"is a key of another project, {row['project']}"
    elif key.revoked_at is not None:
        reason = "has been revoked; take another value"
    elif row["session"] or key.role != "owner" or key.scopes is not None:
        reason = "does not have all rights of an owner; take another value"
    else:
        return
    raise Conflict("not_recoverable", f"The key {key.id} {reason}.")


def get(unit: Unit, tenant: Tenant, id: str) -> ApiKey:
    """Return the API key, revoked or not. Raises NotFound."""
    return _LISTING.get(unit, tenant, id)


def page(unit: Unit, tenant: Tenant, request: PageRequest) -> Page[ApiKey]:
    """Return a page of the API keys of the project and mode, revoked keys included, newest first."""
    return _LISTING.page(unit, tenant, request, {})


def every(unit: Unit, project: str) -> list[ApiKey]:
    """Return a project's API keys of both modes, newest first; for the local administrator."""
    rows = unit.execute(
        "SELECT * FROM api_keys WHERE project = :project ORDER BY id DESC", {"project": project}
    )
    return [_read(row) for row in rows]


def in_use(unit: Unit) -> list[tuple[str, ApiKey]]:
    """Return all valid API keys except the keys of sessions, each with its project, newest first."""
    rows = unit.execute(
        "SELECT k.* FROM api_keys AS k JOIN projects AS p ON p.id = k.project"
        " WHERE k.revoked_at IS NULL AND k.session = 0 AND p.archived_at IS NULL ORDER BY k.id DESC"
    )
    return [(row["project"], _read(row)) for row in rows]


def has_any(unit: Unit) -> bool:
    """Return whether any project has a valid key that is not the key of a session."""
    return unit.first("SELECT 1 FROM api_keys WHERE revoked_at IS NULL AND session = 0 LIMIT 1") is not None


def tenant_of(unit: Unit, id: str) -> Tenant:
    """Return the tenant for the project and mode of a key, with all rights, for the local administrator.

    Raises NotFound.
    """
    row = unit.first("SELECT project, livemode FROM api_keys WHERE id = :id", {"id": id})
    if row is None:
        raise NotFound("API key", id)
    return Tenant(row["project"], bool(row["livemode"]))


def revoke(unit: Unit, tenant: Tenant, id: str) -> ApiKey:
    """Revoke the API key: the key and its tokens are refused from now on.

    A key that is already revoked is not changed. A caller may revoke its own key. Raises NotFound, and
    PermissionDenied if the key has more rights than the caller: a credential must not lock out a credential
    with more rights.
    """
    old = get(unit, tenant, id)
    _require_rights_of(tenant, old.role, old.scopes)
    if old.revoked_at is not None:
        return old
    update_row(unit, tenant, "api_keys", id, revoked_at=unit.now)
    unit.announce(TOPIC)
    return replace(old, revoked_at=Moment(unit.now))


def remove(unit: Unit, id: str) -> None:
    """Delete an API key whose value was never shown to anybody."""
    unit.execute("DELETE FROM api_keys WHERE id = :id", {"id": id})


def roll(unit: Unit, tenant: Tenant, id: str, value: str, key: str | None = None) -> ApiKey:
    """Revoke the API key, and create a key with this value and with the old key's name and rights.

    If the key belongs to a session, the new key belongs to the same session, and is revoked when the server
    of the session ends. Raises PermissionDenied as `revoke` does. Raises Conflict if the key is already
    revoked, because rolling a key twice must not create two new keys.
    """
    row = _LISTING.row(unit, tenant, id)
    old = _read(row)
    new = NewApiKey(old.name, old.role, old.scopes, bool(row["session"]), row["server"])
    # Create the key first: a repeated request must fail because of its idempotency key, and not because the
    # API key is already revoked.
    api_key = create(unit, tenant, new, value, key)
    if old.revoked_at is not None:
        raise Conflict("not_recoverable", f"{id} has already been revoked; create a new key instead.")
    revoke(unit, tenant, id)
    idempotency.store_ids(unit, tenant, key, [id, api_key.id])
    return api_key


def _check(new: NewApiKey) -> None:
    if new.role not in ROLES:
        raise InvalidRequest("invalid_value", "role must be member, admin or owner.", "role")
    if new.name is not None and not 1 <= len(new.name) <= NAME_MAX:
        raise InvalidRequest("invalid_value", f"name must have 1 to {NAME_MAX} characters.", "name")
    if new.scopes is None:
        return
    if not new.scopes:
        raise InvalidRequest(
            "invalid_value",
            "scopes must contain at least one scope; leave it out for an unrestricted key.",
            "scopes",
        )
    for position, name in enumerate(new.scopes):
        if name not in SCOPES:
            raise InvalidRequest(
                "invalid_value", f"scopes must be among {', '.join(SCOPES)}.", f"scopes.{position}"
            )


def _require_rights_of(tenant: Tenant, role: str, scopes: list[str] | None) -> None:
    """Raise PermissionDenied unless the tenant holds all rights of a key with this role and these scopes."""
    tenant.require_role(role)
    if tenant.scopes is None:
        return
    if scopes is None:
        raise PermissionDenied(
            "missing_scope", "A restricted credential cannot manage an unrestricted key.", "scopes"
        )
    for name in scopes:
        tenant.require_scope(name)


_read = reader(ApiKey)
_LISTING: Listing[ApiKey] = Listing("api_keys", "API key", _read)


# Sessions: keys that are revoked when their server ends, such as the key of a dashboard that runs its own
# server. If several servers can serve one ledger, each server has a row in `servers`, and increments the
# count `beats` in this row at intervals. If the count of server A stays the same during several beats of
# server B, server B concludes that server A has ended, and deletes the row of server A. So the servers need
# not compare clocks. If the server of a session has no row, the next beat of any server revokes the key of
# the session.


_VALID_SESSION_KEY = "session = 1 AND revoked_at IS NULL"


def end_all(unit: Unit) -> None:
    """Revoke the keys of all sessions. Call this only if no other server serves the ledger."""
    _revoke(unit, "session = 1")


@asynccontextmanager
async def key_of(
    engine: Engine, find_tenant: Callable[[Unit], Tenant], rights: NewApiKey
) -> AsyncIterator[str]:
    """Create an API key, and yield its value; at the end of the block, revoke the key."""
    tenant = await engine.read(find_tenant)
    value = new_value(tenant.livemode)
    key = await engine.write(partial(create, tenant=tenant, new=rights, value=value))
    try:
        yield value
    finally:
        await engine.write(partial(revoke, tenant=tenant, id=key.id))


@dataclass(frozen=True, slots=True)
class ServerEntry:
    """The row of a server, for a ledger that several servers can serve.

    `url` is None if another program owns the server's socket. `host` is the name of the server's machine.
    `beaten` is the time of the server's last beat, by the server's own clock.
    """

    id: str
    url: str | None
    host: str | None
    version: str | None
    started: int | None
    beaten: int | None = None


def begin(unit: Unit, server: ServerEntry) -> None:
    """Store the row of a server that has started."""
    _note_beat(unit, server, 0)


def beat(unit: Unit, server: ServerEntry, silent: Mapping[str, int]) -> dict[str, int]:
    """Count a beat of `server`, and return the counts of the other servers.

    `silent` contains the ids of the servers whose counts have not changed for too long, each with its count.
    If the stored count of such a server is still the same, the server has ended. This function then deletes
    the server's row, and revokes the keys of the server's sessions.
    """
    _note_beat(unit, server, 1)
    for id, beats in silent.items():
        unit.execute("DELETE FROM servers WHERE id = :id AND beats = :beats", {"id": id, "beats": beats})
    _revoke(unit, "(server IS NULL OR server NOT IN (SELECT id FROM servers))")
    rows = unit.execute("SELECT id, beats FROM servers WHERE id <> :id", {"id": server.id})
    return {row["id"]: row["beats"] for row in rows}


def servers(unit: Unit) -> list[ServerEntry]:
    """Return the servers that have a row, in the order in which they started."""
    names = ("id", "url", "host", "version", "started", "beaten")
    rows = unit.execute(f"SELECT {', '.join(names)} FROM servers ORDER BY started, id")
    return [ServerEntry(*(row[name] for name in names)) for row in rows]


def end(unit: Unit, server: str) -> None:
    """Delete the row of a server that ends, and revoke the keys of its sessions."""
    unit.execute("DELETE FROM servers WHERE id = :id", {"id": server})
    _revoke(unit, "server = :server", {"server": server})


def _note_beat(unit: Unit, server: ServerEntry, count: int) -> None:
    unit.execute(
        "INSERT INTO servers (id, beats, url, host, version, started, beaten)"
        " VALUES (:id, :count, :url, :host, :version, :started, :now)"
        " ON CONFLICT (id) DO UPDATE SET beats = servers.beats + :count, beaten = :now",
        {
            "id": server.id,
            "count": count,
            "url": server.url,
            "host": server.host,
            "version": server.version,
            "started": server.started,
            "now": unit.now,
        },
    )


def _revoke(unit: Unit, which: str, parameters: Mapping[str, Value] | None = None) -> None:
    rows = unit.execute(
        f"UPDATE api_keys SET revoked_at = :now WHERE {_VALID_SESSION_KEY} AND {which} RETURNING id",
        {"now": unit.now, **(parameters or {})},
    )
    if rows:
        unit.announce(TOPIC)
