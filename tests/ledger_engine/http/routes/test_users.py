"""The routes of users, on the directory surface."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest

from ledger_engine.core.clock import DAY
from tests.ledger_engine.manual_clock import ManualClock

Run = Callable[..., Awaitable[Any]]
ADA = {"name": "Ada Lovelace", "email": "Ada@Example.com"}
NOWHERE = "/api/users/usr_00000000000000000000000000"


def refusal(answer: httpx.Response) -> tuple[int, str]:
    """Status and code of an error of the directory surface."""
    error = answer.json()
    of_second_use = {"same_request"} if error["error"] == "duplicate_idempotency_key" else set()
    assert set(error) == {"error", "message"} | of_second_use
    assert isinstance(error["message"], str)
    assert error["message"]
    return answer.status_code, error["error"]


@pytest.fixture
async def ada(api: httpx.AsyncClient) -> dict[str, Any]:
    return dict((await api.post("/api/users", json=ADA)).json())


async def test_a_new_user_is_answered_whole_and_found_again(api: httpx.AsyncClient) -> None:
    answer = await api.post("/api/users", json=ADA | {"role": "admin"})
    assert answer.status_code == 201
    user = answer.json()
    assert user == {
        "id": user["id"],
        "object": "user",
        "name": "Ada Lovelace",
        "email": "Ada@Example.com",
        "role": "admin",
        "status": "active",
        "deactivated_at": None,
        "created": "2026-09-21T14:13:20.000Z",
        "livemode": False,
    }
    assert user["id"].startswith("usr_")
    again = await api.get(f"/api/users/{user['id']}")
    assert (again.status_code, again.json()) == (200, user)


async def test_a_user_is_a_member_by_default(ada: dict[str, Any]) -> None:
    assert ada["role"] == "member"


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"name": "Ada"}, "missing_field"),
        ({"email": "ada@example.com"}, "missing_field"),
        (ADA | {"name": ""}, "invalid_value"),
        (ADA | {"name": 5}, "invalid_value"),
        (ADA | {"email": "ada"}, "invalid_value"),
        (ADA | {"email": None}, "invalid_value"),
        (ADA | {"email": "x" * 300 + "@example.com"}, "invalid_value"),
        (ADA | {"role": "root"}, "invalid_value"),
        (ADA | {"status": "active"}, "unknown_field"),
        (ADA | {"project": "prj_x"}, "unknown_field"),
        (ADA | {"livemode": True}, "unknown_field"),
        (ADA | {"password": "x"}, "unknown_field"),
    ],
)
async def test_a_wrong_body_is_400(api: httpx.AsyncClient, body: dict[str, Any], code: str) -> None:
    assert refusal(await api.post("/api/users", json=body)) == (400, code)
    assert (await api.get("/api/users")).json()["total"] == 0


async def test_an_address_in_use_is_409_in_any_case(api: httpx.AsyncClient, ada: dict[str, Any]) -> None:
    body = {"name": "Another", "email": "ADA@EXAMPLE.COM"}
    assert refusal(await api.post("/api/users", json=body)) == (409, "email_taken")
    await api.delete(f"/api/users/{ada['id']}")
    assert (await api.post("/api/users", json=body)).status_code == 201


async def test_deactivating_answers_the_user_and_does_so_again(
    api: httpx.AsyncClient, ada: dict[str, Any], clock: ManualClock, recorded: Run
) -> None:
    clock.advance(1000)
    first = await api.delete(f"/api/users/{ada['id']}")
    gone = ada | {"status": "deactivated", "deactivated_at": "2026-09-21T14:13:21.000Z"}
    assert (first.status_code, first.json()) == (200, gone)
    clock.advance(1000)
    second = await api.delete(f"/api/users/{ada['id']}")
    assert (second.status_code, second.json()) == (200, gone)
    assert len(await recorded("user.deactivated")) == 1


async def test_a_user_can_be_restored_for_30_days(
    api: httpx.AsyncClient, ada: dict[str, Any], clock: ManualClock
) -> None:
    path = f"/api/users/{ada['id']}"
    await api.delete(path)
    clock.advance(30 * DAY)
    answer = await api.post(f"{path}/restore")
    assert (answer.status_code, answer.json()) == (200, ada)
    await api.delete(path)
    clock.advance(30 * DAY + 1)
    assert refusal(await api.post(f"{path}/restore")) == (409, "not_recoverable")


async def test_a_restore_to_an_address_in_use_is_409(api: httpx.AsyncClient, ada: dict[str, Any]) -> None:
    await api.delete(f"/api/users/{ada['id']}")
    await api.post("/api/users", json=ADA)
    assert refusal(await api.post(f"/api/users/{ada['id']}/restore")) == (409, "email_taken")


async def test_an_unknown_user_is_404(api: httpx.AsyncClient) -> None:
    for answer in (await api.get(NOWHERE), await api.delete(NOWHERE), await api.post(f"{NOWHERE}/restore")):
        assert refusal(answer) == (404, "not_found")


async def test_another_projects_or_modes_user_is_answered_as_none(
    api: httpx.AsyncClient, stranger_api: httpx.AsyncClient, ada: dict[str, Any]
) -> None:
    path = f"/api/users/{ada['id']}"
    answers = [
        await stranger_api.get(path),
        await stranger_api.delete(path),
        await stranger_api.post(f"{path}/restore"),
    ]
    for answer in answers:
        assert refusal(answer) == (404, "not_found")
    assert (await stranger_api.get("/api/users")).json()["total"] == 0
    assert (await api.get(path)).json() == ada
    # The address is free there, and the key too.
    assert (await stranger_api.post("/api/users", json=ADA)).status_code == 201


# Rights


async def test_a_member_may_add_members_but_deactivate_and_restore_nobody(
    api: httpx.AsyncClient, api_with: Run, ada: dict[str, Any]
) -> None:
    member = await api_with(role="member")
    path = f"/api/users/{ada['id']}"
    assert (await member.get(path)).status_code == 200
    assert refusal(await member.delete(path)) == (403, "missing_role")
    assert (await api.get(path)).json() == ada
    await api.delete(path)
    assert refusal(await member.post(f"{path}/restore")) == (403, "missing_role")
    bob = {"name": "Bob", "email": "bob@example.com"}
    for role in ("admin", "owner"):
        assert refusal(await member.post("/api/users", json=bob | {"role": role})) == (403, "missing_role")
    assert (await member.post("/api/users", json=bob)).status_code == 201


async def test_an_admin_makes_admins_but_no_owners(api: httpx.AsyncClient, api_with: Run) -> None:
    assert refusal(await api.post("/api/users", json=ADA | {"role": "owner"})) == (403, "missing_role")
    assert (await api.post("/api/users", json=ADA | {"role": "admin"})).status_code == 201
    owner = await api_with(role="owner")
    bob = {"name": "Bob", "email": "bob@example.com", "role": "owner"}
    assert (await owner.post("/api/users", json=bob)).json()["role"] == "owner"


@pytest.mark.parametrize(
    ("scopes", "reads", "writes"),
    [
        (["read:users"], True, False),
        (["write:projects"], False, True),
        (["read:projects", "admin:billing"], False, False),
    ],
)
async def test_a_restricted_key_does_what_its_scopes_grant(
    api: httpx.AsyncClient,
    api_with: Run,
    ada: dict[str, Any],
    scopes: list[str],
    reads: bool,
    writes: bool,
) -> None:
    restricted = await api_with(scopes=scopes)
    path = f"/api/users/{ada['id']}"
    for answer in (await restricted.get("/api/users"), await restricted.get(path)):
        assert answer.status_code == 200 if reads else refusal(answer) == (403, "missing_scope")
    bob = {"name": "Bob", "email": "bob@example.com"}
    changes = [
        await restricted.post("/api/users", json=bob),
        await restricted.delete(path),
        await restricted.post(f"{path}/restore"),
    ]
    for answer in changes:
        assert answer.is_success if writes else refusal(answer) == (403, "missing_scope")


async def test_a_request_without_a_credential_is_401_in_the_directorys_shape(
    anyone: httpx.AsyncClient,
) -> None:
    assert refusal(await anyone.get("/api/users")) == (401, "missing_credential")
    assert refusal(await anyone.post("/api/users", json=ADA)) == (401, "missing_credential")
    assert refusal(await anyone.delete(NOWHERE)) == (401, "missing_credential")


# The list


async def test_users_are_listed_in_numbered_pages_newest_first(api: httpx.AsyncClient) -> None:
    made = []
    for number in range(23):
        body = {"name": f"User {number}", "email": f"u{number}@example.com"}
        made.append((await api.post("/api/users", json=body)).json())
    made.reverse()
    first = (await api.get("/api/users")).json()
    assert first == {"data": made[:20], "page": 1, "per_page": 20, "total": 23, "total_pages": 2}
    second = (await api.get("/api/users", params={"page": 2})).json()
    assert second == {"data": made[20:], "page": 2, "per_page": 20, "total": 23, "total_pages": 2}
    beyond = (await api.get("/api/users", params={"page": 9, "per_page": 10})).json()
    assert beyond == {"data": [], "page": 9, "per_page": 10, "total": 23, "total_pages": 3}


async def test_users_are_listed_by_role(api: httpx.AsyncClient, ada: dict[str, Any]) -> None:
    bob = {"name": "Bob", "email": "bob@example.com", "role": "admin"}
    bob = (await api.post("/api/users", json=bob)).json()
    page = (await api.get("/api/users", params={"role": "admin"})).json()
    assert (page["data"], page["total"]) == ([bob], 1)
    assert (await api.get("/api/users", params={"role": "owner"})).json()["total_pages"] == 0


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("page=0", "invalid_value"),
        ("page=-1", "invalid_value"),
        ("page=1.0", "invalid_value"),
        ("page=", "invalid_value"),
        ("page=99999999999999999999", "invalid_value"),
        ("per_page=0", "invalid_value"),
        ("per_page=101", "invalid_value"),
        ("per_page=1_0", "invalid_value"),
        ("role=root", "invalid_value"),
        ("page=1&page=2", "invalid_value"),
        ("limit=5", "unknown_field"),
        ("status=active", "unknown_field"),
    ],
)
async def test_a_query_that_is_not_understood_is_refused(
    api: httpx.AsyncClient, query: str, code: str
) -> None:
    assert refusal(await api.get(f"/api/users?{query}")) == (400, code)


# Idempotency keys


async def test_fifty_parallel_creates_with_one_key_are_one_201_and_49_conflicts(
    api: httpx.AsyncClient,
) -> None:
    headers = {"Idempotency-Key": "key-1"}
    bodies = [{"name": "Ada", "email": f"ada{number}@example.com"} for number in range(50)]
    answers = await asyncio.gather(*(api.post("/api/users", json=body, headers=headers) for body in bodies))
    assert Counter(answer.status_code for answer in answers) == {201: 1, 409: 49}
    [user] = (await api.get("/api/users")).json()["data"]
    refused = [answer for answer in answers if answer.status_code == 409]
    assert {refusal(answer) for answer in refused} == {(409, "duplicate_idempotency_key")}
    assert {answer.headers["Idempotency-Original"] for answer in refused} == {user["id"]}


async def test_a_restore_takes_an_idempotency_key(api: httpx.AsyncClient, ada: dict[str, Any]) -> None:
    await api.delete(f"/api/users/{ada['id']}")
    path, headers = f"/api/users/{ada['id']}/restore", {"Idempotency-Key": "key-1"}
    assert (await api.post(path, headers=headers)).status_code == 200
    again = await api.post(path, headers=headers)
    assert refusal(again) == (409, "duplicate_idempotency_key")
    assert again.headers["Idempotency-Original"] == ada["id"]


async def test_a_role_of_null_is_as_if_it_were_left_out(api: httpx.AsyncClient) -> None:
    answer = await api.post("/api/users", json={"name": "Ada", "email": "null@example.com", "role": None})
    assert (answer.status_code, answer.json()["role"]) == (201, "member")
