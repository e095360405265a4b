"""A server never continues on a database that is older than the commits that it has seen.

These tests make a database look older: they change the counts of commits that announced something.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import psycopg
import pytest

from ledger_engine.core.errors import StorageUnavailable
from ledger_engine.store import BookKey, Unit
from ledger_engine.store.engine import Engine, open_engine
from ledger_engine.store.postgres import notifications, seen
from ledger_engine.store.postgres.seen import SeenCommits
from tests.ledger_engine.conftest import START
from tests.ledger_engine.manual_clock import ManualClock
from tests.ledger_engine.waiting import looked_until, until

pytestmark = pytest.mark.process
LACKS = "The storage is not available: it lacks changes that were acknowledged. Nothing was changed."
GO_ON = " It is not used. Bring the right database back; or, to continue without the missing changes, start"
_END = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
    " WHERE application_name = 'ledger-engine' AND datname = current_database()"
)
Start = Callable[..., Engine]


class Change:
    """A work in a book that announces its change."""

    book: BookKey = ("prj_1", False)

    def __call__(self, unit: Unit) -> None:
        unit.execute("UPDATE kept_time SET reached = reached")
        unit.announce("events")


@pytest.fixture
async def start(address: str) -> AsyncIterator[Start]:
    """Return a function that opens the database for one more server, with these options."""
    async with AsyncExitStack() as opened:

        def one_more(**options: object) -> Engine:
            engine = open_engine(address, clock=ManualClock(START), serving=True, **options)  # type: ignore[arg-type]
            opened.push_async_callback(engine.close)
            return engine

        yield one_more


def one(unit: Unit) -> object:
    """Read something, which ends the doubts about commits that no notification confirmed."""
    return unit.execute("SELECT 1 AS one")


def go_back(beside: psycopg.Connection, by: int) -> None:
    """Make the database lack this many commits of each server, or contain them again."""
    beside.execute("UPDATE heads SET announced = announced - %s WHERE lock = server AND announced > 0", [by])
    beside.execute(_END)


async def test_a_database_without_the_acknowledged_changes_is_not_used_until_it_contains_them(
    start: Start, beside: psycopg.Connection
) -> None:
    engine = start()
    for _ in range(3):
        await engine.write(Change())
    go_back(beside, 2)
    for asked in (lambda: engine.write(Change()), engine.check):
        with pytest.raises(StorageUnavailable) as refused:
            await asked()
        assert refused.value.message == LACKS
    assert engine.losses.refused is not None
    assert engine.losses.refused.startswith(
        "The database that can be reached lacks 2 commits that this server has acknowledged since 2"
    )
    assert GO_ON in engine.losses.refused
    go_back(beside, -2)
    await engine.check()
    await engine.write(Change())
    assert (engine.losses.refused, engine.losses.commits) == (None, 0)


async def test_with_accept_loss_a_server_goes_on_and_says_what_is_lost(
    start: Start, beside: psycopg.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    engine = start(accept_loss=True)
    for _ in range(3):
        await engine.write(Change())
    go_back(beside, 2)
    await engine.write(Change())
    await engine.check()
    assert engine.losses.commits == 2
    assert engine.losses.refused is None
    assert engine.losses.accepted is not None
    assert engine.losses.accepted.startswith(
        "With --accept-loss this server uses a database that lacks 2 commits that this server has"
    )
    assert caplog.messages[-1].endswith(" Changes by book: 2 in the test mode of prj_1.")


async def test_a_commit_is_counted_once_while_other_connections_are_opened(
    start: Start, beside: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader looks at the database when a commit is there, and its thread has not noted it yet."""
    engine = start()
    committed = SeenCommits.note_commit

    def note_late(self: SeenCommits, *given: Any) -> None:
        beside.execute(f"{_END} AND pid <> ALL(SELECT pid FROM pg_locks WHERE locktype = 'advisory')")
        asyncio.run_coroutine_threadsafe(engine.read(one), loop).result()
        committed(self, *given)

    loop = asyncio.get_running_loop()
    monkeypatch.setattr(SeenCommits, "note_commit", note_late)
    await engine.write(Change())
    monkeypatch.undo()
    go_back(beside, 0)
    await engine.check()


