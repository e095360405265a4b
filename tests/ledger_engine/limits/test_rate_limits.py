"""Rate limits (docs/interface.md#rate-limits; docs/decisions.md#rate-limits), on a wall clock that the tests
move."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any

import httpx
import pytest
from quart import Quart

from ledger_engine.access import projects
from ledger_engine.access.projects import NewProject
from ledger_engine.http.app import create_app
from ledger_engine.http.gate.gate import AuthRateLimit
from ledger_engine.limits import RateLimits, Windows
from ledger_engine.limits.counted_together import CountedTogether, Counter
from ledger_engine.limits.shared_windows import SharedWindows, make_memory
from ledger_engine.store.engine import Engine
from tests.ledger_engine.limits.counters import in_postgres, in_redis

MINUTE = 29_833_333 * 60  # the second a minute starts with


class Wall:
    """A wall clock that stands still until told."""

    def __init__(self) -> None:
        self.seconds: float = MINUTE

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def wall() -> Wall:
    return Wall()


@pytest.fixture
def app(engine: Engine, wall: Wall) -> Quart:
    return create_app(engine, wall_clock=wall)


ELSEWHERE = {"in PostgreSQL": in_postgres, "in Redis": in_redis}


@pytest.fixture(
    params=[
        "in one process",
        "over several",
        *[pytest.param(place, marks=pytest.mark.process) for place in ELSEWHERE],
    ]
)
def counter(request: pytest.FixtureRequest, wall: Wall) -> Counter | str:
    return ELSEWHERE[request.param](wall) if request.param in ELSEWHERE else request.param


@pytest.fixture
async def windows(counter: Counter | str, wall: Wall) -> AsyncIterator[RateLimits]:
    if counter == "in one process":
        yield Windows(wall)
    elif isinstance(counter, str):
        file = make_memory()
        yield SharedWindows(file, wall)
        os.close(file)
    else:
        together = CountedTogether(counter, monotonic=wall)
        yield together
        await together.close()


@pytest.fixture
def key_of(engine: Engine, make_key: Any) -> Callable[..., Any]:
    """Make a project and give the header of a key of it."""

    async def make(new: NewProject) -> dict[str, str]:
        project = await engine.write(partial(projects.create, new=new))
        return {"Authorization": f"Bearer {await make_key(of=project.id)}"}

    return make


def limits_in(answer: httpx.Response) -> tuple[int, int, int]:
    """Limit, remaining and reset."""
    names = ("X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset")
    limit, remaining, reset = (int(answer.headers[name]) for name in names)
    return limit, remaining, reset


# The windows themselves


async def test_windows_are_the_wall_clocks_minutes_and_seconds(windows: RateLimits, wall: Wall) -> None:
    wall.seconds = MINUTE + 59.9
    assert (await windows.count("key_1", 60, 1)).reset == MINUTE + 60
    assert (await windows.count("key_1", 60, 1)).wait == 1
    wall.seconds = MINUTE + 60
    verdict = await windows.count("key_1", 60, 1)
    assert (verdict.remaining, verdict.reset, verdict.wait) == (59, MINUTE + 120, 0)


async def test_a_request_refused_for_its_burst_does_not_use_up_the_minute(
    windows: RateLimits, wall: Wall
) -> None:
    verdicts = [await windows.count("key_1", 60, 10) for _ in range(15)]
    assert [verdict.wait for verdict in verdicts] == [0] * 10 + [1] * 5
    assert [verdict.remaining for verdict in verdicts] == [*range(59, 49, -1), 0, 0, 0, 0, 0]
    wall.seconds += 1
    assert (await windows.count("key_1", 60, 10)).remaining == 49


async def test_the_wait_is_the_rest_of_the_minute_once_that_is_used_up(
    windows: RateLimits, wall: Wall
) -> None:
    wall.seconds = MINUTE + 12.7
    verdicts = [await windows.count("key_1", 3, 3) for _ in range(5)]
    assert [verdict.wait for verdict in verdicts] == [0, 0, 0, 48, 48]
    wall.seconds = MINUTE + 59.999
    assert (await windows.count("key_1", 3, 3)).wait == 1


async def test_callers_do_not_use_up_each_others_windows(windows: RateLimits) -> None:
    assert (await windows.count("key_1", 1, 1)).wait == 0
    assert (await windows.count("key_2", 1, 1)).wait == 0
    assert (await windows.count("key_1", 1, 1)).wait > 0


async def test_a_look_counts_nothing(windows: RateLimits) -> None:
    await windows.count("key_1", 60, 10)
    assert [(await windows.peek("key_1", 60)).remaining for _ in range(3)] == [59, 59, 59]
    assert (await windows.peek("key_2", 60)).remaining == 60


async def test_a_wall_clock_that_is_set_back_starts_a_window(windows: RateLimits, wall: Wall) -> None:
    assert (await windows.count("key_1", 1, 1)).wait == 0
    wall.seconds -= 3600
    verdict = await windows.count("key_1", 1, 1)
    assert (verdict.wait, verdict.reset) == (0, MINUTE - 3600 + 60)


# The plans


@pytest.mark.parametrize(
    ("new", "per_minute", "burst"),
    [
        (NewProject("Café"), 60, 10),
        (NewProject("Café", "pro"), 600, 50),
        (NewProject("Café", "enterprise"), 6_000, 200),
        (NewProject("Café", "enterprise", rate_limit=7, burst=3), 7, 3),
    ],
)
async def test_a_plan_allows_so_many_requests_in_one_second(
    anyone: httpx.AsyncClient, key_of: Any, wall: Wall, new: NewProject, per_minute: int, burst: int
) -> None:
    headers = await key_of(new)
    for number in range(1, burst + 1):
        answer = await anyone.get("/v1/whoami", headers=headers)
        assert answer.status_code == 200
        assert limits_in(answer) == (per_minute, per_minute - number, MINUTE + 60)
        assert "Retry-After" not in answer.headers
    refused = await anyone.get("/v1/whoami", headers=headers)
    assert (refused.status_code, refused.headers["Retry-After"]) == (429, "1")
    assert limits_in(refused) == (per_minute, 0, MINUTE + 60)
    wall.seconds += 1
    answer = await anyone.get("/v1/whoami", headers=headers)
    assert (answer.status_code, limits_in(answer)[1]) == (200, per_minute - burst - 1)


@pytest.mark.parametrize(("plan", "per_minute", "burst"), [("free", 60, 10), ("pro", 600, 50)])
async def test_a_plan_allows_so_many_requests_in_one_minute(
    anyone: httpx.AsyncClient, key_of: Any, wall: Wall, plan: str, per_minute: int, burst: int
) -> None:
    headers = await key_of(NewProject("Café", plan))
    for number in range(per_minute):
        wall.seconds = MINUTE + number // burst
        assert (await anyone.get("/v1/whoami", headers=headers)).status_code == 200
    wall.seconds = MINUTE + 30
    refused = await anyone.get("/v1/whoami", headers=headers)
    assert (refused.status_code, refused.headers["Retry-After"]) == (429, "30")
    assert limits_in(refused) == (per_minute, 0, MINUTE + 60)
    wall.seconds = MINUTE + 60
    answer = await anyone.get("/v1/whoami", headers=headers)
    assert (answer.status_code, limits_in(answer)) == (200, (per_minute, per_minute - 1, MINUTE + 120))


# The refusal


@pytest.mark.parametrize("path", ["/v1/whoami", "/api/users", "/nowhere"])
async def test_a_refusal_looks_the_same_on_every_surface(
    anyone: httpx.AsyncClient, key_of: Any, wall: Wall, path: str
) -> None:
    headers = await key_of(NewProject("Café", "enterprise", rate_limit=1, burst=1))
    await anyone.get(path, headers=headers)
    for second, sentence in ((18, "42 seconds"), (59, "1 second")):
        wall.seconds = MINUTE + second
        refused = await anyone.get(path, headers=headers)
        assert refused.status_code == 429
        assert refused.headers["Content-Type"] == "application/json"
        assert refused.json() == {
            "error": "rate_limited",
            "message": f"Too many requests. Try again in {sentence}.",
        }


async def test_a_refused_request_does_nothing(anyone: httpx.AsyncClient, key_of: Any, wall: Wall) -> None:
    headers = await key_of(NewProject("Café", "enterprise", burst=1))
    body = {"name": "Till", "currency": "EUR"}
    made = [(await anyone.post("/v1/accounts", json=body, headers=headers)).status_code for _ in range(3)]
    assert made == [201, 429, 429]
    wall.seconds += 1
    assert len((await anyone.get("/v1/accounts", headers=headers)).json()["data"]) == 1


# Whom a request counts on


async def test_each_key_of_a_project_has_its_own_count(
    anyone: httpx.AsyncClient, engine: Engine, make_key: Any
) -> None:
    new = NewProject("Café", "enterprise", rate_limit=2, burst=2)
    project = await engine.write(partial(projects.create, new=new))
    for value in (await make_key(of=project.id), await make_key(of=project.id)):
        headers = {"Authorization": f"Bearer {value}"}
        statuses = [(await anyone.get("/v1/whoami", headers=headers)).status_code for _ in range(3)]
        assert statuses == [200, 200, 429]


async def test_a_token_counts_on_its_key(anyone: httpx.AsyncClient, key_of: Any) -> None:
    of_key = await key_of(NewProject("Café", "enterprise", rate_limit=3, burst=3))
    body = {"grant_type": "api_key", "api_key": of_key["Authorization"].removeprefix("Bearer ")}
    of_tokens = []
    for _ in range(2):
        token = (await anyone.post("/v1/auth/token", json=body)).json()["access_token"]
        of_tokens.append({"Authorization": f"Bearer {token}"})
    for remaining, headers in zip((2, 1, 0), (of_key, *of_tokens), strict=True):
        assert limits_in(await anyone.get("/v1/whoami", headers=headers))[1] == remaining
    for headers in (of_key, *of_tokens):
        assert (await anyone.get("/v1/whoami", headers=headers)).status_code == 429


async def test_without_a_credential_the_address_counts_at_the_free_plans_limits(
    app: Quart, anyone: httpx.AsyncClient, key_of: Any, wall: Wall
) -> None:
    strangers = [{}, {"Authorization": "Bearer x"}, {"Authorization": f"Bearer sk_test_{'A' * 32}"}]
    for number in range(10):
        answer = await anyone.get("/v1/whoami", headers=strangers[number % 3])
        assert (answer.status_code, limits_in(answer)[:2]) == (401, (60, 59 - number))
    assert (await anyone.get("/v1/whoami")).status_code == 429
    assert (await anyone.get("/nowhere")).status_code == 429

    elsewhere = httpx.ASGITransport(app=app, client=("192.0.2.7", 50_000))
    async with httpx.AsyncClient(transport=elsewhere, base_url="http://ledger.test") as other:
        assert (await other.get("/v1/whoami")).status_code == 401
    headers = await key_of(NewProject("Café"))
    assert (await anyone.get("/v1/whoami", headers=headers)).status_code == 200


async def test_authentication_has_a_stricter_limit_per_address(
    app: Quart, anyone: httpx.AsyncClient, wall: Wall
) -> None:
    """5 in a second and 20 a minute, whatever the credential (docs/decisions.md#rate-limits-auth)."""
    body = {"grant_type": "api_key", "api_key": "sk_test_none"}
    for number in range(20):
        wall.seconds = MINUTE + number // 5
        answer = await anyone.post("/v1/auth/token", json=body)
        assert (answer.status_code, limits_in(answer)) == (401, (20, 19 - number, MINUTE + 60))
        if number % 5 == 4 and number < 19:
            assert (await anyone.post("/v1/auth/token", json=body)).headers["Retry-After"] == "1"
    wall.seconds = MINUTE + 20
    refused = await anyone.post("/v1/auth/token", json=body)
    assert (refused.status_code, refused.headers["Retry-After"]) == (429, "40")
    assert refused.json()["error"] == "rate_limited"

    assert limits_in(await anyone.get("/v1/whoami"))[:2] == (60, 59)
    elsewhere = httpx.ASGITransport(app=app, client=("192.0.2.7", 50_000))
    async with httpx.AsyncClient(transport=elsewhere, base_url="http://ledger.test") as other:
        assert (await other.post("/v1/auth/token", json=body)).status_code == 401


async def test_a_good_key_does_not_widen_the_limit_of_authentication(
    anyone: httpx.AsyncClient, key_of: Any
) -> None:
    headers = await key_of(NewProject("Café", "pro"))
    statuses = [(await anyone.post("/v1/auth/token", json={}, headers=headers)).status_code for _ in range(6)]
    assert statuses == [400] * 5 + [429]


async def test_the_limit_of_authentication_can_be_set(engine: Engine, wall: Wall) -> None:
    app = create_app(engine, auth_rate_limit=AuthRateLimit(per_minute=3, per_second=2), wall_clock=wall)
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url="http://ledger.test") as client:
        waits = []
        for seconds in (0, 0, 0, 1, 1):
            wall.seconds = MINUTE + seconds
            answer = await client.post("/v1/auth/token", json={})
            waits.append(answer.headers.get("Retry-After"))
    assert waits == [None, None, "1", None, "59"]


