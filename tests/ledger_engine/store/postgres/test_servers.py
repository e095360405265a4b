"""Several servers on one PostgreSQL database."""

from __future__ import annotations

import asyncio
import random
import time
from contextlib import closing
from functools import partial
from typing import Any

import psycopg
import pytest

from ledger_engine.access import projects
from ledger_engine.core.errors import NotFound, StorageUnavailable
from ledger_engine.core.tenant import Tenant
from ledger_engine.events.request_log import RequestRecorder
from ledger_engine.events.webhooks.recording import Recording
from ledger_engine.http.operations import _TenantWork
from ledger_engine.ledger import accounts, transactions
from ledger_engine.ledger.balances import Balances
from ledger_engine.ledger.transactions import NewTransaction
from ledger_engine.store import ATTEMPTS, BookKey, BookWork, LongWork, Unit, in_one_book, kept_time
from ledger_engine.store.engine import Engine
from ledger_engine.store.postgres import locks, notifications
from ledger_engine.store.postgres.connection import PostgresConnection
from ledger_engine.store.postgres.errors import ConnectionLost
from ledger_engine.store.postgres.notifications import NotificationFollower
from ledger_engine.store.postgres.rendering import SqlStatement, rendered
from tests import auditing
from tests.ledger_engine.conftest import START
from tests.ledger_engine.events.test_request_log import logged, note
from tests.ledger_engine.manual_clock import ManualClock
from tests.ledger_engine.store.postgres.conftest import Serve
from tests.ledger_engine.waiting import until

pytestmark = pytest.mark.process
HOUR = 3_600_000


class InBook:
    """A work that makes an id and stores it, in one book."""

    def __init__(self, book: BookKey | None) -> None:
        self.book = book

    def __call__(self, unit: Unit) -> str:
        id = unit.new_id("evt")
        unit.execute("INSERT INTO notes (id) VALUES (:id)", {"id": id})
        unit.announce("events")
        return id


@pytest.fixture
def notes(beside: psycopg.Connection) -> psycopg.Connection:
    beside.execute('CREATE TABLE notes (place BIGSERIAL, id TEXT COLLATE "C")')
    return beside


async def test_ids_are_in_the_order_of_commits_though_clocks_differ_by_an_hour(
    serve: Serve, notes: psycopg.Connection
) -> None:
    behind, ahead = serve(ManualClock(START - HOUR)), serve(ManualClock(START + HOUR))
    book = ("prj_1", False)
    for _ in range(10):
        await asyncio.gather(*(each.write(InBook(book)) for each in (behind, ahead) for _ in range(3)))
    ids = [id for (id,) in notes.execute("SELECT id FROM notes ORDER BY place").fetchall()]
    assert len(ids) == 60
    assert ids == sorted(ids)


async def test_a_work_of_the_whole_ledger_follows_those_of_all_books(
    serve: Serve, notes: psycopg.Connection
) -> None:
    behind, ahead = serve(ManualClock(START - HOUR)), serve(ManualClock(START + HOUR))
    first = await ahead.write(InBook(("prj_1", False)))
    second = await behind.write(InBook(None))
    third = await ahead.write(LongWork(InBook(("prj_2", True))))
    assert first < second < third


async def test_postings_on_one_account_through_two_servers_add_up(serve: Serve) -> None:
    one, other = (Engine(serve(ManualClock(START)), ManualClock(START)) for _ in range(2))
    new = projects.NewProject("Roastery", "enterprise", rate_limit=1_000_000, burst=1_000_000)
    tenant = Tenant((await one.write(partial(projects.create, new=new))).id, livemode=False)
    account = await one.write(
        partial(accounts.create, tenant=tenant, new=accounts.NewAccount("A", "usd", {}))
    )

    class Posting:
        book = (tenant.project, tenant.livemode)

        def __call__(self, unit: Unit) -> None:
            transactions.post(unit, tenant, transactions.NewTransaction(account.id, 1, "credit"))

    await asyncio.gather(*(each.write(Posting()) for each in (one, other) for _ in range(50)))
    found = await one.read(partial(accounts.get, tenant=tenant, id=account.id))
    assert found.balance == 100


