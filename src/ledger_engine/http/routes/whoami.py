"""The rights of the caller's credential; goes beyond the contract."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ledger_engine.access.credentials import Credential
from ledger_engine.core.records import Moment
from ledger_engine.core.tenant import mode_name
from ledger_engine.http.operations import Call, Routes

routes = Routes("whoami", "/v1")


@dataclass(slots=True)
class Whoami:
    """A credential and its rights.

    `id` is that of the API key, for its tokens too, or of the app; `user` is the user for whom an app acts,
    else None. `mode` is `test` or `live`; `scopes` is None for no restriction; `rate_limit` is in requests a
    minute, `burst` in requests a second; a `_max` of None is no limit.
    """

    OBJECT: ClassVar[str] = "credential"

    id: str
    kind: str
    user: str | None
    project: str
    plan: str
    mode: str
    role: str
    scopes: list[str] | None
    rate_limit: int
    burst: int
    stored_objects_max: int | None
    webhook_endpoints_max: int | None
    created: Moment
    expires_at: Moment | None
    livemode: bool


@routes.add("GET", "/whoami")
async def whoami(call: Call) -> Whoami:
    """Get the caller's credential and its rights."""
    caller = call.caller
    assert isinstance(caller, Credential), "the operation is not public"
    return Whoami(
        id=caller.id,
        kind=caller.kind,
        user=caller.user,
        project=caller.project,
        plan=caller.plan,
        mode=mode_name(caller.livemode),
        role=caller.role,
        scopes=None if caller.scopes is None else sorted(caller.scopes),
        rate_limit=caller.limits.requests_per_minute,
        burst=caller.limits.burst,
        stored_objects_max=caller.limits.stored_objects,
        webhook_endpoints_max=caller.limits.webhook_endpoints,
        created=caller.created,
        expires_at=caller.expires_at,
        livemode=caller.livemode,
    )