async def test_health_is_never_refused_and_not_counted(anyone: httpx.AsyncClient, key_of: Any) -> None:
    for _ in range(100):
        answer = await anyone.get("/api/health")
        assert (answer.status_code, limits_in(answer)) == (200, (60, 60, MINUTE + 60))
    while (await anyone.get("/v1/whoami")).status_code != 429:
        pass
    answer = await anyone.get("/api/health")
    assert (answer.status_code, answer.json()["ok"]) == (200, True)
    headers = await key_of(NewProject("Café", "pro"))
    assert limits_in(await anyone.get("/api/health", headers=headers))[:2] == (600, 600)


# Every response carries the headers


async def test_every_response_carries_the_limits_and_a_request_id(
    anyone: httpx.AsyncClient, engine: Engine, key_of: Any, wall: Wall
) -> None:
    headers = await key_of(NewProject("Café"))
    account = {"name": "Till", "currency": "EUR"}
    once = {**headers, "Idempotency-Key": "once"}
    large = b'{"name": "' + b"x" * 2**20 + b'"}'
    seen: dict[int, httpx.Response] = {}
    for expected, method, path, more in [
        (200, "GET", "/v1/accounts", {"headers": headers}),
        (201, "POST", "/v1/accounts", {"headers": once, "json": account}),
        (409, "POST", "/v1/accounts", {"headers": once, "json": account}),
        (400, "POST", "/v1/accounts", {"headers": headers, "json": {}}),
        (401, "GET", "/v1/accounts", {}),
        (403, "GET", "/v1/billing", {"headers": headers}),
        (404, "GET", "/v1/accounts/acc_none", {"headers": headers}),
        (404, "GET", "/nowhere", {"headers": headers}),
        (405, "PUT", "/v1/accounts", {"headers": headers}),
        (413, "POST", "/v1/accounts", {"headers": headers, "content": large}),
        (414, "GET", "/v1/accounts?account=" + "x" * 9000, {"headers": headers}),
        (431, "GET", "/v1/accounts", {"headers": {**headers, "X-Note": "x" * 17_000}}),
    ]:
        wall.seconds += 0.5
        seen[expected] = await anyone.request(method, path, **more)
        assert seen[expected].status_code == expected

    await engine.write(lambda unit: unit.execute("ALTER TABLE accounts RENAME TO elsewhere"))
    seen[500] = await anyone.get("/v1/accounts", headers=headers)
    while 429 not in seen:
        answer = await anyone.get("/v1/whoami", headers=headers)
        seen[answer.status_code] = answer
    await engine.close()
    seen[503] = await anyone.get("/v1/accounts", headers={"Authorization": f"Bearer sk_test_{'A' * 32}"})

    for status, answer in seen.items():
        assert answer.status_code == status
        limit, remaining, reset = limits_in(answer)
        assert (limit, reset) == (60, MINUTE + 60)
        assert 0 <= remaining < 60 or status == 503
        assert answer.headers["Request-Id"].startswith("req_")
        assert ("Retry-After" in answer.headers) == (status == 429)


async def test_lost_storage_is_not_reported_as_a_rate_limit(
    anyone: httpx.AsyncClient, engine: Engine, key_of: Any
) -> None:
    headers = await key_of(NewProject("Café"))
    await engine.close()
    statuses = {(await anyone.get("/v1/accounts", headers=headers)).status_code for _ in range(20)}
    assert statuses == {503}