@pytest.mark.parametrize("seed", range(3))
async def test_a_cache_kept_between_groups_equals_the_state_after_the_commits_of_others(
    serve: Serve, seed: int
) -> None:
    servers = [Engine(serve(ManualClock(START)), ManualClock(START)) for _ in range(2)]
    new = projects.NewProject("Roastery", "enterprise", rate_limit=1_000_000, burst=1_000_000)
    till = accounts.NewAccount("Till", "usd", {})
    books = []
    for livemode in (False, True):
        tenant = Tenant((await servers[0].write(partial(projects.create, new=new))).id, livemode=livemode)
        books.append((tenant, (await servers[0].write(partial(accounts.create, tenant=tenant, new=till))).id))
    balances = [0, 0]

    def half_done(unit: Unit, tenant: Tenant, posting: NewTransaction) -> None:
        transactions.post(unit, tenant, posting)
        raise ValueError("in the middle")

    chance = random.Random(seed)
    for amount in range(1, 60):
        book, server = chance.randrange(2), chance.choice(servers)
        tenant, account = books[book]
        posting = NewTransaction(account, amount, "credit")
        match chance.randrange(8):
            case 0:  # of the whole ledger
                await server.write(partial(transactions.post, tenant=tenant, new=posting))
            case 1:
                with pytest.raises(ValueError, match="in the middle"):
                    await server.write(_TenantWork(in_one_book(half_done), tenant, (posting,), {}))
                continue
            case 2:  # reads, and so keeps nothing
                await server.write(_TenantWork(in_one_book(_hold_balance), tenant, (account,), {}))
                continue
            case _:
                await server.write(_TenantWork(transactions.post, tenant, (posting,), {}))
        balances[book] += amount
    for (tenant, account), balance in zip(books, balances, strict=True):
        found = await servers[0].read(partial(accounts.get, tenant=tenant, id=account))
        assert found.balance == balance
    assert (await servers[0].read(auditing.verify)).fault is None


def _hold_balance(unit: Unit, tenant: Tenant, account: str) -> None:
    unit.cached(Balances, tenant).of(account)


async def test_two_servers_write_two_books_without_hindering_each_other(serve: Serve) -> None:
    servers = [serve(ManualClock(START)) for _ in range(2)]
    engines = [Engine(each, ManualClock(START)) for each in servers]
    new = projects.NewProject("Roastery", "enterprise", rate_limit=1_000_000, burst=1_000_000)
    works = []
    for engine in engines:
        tenant = Tenant((await engine.write(partial(projects.create, new=new))).id, livemode=False)
        till = accounts.NewAccount("Till", "usd", {})
        account = await engine.write(partial(accounts.create, tenant=tenant, new=till))
        works.append(_TenantWork(transactions.post, tenant, (NewTransaction(account.id, 1, "credit"),), {}))
    before = [each.counts.retries for each in servers]
    for _ in range(10):
        await asyncio.gather(
            *(each.write(work) for each, work in zip(engines, works, strict=True) for _ in range(5))
        )
    assert [each.counts.retries for each in servers] == before
    report = await engines[0].read(auditing.verify)
    assert (report.fault, report.transactions) == (None, 100)


async def test_the_listeners_of_other_servers_hear_of_a_commit(
    serve: Serve, notes: psycopg.Connection
) -> None:
    one, other = serve(ManualClock(START)), serve(ManualClock(START))
    heard = asyncio.Event()
    await other.read(lambda unit: None)  # so that it knows this event loop
    other.listen(lambda topics: heard.set() if "events" in topics else None)
    await asyncio.sleep(0)
    while not heard.is_set():  # the other may still be about to listen
        await one.write(InBook(("prj_1", False)))
        await asyncio.wait({asyncio.ensure_future(heard.wait())}, timeout=0.2)


