"""/v1/projects (docs/decisions.md#credentials)."""

from __future__ import annotations

from functools import partial
from typing import Any

import httpx
import pytest

from ledger_engine.access import projects
from ledger_engine.access.projects import NewProject, Project
from ledger_engine.store.engine import Engine

PATH = "/v1/projects"


def bearer(value: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {value}"}


async def test_a_key_sees_its_own_project(api: httpx.AsyncClient, project: Project) -> None:
    answer = await api.get(f"{PATH}/{project.id}")
    assert answer.status_code == 200
    assert answer.json() == {
        "id": project.id,
        "object": "project",
        "name": "Roastery",
        "plan": "enterprise",
        "rate_limit": 1_000_000,
        "burst": 1_000_000,
        "overdraft": "allow",
        "parent": None,
        "created": "2026-09-21T14:13:20.000Z",
        "archived_at": None,
        "livemode": False,
    }
    listed = (await api.get(PATH)).json()
    assert listed == {"data": [answer.json()], "has_more": False, "next_cursor": None}


async def test_a_project_is_seen_in_the_mode_of_the_key(
    anyone: httpx.AsyncClient, make_key: Any, project: Project
) -> None:
    headers = bearer(await make_key(livemode=True))
    assert (await anyone.get(f"{PATH}/{project.id}", headers=headers)).json()["livemode"] is True


async def test_another_project_is_as_one_that_is_not_there(api: httpx.AsyncClient, engine: Engine) -> None:
    other = await engine.write(partial(projects.create, new=NewProject("Other")))
    for id in (other.id, "prj_none"):
        for answer in (
            await api.get(f"{PATH}/{id}"),
            await api.patch(f"{PATH}/{id}", json={"name": "Mine"}),
            await api.delete(f"{PATH}/{id}"),
        ):
            assert (answer.status_code, answer.json()["error"]["code"]) == (404, "not_found")
    assert await engine.read(partial(projects.get, id=other.id)) == other
    assert other.id not in (await api.get(PATH)).text


async def test_a_new_project_comes_with_its_first_key(
    api: httpx.AsyncClient, anyone: httpx.AsyncClient, project: Project
) -> None:
    answer = await api.post(PATH, json={"name": "Branch"})
    assert answer.status_code == 201
    made = answer.json()
    key = made.pop("api_key")
    assert (made["name"], made["parent"], made["plan"]) == ("Branch", project.id, "enterprise")
    assert (await api.get(f"{PATH}/{made['id']}")).json() == made
    assert [each["id"] for each in (await api.get(PATH)).json()["data"]] == [made["id"], project.id]

    headers = bearer(key["key"])
    whoami = (await anyone.get("/v1/whoami", headers=headers)).json()
    assert (whoami["project"], whoami["mode"], whoami["role"]) == (made["id"], "test", "admin")
    assert whoami["id"] == key["id"]
    assert (await anyone.get(f"{PATH}/{project.id}", headers=headers)).status_code == 404


async def test_what_is_in_a_child_stays_out_of_its_parents_sight(
    api: httpx.AsyncClient, anyone: httpx.AsyncClient
) -> None:
    made = (await api.post(PATH, json={"name": "Branch"})).json()
    headers = bearer(made["api_key"]["key"])
    account = await anyone.post("/v1/accounts", json={"name": "Till", "currency": "EUR"}, headers=headers)
    assert account.status_code == 201
    assert (await api.get(f"/v1/accounts/{account.json()['id']}")).status_code == 404
    assert (await api.get("/v1/accounts")).json()["data"] == []
    assert made["api_key"]["id"] not in (await api.get("/v1/api_keys")).text


@pytest.mark.parametrize(
    ("body", "code", "param"),
    [
        ({}, "missing_field", "name"),
        ({"name": None}, "invalid_value", "name"),
        ({"name": ""}, "invalid_value", "name"),
        ({"name": "x" * 256}, "invalid_value", "name"),
        ({"name": "x", "plan": "gold"}, "invalid_value", "plan"),
        ({"name": "x", "overdraft": True}, "invalid_value", "overdraft"),
        ({"name": "x", "rate_limit": 10**6}, "unknown_field", "rate_limit"),
        ({"name": "x", "parent": "prj_other"}, "unknown_field", "parent"),
        ({"name": "x", "archived_at": None}, "unknown_field", "archived_at"),
    ],
)
async def test_a_body_that_does_not_fit_is_400_by_name(
    api: httpx.AsyncClient, body: dict[str, Any], code: str, param: str
) -> None:
    answer = await api.post(PATH, json=body)
    assert answer.status_code == 400
    assert (answer.json()["error"]["code"], answer.json()["error"]["param"]) == (code, param)
    assert len((await api.get(PATH)).json()["data"]) == 1


async def test_only_the_fields_sent_are_changed(api: httpx.AsyncClient, project: Project) -> None:
    before = (await api.get(f"{PATH}/{project.id}")).json()
    answer = await api.patch(f"{PATH}/{project.id}", json={"name": "Café"})
    assert (answer.status_code, answer.json()) == (200, before | {"name": "Café"})
    answer = await api.patch(f"{PATH}/{project.id}", json={"overdraft": "refuse"})
    assert answer.json() == before | {"name": "Café", "overdraft": "refuse"}
    answer = await api.patch(f"{PATH}/{project.id}", json={})
    assert answer.json() == before | {"name": "Café", "overdraft": "refuse"}


@pytest.mark.parametrize(
    ("body", "code", "param"),
    [
        ({"name": None}, "invalid_value", "name"),
        ({"name": ""}, "invalid_value", "name"),
        ({"overdraft": None}, "invalid_value", "overdraft"),
        ({"plan": "enterprise"}, "unknown_field", "plan"),
    ],
)
async def test_a_change_that_does_not_fit_is_400_by_name(
    api: httpx.AsyncClient, project: Project, body: dict[str, Any], code: str, param: str
) -> None:
    answer = await api.patch(f"{PATH}/{project.id}", json=body)
    assert answer.status_code == 400
    assert (answer.json()["error"]["code"], answer.json()["error"]["param"]) == (code, param)


async def test_refusing_overdraft_counts_from_the_next_posting(
    api: httpx.AsyncClient, project: Project
) -> None:
    account = (await api.post("/v1/accounts", json={"name": "Till", "currency": "EUR"})).json()["id"]
    debit = {"account": account, "amount": 1, "type": "debit"}
    assert (await api.post("/v1/transactions", json=debit)).status_code == 201
    await api.patch(f"{PATH}/{project.id}", json={"overdraft": "refuse"})
    refused = await api.post("/v1/transactions", json=debit)
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "insufficient_funds")