async def test_missing_commits_of_other_servers_are_noticed_after_a_restart_too(
    start: Start, beside: psycopg.Connection, tmp_path: Path
) -> None:
    engine, other = start(state=tmp_path), start()
    await other.write(Change())
    file = tmp_path / "postgresql.json"

    def has_seen_it() -> bool:
        return file.exists() and any(
            announced for announced, _ in json.loads(file.read_text())["commits"].values()
        )

    await looked_until(lambda: engine.read(one), lambda _: has_seen_it())
    go_back(beside, 1)

    async def refused() -> str | None:
        with contextlib.suppress(StorageUnavailable):
            await engine.check()
        return engine.losses.refused

    lacks = "lacks 1 commit that other servers have acknowledged, the last one at 2"
    assert lacks in str(await looked_until(refused, bool))
    for each in (engine, other):
        await each.close()
    with pytest.raises(StorageUnavailable) as at_start:
        start(state=tmp_path)
    assert at_start.value.message == LACKS
    assert lacks in str(at_start.value)
    await start(state=tmp_path, accept_loss=True).close()
    await start(state=tmp_path).check()


async def test_a_server_that_accepted_a_loss_does_not_hide_the_loss_from_other_servers(
    start: Start, beside: psycopg.Connection
) -> None:
    engine, accepting = start(), start(accept_loss=True)
    for _ in range(3):
        await accepting.write(Change())
    await looked_until(lambda: engine.read(one), lambda _: has_seen(engine, 3))
    go_back(beside, 2)
    for _ in range(3):  # as many as were lost, and one more
        await accepting.write(Change())
    assert accepting.losses.commits == 2

    async def refused() -> str | None:
        with contextlib.suppress(StorageUnavailable):
            await engine.check()
        return engine.losses.refused

    assert "lacks 2 commits that other servers" in str(await looked_until(refused, bool))
    beside.execute(_END)
    for _ in range(3):
        with pytest.raises(StorageUnavailable, match="lacks changes"):
            await engine.check()
    await accepting.write(Change())
    assert accepting.losses.commits == 2


def has_seen(engine: Engine, commits: int) -> bool:
    database: Any = engine._database
    return any(each.announced == commits for each in dict(database._seen_commits._commits).values())


async def test_a_server_that_is_stopped_knows_at_its_next_start_all_that_it_has_acknowledged(
    start: Start, beside: psycopg.Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notifications, "POLL_S", 100_000)
    engine = start(state=tmp_path)
    for _ in range(3):
        await engine.write(Change())
    await engine.close()
    go_back(beside, 3)
    with pytest.raises(StorageUnavailable, match="lacks 3 commits that other servers have acknowledged"):
        start(state=tmp_path)


async def test_a_server_that_is_killed_has_each_change_in_its_folder_before_the_answer(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = start(state=tmp_path)
    file = tmp_path / "postgresql.json"
    await until(file.exists)
    for number in range(1, 4):
        await engine.write(Change())
        kept = json.loads(file.read_text())
        assert (kept["acknowledged"][0], len(kept["commits"])) == (number, 1)


def test_a_loss_is_told_in_plain_sentences() -> None:
    works = Counter({("prj_1", False): 2, ("prj_2", True): 1, ("", False): 1})
    assert seen._by_book(works) == (
        " Changes by book: 2 in the test mode of prj_1, 1 in the live mode of prj_2,"
        " 1 in the records of the servers."
    )


async def test_the_order_of_timelines_is_that_of_the_servers_own_cluster(
    start: Start, beside: psycopg.Connection, tmp_path: Path
) -> None:
    (system,) = beside.execute("SELECT system_identifier FROM pg_control_system()").fetchone() or ()
    kept = {"place": [system, 7], "commits": {}}
    Path(tmp_path, "postgresql.json").write_text(json.dumps(kept))
    with pytest.raises(StorageUnavailable, match=r"is on timeline 1 .* and this server has seen timeline 7"):
        start(state=tmp_path)
    kept["place"] = [system + 1, 7]  # the folder was moved to this cluster
    Path(tmp_path, "postgresql.json").write_text(json.dumps(kept))
    await start(state=tmp_path).check()


async def test_a_folder_that_cannot_be_used_stops_no_server(
    start: Start, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    Path(tmp_path, "postgresql.json").write_text("{}")
    await start(state=tmp_path).check()
    assert "the record of the commits seen before this start cannot be read: " in caplog.text
    await start(state=tmp_path / "missing").write(Change())
    await until(lambda: "cannot be written for the next start" in caplog.text)
