"""GET /v1/whoami (docs/decisions.md#credentials)."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from ledger_engine.access.projects import Project
from ledger_engine.core.clock import iso
from tests.ledger_engine.manual_clock import ManualClock

START = 1_790_000_000_000


def bearer(value: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {value}"}


@pytest.mark.parametrize(("livemode", "mode"), [(False, "test"), (True, "live")])
async def test_a_key_learns_what_it_is(
    anyone: httpx.AsyncClient, make_key: Any, project: Project, livemode: bool, mode: str
) -> None:
    key = await make_key(livemode=livemode, role="member", scopes=["write:projects", "read:users"])
    answer = await anyone.get("/v1/whoami", headers=bearer(key))
    assert answer.status_code == 200
    shown = answer.json()
    assert shown.pop("id").startswith("key_")
    assert shown == {
        "object": "credential",
        "kind": "api_key",
        "user": None,
        "project": project.id,
        "plan": "enterprise",
        "mode": mode,
        "role": "member",
        "scopes": ["read:users", "write:projects"],
        "rate_limit": 1_000_000,
        "burst": 1_000_000,
        "stored_objects_max": None,
        "webhook_endpoints_max": None,
        "created": iso(START),
        "expires_at": None,
        "livemode": livemode,
    }


async def test_a_token_learns_its_keys_rights_and_its_own_end(
    anyone: httpx.AsyncClient, make_key: Any, clock: ManualClock
) -> None:
    key = await make_key()
    of_key = (await anyone.get("/v1/whoami", headers=bearer(key))).json()
    clock.advance(1000)
    token = await anyone.post("/v1/auth/token", json={"grant_type": "api_key", "api_key": key})
    shown = (await anyone.get("/v1/whoami", headers=bearer(token.json()["access_token"]))).json()
    assert shown == of_key | {
        "kind": "access_token",
        "created": iso(START + 1000),
        "expires_at": iso(START + 1000 + 3_600_000),
    }
    assert shown["scopes"] is None


async def test_no_scope_is_needed_to_learn_which_there_are(anyone: httpx.AsyncClient, make_key: Any) -> None:
    key = await make_key(role="member", scopes=["admin:billing"])
    assert (await anyone.get("/v1/whoami", headers=bearer(key))).status_code == 200
