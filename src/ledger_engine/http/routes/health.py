"""The health of the server, for monitoring (docs/interface.md#directory)."""

from __future__ import annotations

from dataclasses import dataclass

from ledger_engine.core.errors import StorageUnavailable
from ledger_engine.core.records import as_json, dumps
from ledger_engine.http.errors import Rendered, body_of
from ledger_engine.http.operations import Call, Routes
from ledger_engine.store import books

VERSION = "1.4.2"  # the version of the directory's interface (docs/interface.md#versioning)

routes = Routes("health", "/api")


@dataclass(slots=True)
class Health:
    """The health of the server.

    `ok` is false when the storage is lost; `version` is that of the directory's interface, not of this
    server; `notice` says what a person has to decide or to know, null when there is nothing; `copy_of` is the
    address of the server that this ledger is a read-only copy of, null for a ledger of its own.
    """

    ok: bool
    version: str
    notice: str | None
    copy_of: str | None


@dataclass(slots=True)
class Readiness:
    """Whether the server is ready for requests that write."""

    ok: bool


@routes.add("GET", "/health", public=True, in_contract=True)
async def get_health(call: Call) -> Health | Rendered:
    """Report whether the server can work; 503 when its storage is lost."""
    losses = call.engine.losses
    try:
        await call.engine.check()
        copied = await call.engine.read_short(books.source)
    except StorageUnavailable as error:
        return _unavailable(call, Health(False, VERSION, losses.refused or call.engine.notice, None), error)
    notice = call.engine.notice or losses.accepted
    return Health(True, VERSION, notice, None if copied is None else copied.url)


@routes.add("GET", "/health/ready", public=True)
async def get_readiness(call: Call) -> Readiness | Rendered:
    """Report whether a commit succeeds, which is tried at most once a second; 503 when it does not."""
    try:
        await call.engine.check_writable()
    except StorageUnavailable as error:
        return _unavailable(call, Readiness(False), error)
    return Readiness(True)


def _unavailable(call: Call, state: Health | Readiness, error: StorageUnavailable) -> Rendered:
    status, headers, _ = call.refuse(error)
    return status, headers, dumps({**as_json(state), **body_of(error, call.path)}).encode()