async def test_a_failed_work_leaves_the_other_works_of_its_group_unharmed(
    serve: Serve, notes: psycopg.Connection
) -> None:
    database = serve(ManualClock(START))

    def fail(unit: Unit) -> None:
        unit.execute("INSERT INTO notes (id) VALUES ('spoiled')")
        raise NotFound("account", "acc_1")

    def misspell(unit: Unit) -> None:
        unit.execute("INSERT INTO notes (di) VALUES ('spoiled')")

    def refuse(unit: Unit) -> None:
        unit.execute("SELECT 1 AS one")
        raise NotFound("account", "acc_2")

    good = InBook(("prj_1", False))
    results = await asyncio.gather(
        *(database.write(work) for work in (good, fail, good, misspell, refuse, good)), return_exceptions=True
    )
    assert [type(each).__name__ for each in results] == [
        "str", "NotFound", "str", "DatabaseFailed", "NotFound", "str",
    ]  # fmt: skip
    rows = notes.execute("SELECT id FROM notes ORDER BY place").fetchall()
    assert [id for (id,) in rows] == [results[0], results[2], results[5]]


async def test_a_connection_lost_before_the_commit_is_replaced(
    serve: Serve, notes: psycopg.Connection
) -> None:
    database, runs = serve(ManualClock(START)), 0

    def work(unit: Unit) -> None:
        nonlocal runs
        runs += 1
        (row,) = unit.execute("INSERT INTO notes (id) VALUES ('x') RETURNING pg_backend_pid() AS pid")
        if runs == 1:
            notes.execute("SELECT pg_terminate_backend(%s)", [row["pid"]])

    await database.write(work)
    assert runs == 2
    assert notes.execute("SELECT count(*) FROM notes").fetchall() == [(1,)]


async def test_a_connection_lost_after_the_commit_was_sent_leaves_the_outcome_unknown(
    serve: Serve, notes: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = serve(ManualClock(START))
    await database.write(InBook(None))
    send = PostgresConnection.send

    def lose_after_commit(self: PostgresConnection, statement: SqlStatement, parameters: Any = None) -> None:
        send(self, statement, parameters)
        if statement.text == b"COMMIT":
            self.settle()
            self.close()

    monkeypatch.setattr(PostgresConnection, "send", lose_after_commit)
    with pytest.raises(StorageUnavailable, match="is not known"):
        await database.write(InBook(None))
    monkeypatch.undo()
    assert notes.execute("SELECT count(*) FROM notes").fetchall() == [(2,)]


async def test_readers_with_dead_connections_go_on(serve: Serve, beside: psycopg.Connection) -> None:
    database = serve(ManualClock(START))
    await asyncio.gather(*(database.read(lambda unit: unit.execute("SELECT 1 AS one")) for _ in range(20)))
    beside.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE application_name = 'ledger-engine' AND datname = current_database()"
    )
    found = await asyncio.gather(
        *(database.read(lambda unit: unit.execute("SELECT 1 AS one")) for _ in range(20))
    )
    assert [rows[0]["one"] for rows in found] == [1] * 20


async def test_a_conflict_that_passes_is_tried_again(serve: Serve, notes: psycopg.Connection) -> None:
    database, runs = serve(ManualClock(START)), 0

    def work(unit: Unit) -> None:
        nonlocal runs
        runs += 1
        unit.execute("INSERT INTO notes (id) VALUES ('x')")
        if runs < 3:
            unit.execute("DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '40001'; END $$")

    await database.write(work)
    assert (runs, database.counts.retries) == (3, 2)
    assert notes.execute("SELECT count(*) FROM notes").fetchall() == [(1,)]


