"""The health of the server, for whoever watches over it (interface.md, Directory surface)."""

from __future__ import annotations

from dataclasses import dataclass

from quart import Response

from ledger_engine.core.errors import StorageUnavailable
from ledger_engine.core.records import as_json, dumps
from ledger_engine.http.errors import status_of
from ledger_engine.http.operations import Call, Routes

VERSION = "1.4.2"  # of the directory's interface (interface.md, Versioning)

routes = Routes("health", "/api")


@dataclass(slots=True)
class Health:
    """`ok` is false when the storage is lost; `version` is that of the directory's interface."""

    ok: bool
    version: str


@routes.add("GET", "/health", public=True, answer=Health)
async def get_health(call: Call) -> Health | Response:
    """Tell whether the server can do its work; 503 when its storage is lost."""
    try:
        await call.engine.check()
    except StorageUnavailable as error:
        body = {**as_json(Health(False, VERSION)), "error": error.code, "message": error.message}
        return Response(dumps(body), status=status_of(error), content_type="application/json")
    return Health(True, VERSION)
