"""The cache of a group: values are read once, written together, seen by later statements, and undone."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import ClassVar, cast

import pytest

from ledger_engine.core.tenant import Tenant
from ledger_engine.store import GroupCache, Unit, Work
from ledger_engine.store import group_cache as holding
from ledger_engine.store.engine import Engine
from ledger_engine.store.sqlite.unit import SqliteUnit
from tests.ledger_engine.store.conftest import Hold, Seen, note, submit

TENANT, OTHER = Tenant("prj_1", livemode=False), Tenant("prj_2", livemode=False)
MADE: list[Notes] = []


class Notes:
    """Notes to be stored; `written` has those of each time they were written."""

    tables: ClassVar = frozenset({"notes"})

    def __init__(self, cache: GroupCache, tenant: Tenant) -> None:
        self._cache = cache
        self.known = [row[0] for row in cache.execute("SELECT text FROM notes ORDER BY rowid", {})]
        self.written: list[list[str]] = []
        self._new: list[str] = []
        MADE.append(self)

    def add(self, text: str) -> None:
        self._new.append(text)
        self._cache.change(self)

    def write(self) -> None:
        new, self._new = self._new, []
        self.written.append(new)
        self._cache.execute_many("INSERT INTO notes (text) VALUES (:text)", [{"text": text} for text in new])


@pytest.fixture(autouse=True)
def made() -> list[Notes]:
    """All that were made."""
    MADE.clear()
    return MADE


def hold_note(text: str, tenant: Tenant = TENANT) -> Work[str]:
    """Return a work that adds a note to those that are held."""

    def work(unit: Unit) -> str:
        unit.cached(Notes, tenant).add(text)
        return text

    return work


def insert(text: str) -> Work[str]:
    """Return a work that inserts a note by itself."""

    def work(unit: Unit) -> str:
        unit.insert_many("notes", ("text",), [(text,)])
        return text

    return work


def count(unit: Unit) -> int:
    return int(unit.execute("SELECT count(*) FROM notes")[0][0])


async def test_a_groups_values_of_a_book_are_read_and_written_once(
    notes: Engine, hold: Hold, seen: Seen, made: list[Notes]
) -> None:
    async with hold():
        tasks = await submit(
            *(notes.write(hold_note(text)) for text in "abc"), notes.write(hold_note("d", OTHER))
        )
    assert await asyncio.gather(*tasks) == list("abcd")
    assert (seen(), [each.written for each in made]) == (list("abcd"), [[list("abc")], [["d"]]])


async def test_a_statement_sees_the_values_held_before_it(
    notes: Engine, hold: Hold, seen: Seen, made: list[Notes]
) -> None:
    async with hold():
        tasks = await submit(
            notes.write(hold_note("a")),
            notes.write(insert("b")),
            notes.write(count),
            notes.write(hold_note("c")),
            notes.write(note("d")),
            notes.write(hold_note("e")),
        )
    assert await asyncio.gather(*tasks) == ["a", "b", 2, "c", "d", "e"]
    assert seen() == list("abcde")
    assert [(each.known, each.written) for each in made] == [
        ([], [["a"]]),
        (list("ab"), [["c"]]),  # the statements of others have changed its table
        (list("abcd"), [["e"]]),
    ]


async def test_a_statement_on_other_tables_leaves_what_is_held_where_it_is(
    notes: Engine, hold: Hold, made: list[Notes]
) -> None:
    async with hold():
        tasks = await submit(
            notes.write(hold_note("a")),
            notes.write(lambda unit: unit.execute("SELECT max(reached) FROM kept_time")),
            notes.write(hold_note("b")),
        )
    await asyncio.gather(*tasks)
    assert [each.written for each in made] == [[["a", "b"]]]


async def test_a_failing_works_values_are_undone_with_it_alone(
    notes: Engine, hold: Hold, seen: Seen, made: list[Notes]
) -> None:
    def fails(unit: Unit) -> None:
        hold_note("half done")(unit)
        raise ValueError("in the middle")

    async with hold():
        tasks = await submit(notes.write(hold_note("a")), notes.write(fails), notes.write(hold_note("b")))
    assert await asyncio.gather(*tasks[::2]) == ["a", "b"]
    with pytest.raises(ValueError, match="in the middle"):
        await tasks[1]
    # The group was run again, with each work written by itself, and what the failed one held was read anew.
    assert (seen(), [each.written for each in made]) == (["a", "b"], [[], [["a"]], [["b"]]])


async def test_a_work_that_fails_before_it_changes_anything_undoes_nothing(
    notes: Engine, hold: Hold, seen: Seen, made: list[Notes]
) -> None:
    def fails(unit: Unit) -> None:
        assert unit.cached(Notes, TENANT).known == []
        raise ValueError("at once")

    async with hold():
        tasks = await submit(notes.write(hold_note("a")), notes.write(fails), notes.write(hold_note("b")))
    assert isinstance((await asyncio.gather(*tasks, return_exceptions=True))[1], ValueError)
    assert (seen(), [each.written for each in made]) == (["a", "b"], [[["a", "b"]]])


@pytest.mark.parametrize("add", [hold_note, insert])
async def test_rows_that_cannot_be_written_fail_the_work_that_holds_them(
    notes: Engine, hold: Hold, seen: Seen, add: object
) -> None:
    async with hold():
        tasks = await submit(*(notes.write(add(text)) for text in ("a", "b", "a", "c")))
    outcome = await asyncio.gather(*tasks, return_exceptions=True)
    assert (outcome[:2], outcome[3]) == (["a", "b"], "c")
    assert isinstance(outcome[2], sqlite3.IntegrityError)
    assert seen() == ["a", "b", "c"]
    with pytest.raises(sqlite3.IntegrityError):  # a lone work has no savepoint
        await notes.write(add("a"))


async def test_values_are_kept_for_the_next_transaction(notes: Engine, seen: Seen, made: list[Notes]) -> None:
    for text in "abc":
        await notes.write(hold_note(text))
    assert (seen(), [each.written for each in made]) == (list("abc"), [[["a"], ["b"], ["c"]]])


async def test_values_that_others_have_written_are_read_again(
    notes: Engine, made: list[Notes], tmp_path: Path
) -> None:
    await notes.write(hold_note("a"))
    with closing(sqlite3.connect(tmp_path / "ledger.db", isolation_level=None)) as other:
        other.execute("INSERT INTO notes (text) VALUES ('by another process')")
    await notes.write(hold_note("b"))
    await notes.write(note("by a statement"))
    await notes.write(hold_note("c"))
    assert [each.known for each in made] == [
        [],
        ["a", "by another process"],
        ["a", "by another process", "b", "by a statement"],
    ]


async def test_rolled_back_values_are_not_kept(notes: Engine, made: list[Notes]) -> None:
    def fails(unit: Unit) -> None:
        hold_note("half done")(unit)
        raise ValueError("in the middle")

    await notes.write(hold_note("a"))
    with pytest.raises(ValueError, match="in the middle"):
        await notes.write(fails)
    await notes.write(hold_note("b"))
    assert [(each.known, each.written) for each in made] == [([], [["a"]]), (["a"], [["b"]])]


async def test_the_cache_of_too_many_books_is_not_kept(
    notes: Engine, made: list[Notes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(holding, "CACHED_MAX", 1)
    for text, tenant in (("a", TENANT), ("b", TENANT), ("c", OTHER), ("d", TENANT)):
        await notes.write(hold_note(text, tenant))
    assert [each.written for each in made] == [[["a"], ["b"]], [["c"]], [["d"]]]


async def test_values_held_again_and_again_take_no_more_memory(notes: Engine) -> None:
    class OfTwoTables(Notes):
        tables: ClassVar = frozenset({"notes", "kept_time"})

    def places(unit: Unit) -> int:
        return sum(map(len, cast(SqliteUnit, unit)._tables.values()))

    for text in "abc":
        await notes.write(lambda unit: unit.cached(OfTwoTables, TENANT))
        await notes.write(note(text))
    await notes.write(lambda unit: unit.cached(OfTwoTables, TENANT))
    assert await notes.write(places) == 2
