"""Rate limits that servers count together. Their windows are tested in `limits/test_rate_limits.py`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

import psycopg
import pytest

from ledger_engine.limits import Verdict
from ledger_engine.store.postgres import rate_counts, rate_limits
from ledger_engine.store.postgres.rate_counts import CountRequest, CountResult
from ledger_engine.store.postgres.rate_limits import CountedTogether
from tests.ledger_engine.limits.counters import MINUTE, Wall, another_in_postgres
from tests.ledger_engine.waiting import looked_until, until
from tests.postgres_server import emptied_database


class Place:
    """A counter that lets ten requests through, and remembers all requests."""

    def __init__(self) -> None:
        self.asked: list[list[CountRequest]] = []
        self.failure: Exception | None = None
        self.hangs = False

    async def count(self, asked: Sequence[CountRequest]) -> list[CountResult]:
        self.asked.append(list(asked))
        await asyncio.sleep(0)
        if self.hangs:
            await asyncio.Event().wait()
        if self.failure is not None:
            raise self.failure
        return [CountResult(min(each.requests, 10), 10, MINUTE * 1000) for each in asked]

    async def close(self) -> None:
        self.asked.clear()


@pytest.fixture
def place() -> Place:
    return Place()


@pytest.fixture
def together(place: Place, wall: Wall) -> CountedTogether:
    return CountedTogether(place, monotonic=wall)


@pytest.fixture
def database() -> str:
    return emptied_database()


@pytest.fixture
def servers(wall: Wall) -> list[CountedTogether]:
    address = emptied_database()
    return [CountedTogether(another_in_postgres(address, wall), monotonic=wall) for _ in range(3)]


@pytest.mark.process
async def test_exactly_the_limit_of_a_burst_over_all_servers_is_let_through(
    servers: list[CountedTogether], wall: Wall
) -> None:
    async def requests_of_a_client(server: CountedTogether, who: str) -> int:
        return sum([(await server.count(who, 600, 50)).wait == 0 for _ in range(20)])

    clients = [(server, f"key_{number}") for number in range(8) for server in servers]
    let_through = await asyncio.gather(*[requests_of_a_client(*each) for each in clients])
    by_caller = {who: 0 for _, who in clients}
    for (_, who), count in zip(clients, let_through, strict=True):
        by_caller[who] += count
    assert set(by_caller.values()) == {50}
    wall.seconds += 1
    verdicts = [await server.count("key_0", 600, 50) for server in servers]
    assert [verdict.remaining for verdict in verdicts] == [549, 548, 547], "the refused did not count"
    for server in servers:
        await server.close()


async def test_requests_that_arrive_at_the_same_time_are_counted_in_one_statement(
    together: CountedTogether, place: Place
) -> None:
    asking = [together.count("key_1", 60, 12) for _ in range(12)] + [together.count("key_2", 10, 9)]
    verdicts = await asyncio.gather(*asking, together.peek("key_1", 60))
    assert place.asked == [[CountRequest("key_1", 12, 60, 12), CountRequest("key_2", 1, 10, 9)]]
    assert [verdict.wait for verdict in verdicts] == [0] * 10 + [1, 1] + [0, 0]
    assert [verdict.remaining for verdict in verdicts] == [*range(59, 49, -1), 0, 0, 0, 50]


async def test_a_refused_caller_is_remembered_until_the_window_ends(
    together: CountedTogether, place: Place, wall: Wall
) -> None:
    await asyncio.gather(*[together.count("key_1", 60, 10) for _ in range(11)])
    await asyncio.gather(*[together.count("key_2", 10, 20) for _ in range(11)])
    assert (await together.count("key_1", 60, 10)).wait == 1
    assert (await together.count("key_2", 10, 20)).wait == 60
    assert len(place.asked) == 2
    wall.seconds += 1
    assert (await together.count("key_2", 10, 20)).wait == 59
    assert len(place.asked) == 2
    await together.count("key_1", 60, 10)
    assert len(place.asked) == 3
    await together.count("key_2", 20, 20)
    assert len(place.asked) == 4, "another limit may not be used up"
    wall.seconds += 59
    await together.count("key_2", 10, 20)
    assert len(place.asked) == 5


async def test_each_refusal_shows_the_limit_and_that_nothing_remains(together: CountedTogether) -> None:
    asked = await asyncio.gather(*[together.count("key_1", 10, 20) for _ in range(11)])
    remembered = await together.count("key_1", 10, 20)
    assert asked[-1] == remembered == Verdict(10, 0, MINUTE + 60, wait=60)
    assert [(await together.peek("key_1", limit)).remaining for limit in (9, 10, 11)] == [0, 0, 1]


async def test_a_look_does_not_change_the_limits_of_a_count(together: CountedTogether, place: Place) -> None:
    await asyncio.gather(together.count("key_1", 60, 12), together.peek("key_1", 30))
    assert place.asked == [[CountRequest("key_1", 1, 60, 12)]]


async def test_a_server_that_cannot_ask_counts_alone_and_asks_again(
    together: CountedTogether, place: Place, wall: Wall, caplog: pytest.LogCaptureFixture
) -> None:
    place.failure = OSError("no route to host")
    with caplog.at_level(logging.WARNING):
        verdicts = [await together.count("key_1", 3, 9) for _ in range(5)]
    assert [verdict.wait > 0 for verdict in verdicts] == [False, False, False, True, True]
    assert len(place.asked) == 1, "nobody waits for it again and again"
    assert (await together.peek("key_2", 60)).remaining == 60
    place.failure = None
    wall.seconds += rate_limits.RETRY_S
    with caplog.at_level(logging.WARNING):
        assert (await together.count("key_1", 20, 20)).remaining == 16, "nobody waits while it tries"
        await until(lambda: len(caplog.records) == 2)
        assert (await together.count("key_1", 20, 20)).remaining == 10
    assert [record.message for record in caplog.records] == [
        "rate limits are counted by this server alone for now: no route to host",
        "rate limits are counted together with other servers again",
    ]


async def test_a_counter_that_does_not_answer_delays_only_the_first_requests(
    together: CountedTogether, place: Place, wall: Wall, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rate_limits, "ANSWER_S", 0.05)
    place.hangs = True
    asking = asyncio.gather(*[together.count(f"key_{number}", 60, 10) for number in range(1000)])
    assert {verdict.wait for verdict in await asking} == {0}
    assert len(place.asked) == 1
    monkeypatch.setattr(rate_limits, "ANSWER_S", 3600)
    for _ in range(3):  # it is tried once at a time, and does not answer
        wall.seconds += rate_limits.RETRY_S
        assert (await together.count("key_1", 60, 10)).wait == 0
        await asyncio.sleep(0)
        assert len(place.asked) == 2


async def test_a_counter_that_fails_again_is_tried_again_after_the_same_time(
    together: CountedTogether, place: Place, wall: Wall
) -> None:
    place.failure = OSError("no route to host")
    for tried in (1, 2, 3):
        for _ in range(3):
            await together.count("key_1", 60, 10)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        assert len(place.asked) == tried
        wall.seconds += rate_limits.RETRY_S


async def test_a_caller_that_waits_at_the_end_is_answered_at_once(
    together: CountedTogether, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rate_limits, "ANSWER_S", 3600)
    place.hangs = True
    before = asyncio.all_tasks()
    waiting = [asyncio.create_task(together.count("key_1", 60, 10)) for _ in range(3)]
    await until(lambda: place.asked)
    late = asyncio.create_task(together.count("key_2", 60, 10))
    await asyncio.sleep(0)
    await together.close()
    verdicts = await asyncio.gather(*waiting, late)
    assert [verdict.wait for verdict in verdicts] == [0, 0, 0, 0]
    assert asyncio.all_tasks() == before, "nothing is asked any more"


async def test_a_request_that_was_given_up_keeps_no_other_from_its_verdict(
    together: CountedTogether, place: Place
) -> None:
    for failure in (None, OSError("no route to host")):
        place.failure = failure
        asking = [asyncio.create_task(together.count("key_1", 60, 9)) for _ in range(2)]
        await asyncio.sleep(0)
        asking[0].cancel()
        assert (await asking[1]).wait == 0
        assert asking[0].cancelled()


async def test_no_more_refusals_are_remembered_than_memory_allows(
    together: CountedTogether, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rate_limits, "_REFUSALS_MAX", 2)
    for number in (1, 2, 3):
        await asyncio.gather(*[together.count(f"key_{number}", 10, 20) for _ in range(11)])
    assert len(place.asked) == 3
    assert (await together.count("key_3", 10, 20)).wait == 60
    assert len(place.asked) == 3, "the last one is remembered"
    await together.count("key_1", 10, 20)
    assert len(place.asked) == 4, "the first one is asked for again"


# On PostgreSQL


@pytest.mark.process
async def test_a_count_that_comes_late_does_not_open_its_window_again(database: str, wall: Wall) -> None:
    """A statement that has waited for another server's has the time at which it began."""
    counter = another_in_postgres(database, wall)
    asked = CountRequest("key_1", 1, 2, 2)
    wall.seconds = MINUTE + 60
    assert [(await counter.count([asked]))[0].granted for _ in range(2)] == [1, 1]
    wall.seconds = MINUTE + 59.9
    assert (await counter.count([asked]))[0] == CountResult(0, 2, (MINUTE + 60) * 1000)
    wall.seconds = MINUTE + 60
    assert (await counter.count([asked]))[0].granted == 0
    await counter.close()


