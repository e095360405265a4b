"""/v1/billing (docs/interface.md#scopes; docs/decisions.md#projects, #credentials)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import httpx
import pytest
from quart import Quart

from ledger_engine.access import projects
from ledger_engine.access.projects import NewProject, Project
from ledger_engine.store.engine import Engine

PATH = "/v1/billing"


@pytest.fixture
async def cafe(engine: Engine) -> Project:
    new = NewProject("Café", "enterprise", rate_limit=7_000, burst=300)
    return await engine.write(partial(projects.create, new=new))


@pytest.fixture
async def owner(app: Quart, cafe: Project, make_key: Any) -> AsyncIterator[httpx.AsyncClient]:
    """Yield a client with an owner's key of the café."""
    headers = {"Authorization": f"Bearer {await make_key(of=cafe.id, role='owner')}"}
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(
        transport=transport, base_url="http://ledger.test", headers=headers
    ) as client:
        yield client


async def test_an_owner_sees_the_plan_and_what_is_used_of_it(owner: httpx.AsyncClient, cafe: Project) -> None:
    await owner.post("/v1/accounts", json={"name": "Till", "currency": "EUR"})
    answer = await owner.get(PATH)
    assert answer.status_code == 200
    assert answer.json() == {
        "id": cafe.id,
        "object": "billing",
        "plan": "enterprise",
        "rate_limit": 7_000,
        "burst": 300,
        "stored_objects": 1,
        "stored_objects_max": None,
        "webhook_endpoints_max": None,
        "created": "2026-09-21T14:13:20.000Z",
        "livemode": False,
    }


async def test_one_mode_does_not_see_what_the_other_holds(
    owner: httpx.AsyncClient, anyone: httpx.AsyncClient, cafe: Project, make_key: Any
) -> None:
    await owner.post("/v1/accounts", json={"name": "Till", "currency": "EUR"})
    live = {"Authorization": f"Bearer {await make_key(of=cafe.id, role='owner', livemode=True)}"}
    shown = (await anyone.get(PATH, headers=live)).json()
    assert (shown["stored_objects"], shown["livemode"]) == (0, True)


@pytest.mark.parametrize(
    ("plan", "figures"),
    [
        ("free", (60, 10, 10_000, 5)),
        ("pro", (600, 50, 500_000, 50)),
        ("enterprise", (7_000, 300, None, None)),
    ],
)
async def test_another_plan_counts_from_the_next_request(
    owner: httpx.AsyncClient, plan: str, figures: tuple[int, int, int | None, int | None]
) -> None:
    answer = await owner.patch(PATH, json={"plan": plan})
    assert answer.status_code == 200
    shown = answer.json()
    names = ("rate_limit", "burst", "stored_objects_max", "webhook_endpoints_max")
    assert (shown["plan"], tuple(shown[name] for name in names)) == (plan, figures)
    after = await owner.get(PATH)
    assert after.json() == shown
    assert after.headers["X-RateLimit-Limit"] == str(figures[0])


async def test_no_field_changes_nothing(owner: httpx.AsyncClient) -> None:
    before = (await owner.get(PATH)).json()
    answer = await owner.patch(PATH, json={})
    assert (answer.status_code, answer.json()) == (200, before)


@pytest.mark.parametrize(
    ("body", "code", "param"),
    [
        ({"plan": None}, "invalid_value", "plan"),
        ({"plan": "gold"}, "invalid_value", "plan"),
        ({"rate_limit": 10**6}, "unknown_field", "rate_limit"),
        ({"stored_objects": 0}, "unknown_field", "stored_objects"),
    ],
)
async def test_a_change_that_does_not_fit_is_400_by_name(
    owner: httpx.AsyncClient, body: dict[str, Any], code: str, param: str
) -> None:
    answer = await owner.patch(PATH, json=body)
    assert answer.status_code == 400
    assert (answer.json()["error"]["code"], answer.json()["error"]["param"]) == (code, param)
    assert (await owner.get(PATH)).json()["plan"] == "enterprise"


async def test_a_test_key_cannot_change_the_plan_that_live_keys_rest_on(
    owner: httpx.AsyncClient, anyone: httpx.AsyncClient, cafe: Project, make_key: Any
) -> None:
    """Test data never touches live balances (docs/interface.md#service-test-keys)."""
    live = {"Authorization": f"Bearer {await make_key(of=cafe.id, role='owner', livemode=True)}"}
    answer = await owner.patch(PATH, json={"plan": "free"})
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (403, "missing_live_key")
    assert "live key" in error["message"]
    assert (await owner.get(PATH)).json()["plan"] == "enterprise"
    assert (await owner.patch(PATH, json={"plan": "enterprise"})).status_code == 200
    assert (await anyone.patch(PATH, json={"plan": "pro"}, headers=live)).json()["plan"] == "pro"