async def test_a_lock_that_another_server_keeps_is_503_in_time(
    address: str, beside: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ledger_engine.store.postgres import database as module

    monkeypatch.setattr(module, "_LOCK_S", 0.2)
    database = module.open_database(address, ManualClock(START), serving=True)
    try:
        key = locks.lock_of(("prj_1", False))
        beside.execute("SELECT pg_advisory_lock(%s)", [key])

        def work(unit: Unit) -> None:
            unit.execute("UPDATE kept_time SET reached = reached")

        work.book = ("prj_1", False)  # type: ignore[attr-defined]
        with pytest.raises(StorageUnavailable, match="another server has kept this book locked"):
            await database.write(work)
        beside.execute("SELECT pg_advisory_unlock_all()")
        await database.write(work)
        await database.check()
    finally:
        await database.close()


async def test_an_error_after_the_commit_undoes_and_repeats_nothing(
    serve: Serve, notes: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = serve(ManualClock(START))
    release = locks.Locks.release

    def fail_to_release(self: locks.Locks, connection: PostgresConnection) -> None:
        connection.send(rendered("SELECT 1 / 0"))
        release(self, connection)

    monkeypatch.setattr(locks.Locks, "release", fail_to_release)
    await asyncio.gather(*(database.write(InBook(("prj_1", False))) for _ in range(3)))
    monkeypatch.undo()
    await database.write(InBook(("prj_1", False)))
    assert notes.execute("SELECT count(*) FROM notes").fetchall() == [(4,)]


async def test_a_connection_lost_while_the_commit_was_sent_leaves_the_outcome_unknown(
    serve: Serve, notes: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The follower announces all topics once it follows, which may be later than the call of `listen`.
    monkeypatch.setattr(NotificationFollower, "_follow", lambda self, _connection: self._stopping.wait())
    database = serve(ManualClock(START))
    heard: list[bool] = []
    await database.write(InBook(None))
    database.listen(lambda topics: heard.append("anything" in topics))
    committing = False
    send, settle = PostgresConnection.send, PostgresConnection.settle

    def note_commit(self: PostgresConnection, statement: SqlStatement, parameters: Any = None) -> None:
        nonlocal committing
        committing = statement.text == b"COMMIT"
        send(self, statement, parameters)

    def lose_after_commit(self: PostgresConnection) -> object:
        result = settle(self)
        if committing:
            raise ConnectionLost("it was reset")
        return result

    monkeypatch.setattr(PostgresConnection, "send", note_commit)
    monkeypatch.setattr(PostgresConnection, "settle", lose_after_commit)
    with pytest.raises(StorageUnavailable, match="is not known"):
        await database.write(InBook(None))
    monkeypatch.undo()
    assert heard == [True], "whoever follows commits has to look"
    await database.write(InBook(None))
    assert notes.execute("SELECT count(*) FROM notes").fetchall() == [(3,)]


async def test_a_standby_is_left_for_whoever_can_be_written_to(
    serve: Serve, notes: psycopg.Connection
) -> None:
    database, runs = serve(ManualClock(START)), 0

    def work(unit: Unit) -> None:
        nonlocal runs
        runs += 1
        unit.execute("INSERT INTO notes (id) VALUES ('x')")
        if runs == 1:
            unit.execute("DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '25006'; END $$")

    await database.write(work)
    assert notes.execute("SELECT count(*) FROM notes").fetchall() == [(1,)]


async def test_a_posting_to_a_free_book_waits_for_no_other_book(
    serve: Serve, notes: psycopg.Connection
) -> None:
    database = serve(ManualClock(START))
    books = [("prj_1", False), ("prj_2", False), ("prj_3", True)]
    locked = locks.lock_of(books[0])
    notes.execute("SELECT pg_advisory_lock(%s)", [locked])
    waiting, *others = [asyncio.ensure_future(database.write(InBook(book))) for book in books]
    async with asyncio.timeout(5):  # less than the other server may keep its lock
        await asyncio.gather(*others)
    assert not waiting.done()
    notes.execute("SELECT pg_advisory_unlock(%s)", [locked])
    ids = [await each for each in (waiting, *others)]
    assert sorted(id for (id,) in notes.execute("SELECT id FROM notes").fetchall()) == sorted(ids)


async def test_the_request_log_and_outcomes_of_webhooks_wait_for_no_works_of_other_servers(
    serve: Serve, beside: psycopg.Connection
) -> None:
    """They were works of the whole ledger, many times a second, for which all other servers stopped."""
    database = serve(ManualClock(START))
    engine = Engine(database, ManualClock(START))
    new = projects.NewProject("Roastery", "enterprise")
    tenant = Tenant((await engine.write(partial(projects.create, new=new))).id, livemode=False)
    recorder = RequestRecorder(engine)
    with beside.transaction():
        beside.execute(
            f"SELECT pg_advisory_xact_lock_shared({locks._LEDGER_KEY})"
        )  # as other servers lock it for postings
        recorder.start()
        recorder.note(note(tenant))
        async with asyncio.timeout(5):
            await recorder.stop()
            await Recording(engine, [], {}).run(START)
    assert len(await logged(engine, tenant)) == 1
    # A server that records outcomes leaves no books to the others either.
    with beside.transaction():
        beside.execute("SELECT pg_advisory_xact_lock(%s)", [locks.lock_of(ATTEMPTS)])
        waiting = asyncio.create_task(Recording(engine, [], {}).run(START))
        async with asyncio.timeout(5):
            await engine.write(BookWork(kept_time.reach, tenant.book))
        await until(lambda: database.counts.lock_waits == 1)
    await waiting
    assert database._committer.meets_others_until == 0


async def test_if_other_servers_are_writing_half_of_the_books_are_left_to_them(
    serve: Serve, notes: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[tuple[int, int]] = []
    begin = locks.Locks.begin

    def noted(
        self: locks.Locks, connection: PostgresConnection, wanted: list[int], at_most: int, *of: Any
    ) -> Any:
        begun.append((len(wanted), at_most))
        return begin(self, connection, wanted, at_most, *of)

    database = serve(ManualClock(START))
    books = [(f"prj_{number}", False) for number in range(6)]
    await database.write(InBook(books[0]))
    monkeypatch.setattr(locks.Locks, "begin", noted)
    await asyncio.gather(*(database.write(InBook(book)) for book in books))
    assert begun == [(6, 6)]
    database._committer.meets_others_until = time.monotonic() + 60
    begun.clear()
    await asyncio.gather(*(database.write(InBook(book)) for book in books))
    assert begun == [(6, 3), (3, 3)]


async def test_a_server_stopped_between_its_lock_and_its_transaction_loses_the_lock(
    address: str, beside: psycopg.Connection
) -> None:
    with (
        closing(PostgresConnection(address, 60)) as stopped,
        closing(PostgresConnection(address, 60)) as waiting,
    ):
        server = locks.Locks(1, own=1)
        server.begin(stopped, [7], 1)
        stopped.send(rendered("ROLLBACK"))
        stopped.settle()
        (timeout,) = stopped.rows(rendered("SHOW idle_session_timeout"), {})
        assert timeout[0] == f"{locks.IDLE_MS // 1000}s"
        stopped.send(rendered("SET idle_session_timeout TO 2000"))
        stopped.settle()  # and here it stops
        began = time.monotonic()
        await asyncio.to_thread(server.begin, waiting, [7], 1, [7])
        assert time.monotonic() - began > 1
        waiting.send(rendered("ROLLBACK"))
        server.release(waiting)
        waiting.settle()
        (timeout,) = waiting.rows(rendered("SHOW idle_session_timeout"), {})
        assert timeout[0] == "0", "without locks it may be idle"


async def test_a_server_follows_the_other_servers_again_after_an_error(
    serve: Serve, notes: psycopg.Connection, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    one, other = serve(ManualClock(START)), serve(ManualClock(START))
    monkeypatch.setattr(notifications, "_RECONNECT_S", 0.01)
    heard = asyncio.Event()
    await other.read(lambda unit: None)  # so that it knows this event loop
    other.listen(lambda topics: heard.set() if "events" in topics else None)
    with monkeypatch.context() as patch:

        def fail(*_: object) -> None:
            raise ValueError("of a kind that nobody has thought of")

        patch.setattr(PostgresConnection, "wait_for_notifications", fail)
        await until(lambda: "nobody has thought of" in caplog.text)
    heard.clear()
    while not heard.is_set():
        await one.write(InBook(("prj_1", False)))
        await asyncio.wait({asyncio.ensure_future(heard.wait())}, timeout=0.2)