async def test_the_credentials_of_an_archived_project_stop_working(
    api: httpx.AsyncClient, anyone: httpx.AsyncClient
) -> None:
    made = (await api.post(PATH, json={"name": "Branch"})).json()
    key = made.pop("api_key")["key"]
    body = {"grant_type": "api_key", "api_key": key}
    token = (await anyone.post("/v1/auth/token", json=body)).json()["access_token"]
    for value in (key, token):
        assert (await anyone.get("/v1/accounts", headers=bearer(value))).status_code == 200

    answer = await api.delete(f"{PATH}/{made['id']}")
    archived = made | {"archived_at": "2026-09-21T14:13:20.000Z"}
    assert (answer.status_code, answer.json()) == (200, archived)
    for value in (key, token):
        refused = await anyone.get("/v1/accounts", headers=bearer(value))
        assert (refused.status_code, refused.json()["error"]["code"]) == (401, "revoked_credential")
    again = await api.delete(f"{PATH}/{made['id']}")
    assert (again.status_code, again.json()) == (200, archived)
    assert (await api.get(PATH)).json()["data"][0] == archived


async def test_a_key_can_archive_its_own_project(api: httpx.AsyncClient, project: Project) -> None:
    assert (await api.delete(f"{PATH}/{project.id}")).status_code == 200
    assert (await api.get(PATH)).status_code == 401


async def test_a_test_key_cannot_archive_a_project_in_live_use(
    api: httpx.AsyncClient, anyone: httpx.AsyncClient, make_key: Any, project: Project
) -> None:
    live = bearer(await make_key(livemode=True))
    refused = await api.delete(f"{PATH}/{project.id}")
    assert (refused.status_code, refused.json()["error"]["type"]) == (403, "permission_error")
    assert (await anyone.get("/v1/accounts", headers=live)).status_code == 200
    assert (await anyone.delete(f"{PATH}/{project.id}", headers=live)).status_code == 200
    assert (await api.get(PATH)).status_code == 401


async def test_an_idempotency_key_makes_one_project(api: httpx.AsyncClient) -> None:
    once = {"Idempotency-Key": "once"}
    made = await api.post(PATH, json={"name": "Branch"}, headers=once)
    again = await api.post(PATH, json={"name": "Branch"}, headers=once)
    assert (made.status_code, again.status_code) == (201, 409)
    assert again.headers["Idempotency-Original"] == made.json()["id"]
    assert len((await api.get(PATH)).json()["data"]) == 2


async def test_an_admin_gives_no_plan_above_the_own_one(
    engine: Engine, anyone: httpx.AsyncClient, make_key: Any
) -> None:
    cafe = await engine.write(partial(projects.create, new=NewProject("Café", "pro")))
    headers = bearer(await make_key(of=cafe.id))
    refused = await anyone.post(PATH, json={"name": "Kiosk", "plan": "enterprise"}, headers=headers)
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "missing_role")
    made = await anyone.post(PATH, json={"name": "Kiosk", "plan": "free"}, headers=headers)
    assert (made.status_code, made.json()["plan"]) == (201, "free")
    owner = bearer(await make_key(of=cafe.id, role="owner"))
    made = await anyone.post(PATH, json={"name": "Kiosk", "plan": "enterprise"}, headers=owner)
    assert (made.status_code, made.json()["plan"]) == (201, "enterprise")


async def test_the_list_takes_a_limit_and_a_cursor(api: httpx.AsyncClient, project: Project) -> None:
    made = [(await api.post(PATH, json={"name": f"Branch {number}"})).json()["id"] for number in range(2)]
    first = (await api.get(PATH, params={"limit": 2})).json()
    assert [each["id"] for each in first["data"]] == made[::-1]
    assert (first["has_more"], first["next_cursor"]) == (True, made[0])
    last = (await api.get(PATH, params={"limit": 2, "cursor": made[0]})).json()
    assert [each["id"] for each in last["data"]] == [project.id]
    assert (last["has_more"], last["next_cursor"]) == (False, None)
    refused = await api.get(PATH, params={"cursor": "prj_none"})
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "invalid_cursor")
