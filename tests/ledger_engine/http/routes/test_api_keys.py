"""/v1/api_keys (docs/decisions.md#credentials)."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from ledger_engine.access.projects import Project

PATH = "/v1/api_keys"


def bearer(value: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {value}"}


async def test_the_value_of_a_new_key_is_shown_this_once(
    api: httpx.AsyncClient, anyone: httpx.AsyncClient
) -> None:
    answer = await api.post(PATH, json={"name": "Till"})
    assert answer.status_code == 201
    made = answer.json()
    value = made.pop("key")
    assert value.startswith("sk_test_")
    assert made == {
        "id": made["id"],
        "object": "api_key",
        "name": "Till",
        "role": "admin",
        "scopes": None,
        "last4": value[-4:],
        "created": "2026-09-21T14:13:20.000Z",
        "livemode": False,
        "revoked_at": None,
    }
    assert (await anyone.get("/v1/accounts", headers=bearer(value))).status_code == 200
    listed = await api.get(PATH)
    assert listed.json()["data"][0] == made
    assert value not in listed.text


async def test_a_key_can_be_made_with_fewer_rights(api: httpx.AsyncClient, anyone: httpx.AsyncClient) -> None:
    made = await api.post(PATH, json={"role": "member", "scopes": ["read:projects"]})
    assert (made.json()["role"], made.json()["scopes"]) == ("member", ["read:projects"])
    headers = bearer(made.json()["key"])
    assert (await anyone.get("/v1/accounts", headers=headers)).status_code == 200
    assert (await anyone.get("/api/users", headers=headers)).status_code == 403
    assert (await anyone.get(PATH, headers=headers)).status_code == 403


@pytest.mark.parametrize(
    ("body", "code", "param"),
    [
        ({"name": ""}, "invalid_value", "name"),
        ({"name": "x" * 256}, "invalid_value", "name"),
        ({"name": 5}, "invalid_value", "name"),
        ({"role": "root"}, "invalid_value", "role"),
        ({"scopes": []}, "invalid_value", "scopes"),
        ({"scopes": "read:users"}, "invalid_value", "scopes"),
        ({"scopes": ["read:users", "all"]}, "invalid_value", "scopes.1"),
        ({"livemode": True}, "unknown_field", "livemode"),
        ({"mode": "live"}, "unknown_field", "mode"),
        ({"project": "prj_other"}, "unknown_field", "project"),
        ({"key": "sk_test_chosen"}, "unknown_field", "key"),
    ],
)
async def test_a_body_that_does_not_fit_is_400_by_name(
    api: httpx.AsyncClient, body: dict[str, Any], code: str, param: str
) -> None:
    answer = await api.post(PATH, json=body)
    assert answer.status_code == 400
    assert (answer.json()["error"]["code"], answer.json()["error"]["param"]) == (code, param)
    assert len((await api.get(PATH)).json()["data"]) == 1


@pytest.mark.parametrize(
    ("maker", "body", "code"),
    [
        ({"role": "admin"}, {"role": "owner"}, "missing_role"),
        ({"role": "admin", "scopes": ["read:projects", "write:projects"]}, {}, "missing_scope"),
        (
            {"role": "admin", "scopes": ["read:projects", "write:projects"]},
            {"role": "member", "scopes": ["read:users"]},
            "missing_scope",
        ),
    ],
)
async def test_a_key_cannot_make_a_stronger_one(
    anyone: httpx.AsyncClient, make_key: Any, maker: dict[str, Any], body: dict[str, Any], code: str
) -> None:
    headers = bearer(await make_key(**maker))
    answer = await anyone.post(PATH, json=body, headers=headers)
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, code)
    assert len((await anyone.get(PATH, headers=headers)).json()["data"]) == 1


async def test_a_key_makes_keys_of_its_own_mode_and_project(
    anyone: httpx.AsyncClient, make_key: Any, project: Project
) -> None:
    made = await anyone.post(PATH, json={}, headers=bearer(await make_key(livemode=True)))
    assert made.json()["livemode"] is True
    assert made.json()["key"].startswith("sk_live_")
    whoami = await anyone.get("/v1/whoami", headers=bearer(made.json()["key"]))
    assert (whoami.json()["project"], whoami.json()["mode"]) == (project.id, "live")


async def test_the_list_is_the_generic_one_newest_first(api: httpx.AsyncClient, make_key: Any) -> None:
    await make_key(livemode=True)
    made = [(await api.post(PATH, json={"name": f"Till {number}"})).json()["id"] for number in range(4)]
    first = (await api.get(PATH, params={"limit": 3})).json()
    assert [key["id"] for key in first["data"]] == made[:0:-1]
    assert first["has_more"] is True
    second = (await api.get(PATH, params={"limit": 3, "cursor": first["next_cursor"]})).json()
    assert second["data"][0]["id"] == made[0]
    assert (len(second["data"]), second["has_more"], second["next_cursor"]) == (2, False, None)


async def test_a_deleted_key_is_revoked_at_once_and_twice_likewise(
    api: httpx.AsyncClient, anyone: httpx.AsyncClient
) -> None:
    made = (await api.post(PATH, json={})).json()
    headers = bearer(made.pop("key"))
    assert (await anyone.get("/v1/accounts", headers=headers)).status_code == 200
    answer = await api.delete(f"{PATH}/{made['id']}")
    assert answer.status_code == 200
    revoked = answer.json()
    assert revoked == made | {"revoked_at": "2026-09-21T14:13:20.000Z"}
    refused = await anyone.get("/v1/accounts", headers=headers)
    assert (refused.status_code, refused.json()["error"]["code"]) == (401, "revoked_credential")
    again = await api.delete(f"{PATH}/{made['id']}")
    assert (again.status_code, again.json()) == (200, revoked)


async def test_a_key_can_revoke_itself(anyone: httpx.AsyncClient, make_key: Any) -> None:
    headers = bearer(await make_key())
    id = (await anyone.get("/v1/whoami", headers=headers)).json()["id"]
    assert (await anyone.delete(f"{PATH}/{id}", headers=headers)).status_code == 200
    assert (await anyone.get("/v1/whoami", headers=headers)).status_code == 401


async def test_a_roll_replaces_the_key_at_once(api: httpx.AsyncClient, anyone: httpx.AsyncClient) -> None:
    old = (await api.post(PATH, json={"name": "Till", "role": "member", "scopes": ["read:users"]})).json()
    answer = await api.post(f"{PATH}/{old['id']}/roll")
    assert answer.status_code == 201
    new = answer.json()
    assert new["key"] != old["key"]
    assert (new["name"], new["role"], new["scopes"]) == ("Till", "member", ["read:users"])
    assert (await anyone.get("/api/users", headers=bearer(new["key"]))).status_code == 200
    assert (await anyone.get("/api/users", headers=bearer(old["key"]))).status_code == 401


async def test_an_owners_key_is_out_of_an_admins_reach(
    api: httpx.AsyncClient, anyone: httpx.AsyncClient, make_key: Any
) -> None:
    headers = bearer(await make_key(role="owner"))
    id = (await anyone.get("/v1/whoami", headers=headers)).json()["id"]
    for answer in (await api.delete(f"{PATH}/{id}"), await api.post(f"{PATH}/{id}/roll")):
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "missing_role")
    assert (await anyone.get("/v1/whoami", headers=headers)).status_code == 200


@pytest.mark.parametrize("action", ["", "/roll"])
async def test_an_idempotency_key_makes_one_key(
    api: httpx.AsyncClient, anyone: httpx.AsyncClient, action: str
) -> None:
    path = PATH
    if action:
        path = f"{PATH}/{(await api.post(PATH, json={})).json()['id']}{action}"
    once = {"Idempotency-Key": "once"}
    made = await api.post(path, json={}, headers=once)
    assert made.status_code == 201
    again = await api.post(path, json={}, headers=once)
    assert (again.status_code, again.json()["error"]["code"]) == (409, "duplicate_idempotency_key")
    assert again.headers["Idempotency-Original"] == made.json()["id"]
    assert (await anyone.get("/v1/whoami", headers=bearer(made.json()["key"]))).status_code == 200


async def test_a_rolled_key_is_not_rolled_again(api: httpx.AsyncClient) -> None:
    id = (await api.post(PATH, json={})).json()["id"]
    assert (await api.post(f"{PATH}/{id}/roll")).status_code == 201
    again = await api.post(f"{PATH}/{id}/roll")
    assert (again.status_code, again.json()["error"]["code"]) == (409, "not_recoverable")


async def test_a_key_that_is_not_there_is_404(api: httpx.AsyncClient) -> None:
    for answer in (await api.delete(f"{PATH}/key_none"), await api.post(f"{PATH}/key_none/roll")):
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "not_found")
