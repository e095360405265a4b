"""Rate limits (docs/interface.md#rate-limits; docs/decisions.md#rate-limits), on a wall clock that the tests
move."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial

import pytest

from ledger_engine.access import projects
from ledger_engine.access.projects import NewProject
from ledger_engine.http.app import create_app
from ledger_engine.limits import RateLimits, RateWindows
from ledger_engine.store.engine import Engine
from ledger_engine.store.postgres.rate_counts import RateCounts
from ledger_engine.store.postgres.rate_limits import CountedTogether
from tests.ledger_engine.conftest import MakeKey
from tests.ledger_engine.in_process import client_of
from tests.ledger_engine.limits.counters import MINUTE, Wall, in_postgres


@pytest.fixture(params=["in a dict", pytest.param("in PostgreSQL", marks=pytest.mark.process)])
def counts(request: pytest.FixtureRequest, wall: Wall) -> RateCounts | None:
    return None if request.param == "in a dict" else in_postgres(wall)


@pytest.fixture
async def windows(counts: RateCounts | None, wall: Wall) -> AsyncIterator[RateLimits]:
    if counts is None:
        yield RateWindows(wall)
    else:
        together = CountedTogether(counts, monotonic=wall)
        yield together
        await together.close()


async def test_a_look_shows_the_rest_and_never_less_than_nothing(windows: RateLimits) -> None:
    for _ in range(3):
        await windows.count("key_1", 60, 9)
    assert [(await windows.peek("key_1", limit)).remaining for limit in (1, 3, 4)] == [0, 0, 1]
    for _ in range(3):  # and to look counts nothing
        assert (await windows.peek("key_2", 60)).remaining == 60


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


async def test_a_wall_clock_that_is_set_back_starts_a_window(windows: RateLimits, wall: Wall) -> None:
    assert (await windows.count("key_1", 1, 1)).wait == 0
    wall.seconds -= 3600
    verdict = await windows.count("key_1", 1, 1)
    assert (verdict.wait, verdict.reset) == (0, MINUTE - 3600 + 60)


# In front of the application; the rest is in the contract


async def test_without_a_credential_each_address_has_its_own_count(engine: Engine, wall: Wall) -> None:
    app = create_app(engine, wall_clock=wall)
    for address in ("192.0.2.7", "192.0.2.8"):
        async with client_of(app, address=address) as client:
            statuses = [(await client.get("/nowhere")).status_code for _ in range(11)]
        assert statuses == [404] * 10 + [429]


async def test_lost_storage_is_not_reported_as_a_rate_limit(
    engine: Engine, wall: Wall, make_key: MakeKey
) -> None:
    """20 requests in a second are more than the free plan has, or a caller without a credential."""
    project = await engine.write(partial(projects.create, new=NewProject("Café")))
    async with client_of(create_app(engine, wall_clock=wall), await make_key(of=project.id)) as api:
        await engine.close()
        statuses = {(await api.get("/v1/accounts")).status_code for _ in range(20)}
    assert statuses == {503}