@pytest.mark.process
async def test_a_caller_absent_for_two_minutes_is_forgotten(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rate_counts, "CLEAN_EVERY_S", 0)
    counter = another_in_postgres(database)
    with psycopg.connect(database, autocommit=True) as connection:
        await counter.count([CountRequest("key_1", 1, 9, 9), CountRequest("key_2", 1, 9, 9)])
        connection.execute("UPDATE rate_counts SET moment = moment - 120001 WHERE who = 'key_1'")
        await counter.count([CountRequest("key_3", 1, 9, 9)])
        found = connection.execute("SELECT who FROM rate_counts ORDER BY who").fetchall()
    assert found == [("key_2",), ("key_3",)]
    await counter.close()


@pytest.mark.process
async def test_a_lost_connection_is_opened_again(database: str, wall: Wall) -> None:
    server = CountedTogether(another_in_postgres(database, wall), monotonic=wall)
    await server.count("key_1", 60, 10)
    with psycopg.connect(database, autocommit=True) as connection:
        ended = connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%INTO rate_counts%'"
            " AND datname = current_database() AND pid <> pg_backend_pid()"
        ).fetchall()
    assert (True,) in ended  # those of the tests before may still be ending

    async def count() -> Verdict:
        verdict = await server.count("key_1", 60, 60)
        wall.seconds += rate_limits.RETRY_S
        return verdict

    # The 60 do not include requests that this server may have counted alone.
    await looked_until(count, lambda verdict: verdict.remaining == 58)
    await server.close()


@pytest.mark.process
async def test_a_count_waits_for_no_posting(database: str) -> None:
    counter = another_in_postgres(database)
    with psycopg.connect(database) as connection:
        connection.execute("LOCK TABLE transactions, heads, api_keys IN ACCESS EXCLUSIVE MODE")
        assert (await counter.count([CountRequest("key_1", 1, 9, 9)]))[0].granted == 1
    await counter.close()
