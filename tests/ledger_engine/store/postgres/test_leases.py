"""Leases on PostgreSQL: one server holds each lease, and another takes it over when the first ends."""

from __future__ import annotations

import time
from functools import partial

import psycopg
import pytest

from ledger_engine.core.errors import StorageUnavailable
from ledger_engine.store.postgres import leases
from ledger_engine.store.postgres.leases import PostgresLeases
from tests.ledger_engine.conftest import START
from tests.ledger_engine.manual_clock import ManualClock
from tests.ledger_engine.store.postgres.conftest import Serve
from tests.ledger_engine.waiting import looked_until, wait_until

pytestmark = pytest.mark.process
HOUR = 3_600_000


def shorten(monkeypatch: pytest.MonkeyPatch, lasts_s: float = 1.5) -> None:
    monkeypatch.setattr(leases, "LASTS_S", lasts_s)
    monkeypatch.setattr(leases, "MARGIN_S", 0.1)
    monkeypatch.setattr(leases, "RENEWS_EVERY_S", 0.05)


async def until_it_has(server: PostgresLeases, names: set[str]) -> None:
    await looked_until(partial(server.hold, "webhooks", {"a", "b"}), lambda held: held == names)


async def test_a_lease_is_one_servers_until_it_gives_it_back(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    shorten(monkeypatch, lasts_s=600)  # so no lease ends, on a busy machine either
    one, other = (PostgresLeases(serve(ManualClock(START + skew))) for skew in (-HOUR, HOUR))
    assert await one.hold("webhooks", {"a"}) == {"a"}
    assert await other.hold("webhooks", {"a", "b"}) == {"b"}
    assert (await one.leads(), await other.leads()) == (True, False)
    assert (one.first, other.first) == (True, False)
    assert await one.hold("webhooks", set()) == set()
    await until_it_has(other, {"a", "b"})
    assert await other.leads() is False
    await one.end()
    await looked_until(other.leads, bool)
    await other.end()


async def test_the_leases_of_a_killed_server_are_taken_over_when_they_end(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    shorten(monkeypatch)
    one, other = PostgresLeases(serve(ManualClock(START))), PostgresLeases(serve(ManualClock(START)))
    await one.hold("webhooks", {"a", "b"})
    assert one._task is not None
    one._task.cancel()  # as its process ends with it
    lasts_until = one.until
    await until_it_has(other, {"a", "b"})
    assert time.monotonic() > lasts_until
    # It wakes, as from SIGSTOP, and knows before any query that it holds no lease.
    assert await one.hold("webhooks", {"a", "b"}) == set()
    await other.end()


async def test_a_lease_that_nobody_took_stays_with_its_owner(
    serve: Serve, beside: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    shorten(monkeypatch, lasts_s=0.2)
    one, other = PostgresLeases(serve(ManualClock(START))), PostgresLeases(serve(ManualClock(START)))
    await one.hold("webhooks", {"a", "b"})
    await other.hold("webhooks", {"b"})
    for each in (one, other):
        assert each._task is not None
        each._task.cancel()  # each renewal is this test's
    with monkeypatch.context() as patch:

        async def fail(work: object) -> None:
            raise StorageUnavailable("it does not answer")

        for each in (one, other):
            patch.setattr(each._database, "write", fail)
            with pytest.raises(StorageUnavailable):
                await each._renew()
        await until_it_has(one, set())
    ended = "SELECT count(*) FROM leases WHERE until < extract(epoch FROM clock_timestamp()) * 1000"
    wait_until(lambda: beside.execute(ended).fetchall() == [(4,)])  # with the row of each server
    shorten(monkeypatch, lasts_s=600)
    # Each server first renews its leases, so no lease changes its owner.
    await other._renew()
    await one._renew()
    assert await other.hold("webhooks", {"b"}) == set()
    assert await one.hold("webhooks", {"a", "b"}) == {"a", "b"}
    for each in (one, other):
        await each.end()
    assert beside.execute("SELECT count(*) FROM leases").fetchall() == [(0,)]


async def test_a_server_that_comes_gets_half_of_very_many_leases_at_once(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One in two seconds would take 16 minutes for 1,000 endpoints."""
    shorten(monkeypatch, lasts_s=600)
    everything = {f"whe_{number:02}" for number in range(40)}
    one, other = (PostgresLeases(serve(ManualClock(START))) for _ in range(2))
    assert await one.hold("webhooks", everything) == everything
    assert await other.hold("webhooks", everything) == set()
    for each in (one, other):
        assert each._task is not None
        each._task.cancel()  # each renewal is this test's
    await one._renew()
    assert one.releasing == set(sorted(everything)[20:])
    await one.hold("webhooks", everything - one.releasing)
    await other._renew()
    assert await other.hold("webhooks", everything) == one.releasing
    for each in (one, other):
        await each._renew()
        assert await each.hold("webhooks", everything - each.releasing) == (
            set(sorted(everything)[20:]) if each is other else set(sorted(everything)[:20])
        )
        assert each.releasing == set()
    for each in (one, other):
        await each.end()


async def test_leases_are_spread_over_the_servers_one_after_the_other(
    serve: Serve, beside: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    shorten(monkeypatch)
    everything = {"a", "b", "c", "d", "e"}
    servers = [PostgresLeases(serve(ManualClock(START))) for _ in range(3)]

    async def hold_each(present: list[PostgresLeases]) -> list[int]:
        """Make each server hold all names but the ones that it gives up; return how many it holds then."""
        counts = []
        for each in present:
            counts.append(len(await each.hold("webhooks", everything - each.releasing)))
        return sorted(counts)

    async def until_they_have(present: list[PostgresLeases], counts: list[int]) -> None:
        await looked_until(partial(hold_each, present), lambda found: found == counts)

    def owners() -> list[tuple[str, int]]:
        return beside.execute("SELECT name, owner FROM leases WHERE name < 'f' ORDER BY name").fetchall()

    await until_they_have(servers[:1], [5])
    # What is under way is ended first: as long as a lease is named it is not given back.
    alone = owners()
    assert await servers[1].hold("webhooks", everything) == set()
    await looked_until(partial(servers[0].hold, "webhooks", everything), lambda _: bool(servers[0].releasing))
    assert owners() == alone
    await until_they_have(servers[:2], [2, 3])
    await until_they_have(servers, [1, 2, 2])
    settled = owners()
    for _ in range(3):
        await until_they_have(servers, [1, 2, 2])
    assert owners() == settled
    await servers[0].end()
    await until_they_have(servers[1:], [2, 3])
    for each in servers[1:]:
        await each.end()
    assert beside.execute("SELECT count(*) FROM leases").fetchall() == [(0,)]
