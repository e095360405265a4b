"""What the works of one group gather: written together, seen by all that follows, undone with its work."""

from __future__ import annotations

import asyncio
import sqlite3

import pytest

from ledger_engine.database import Unit, Work
from ledger_engine.database.engine import Engine
from tests.ledger_engine.database.conftest import Hold, Seen, note, submit

Statements = list[list[str]]


class Rows:
    """Rows that are gathered; `written` has those of each time they were written."""

    def __init__(self, unit: Unit, written: Statements) -> None:
        self._unit = unit
        self._written = written
        self.texts: list[str] = []

    def write(self) -> None:
        self._written.append(self.texts)
        self._unit.insert_many("notes", ("text",), [(text,) for text in self.texts])
        self._unit.announce("gathered")


@pytest.fixture
def written() -> Statements:
    return []


@pytest.fixture
def commits(notes: Engine) -> list[frozenset[str]]:
    """The topics of each commit."""
    heard: list[frozenset[str]] = []
    notes.listen(heard.append)
    return heard


def gather(text: str, written: Statements, *, key: str = "rows") -> Work[str]:
    """Return a work that gathers one row."""

    def work(unit: Unit) -> str:
        rows = unit.gather(key, lambda apart: Rows(apart, written))
        assert rows is not None
        rows.texts.append(text)
        return text

    return work


def count(unit: Unit) -> int:
    return int(unit.execute("SELECT count(*) FROM notes")[0][0])


async def test_what_a_group_gathers_is_written_together_and_announced(
    notes: Engine, hold: Hold, seen: Seen, written: Statements, commits: list[frozenset[str]]
) -> None:
    async with hold():
        tasks = await submit(*(notes.write(gather(text, written)) for text in "abc"))
    assert await asyncio.gather(*tasks) == list("abc")
    assert (seen(), written, commits) == (list("abc"), [list("abc")], [frozenset({"gathered"})])


async def test_a_statement_sees_what_was_gathered_before_it(
    notes: Engine, hold: Hold, seen: Seen, written: Statements
) -> None:
    async with hold():
        tasks = await submit(
            notes.write(gather("a", written)),
            notes.write(gather("b", written, key="others")),
            notes.write(count),
            notes.write(gather("c", written)),
            notes.write(note("d")),
        )
    assert await asyncio.gather(*tasks) == ["a", "b", 2, "c", "d"]
    assert (seen(), written) == (list("abcd"), [["a"], ["b"], ["c"]])


async def test_a_statement_apart_leaves_what_was_gathered_where_it_is(
    notes: Engine, hold: Hold, written: Statements
) -> None:
    async with hold():
        tasks = await submit(notes.write(gather("a", written)), notes.write(lambda unit: count(unit.apart)))
    assert await asyncio.gather(*tasks) == ["a", 0]


async def test_what_a_failing_work_gathers_is_undone_with_it_alone(
    notes: Engine, hold: Hold, seen: Seen, written: Statements, commits: list[frozenset[str]]
) -> None:
    def fails(unit: Unit) -> None:
        gather("half done", written)(unit)
        raise ValueError("in the middle")

    async with hold():
        tasks = await submit(
            notes.write(gather("a", written)), notes.write(fails), notes.write(gather("b", written))
        )
    assert await asyncio.gather(*tasks[::2]) == ["a", "b"]
    with pytest.raises(ValueError, match="in the middle"):
        await tasks[1]
    # The group was run again, with each work written by itself.
    assert (seen(), written, commits) == (["a", "b"], [["a"], ["b"]], [frozenset({"gathered"})])


async def test_rows_that_cannot_be_written_fail_the_work_that_gathered_them(
    notes: Engine, hold: Hold, seen: Seen, written: Statements
) -> None:
    async with hold():
        tasks = await submit(*(notes.write(gather(text, written)) for text in ("a", "b", "a", "c")))
    outcome = await asyncio.gather(*tasks, return_exceptions=True)
    assert (outcome[:2], outcome[3]) == (["a", "b"], "c")
    assert isinstance(outcome[2], sqlite3.IntegrityError)
    assert seen() == ["a", "b", "c"]
    with pytest.raises(sqlite3.IntegrityError):  # a lone work has no savepoint
        await notes.write(gather("a", written))
