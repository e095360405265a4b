"""Rows read in parts: each once and in order, however the times in their ids are spread."""

import random
from bisect import bisect_right
from itertools import pairwise

import pytest

from ledger_engine.core.ids import IdSource
from ledger_engine.store.id_ranges import Parts, TooLong

ROWS = 50
READ_MAX = 4 * ROWS


class Table:
    """Ids in their order, with how many times the end of a part was asked for."""

    def __init__(self, ids: list[str]) -> None:
        self.ids = ids
        self.ends = 0
        self.sizes: list[int] = []

    def read(self, after: str, last: str, guessed: bool) -> tuple[list[str], int]:
        found = self.ids[bisect_right(self.ids, after) : bisect_right(self.ids, last)]
        if guessed and len(found) > READ_MAX:
            raise TooLong
        self.sizes.append(len(found))
        return found, len(found)

    def end(self, after: str) -> str | None:
        self.ends += 1
        following = self.ids[bisect_right(self.ids, after) :][:ROWS]
        return following[-1] if following else None

    def all(self, after: str = "", *, guessing: bool = True) -> list[str]:
        parts = Parts(self.read, self.end, ROWS, after=after, guessing=guessing)
        return [id for part in parts for id in part]


def ids_at(moments: list[int]) -> list[str]:
    source = IdSource()
    return [source.new("txn", moment) for moment in moments]


def steady(count: int) -> list[int]:
    return [1_700_000_000_000 + 100 * number for number in range(count)]


def test_the_ends_of_steady_rows_are_guessed_after_the_second_part() -> None:
    table = Table(ids_at(steady(2_000)))
    assert table.all() == table.ids
    assert table.ends == 3  # the first two, and the one that says that nothing follows
    assert max(table.sizes) < 1.2 * ROWS


def test_without_guessing_each_end_is_exact() -> None:
    table = Table(ids_at(steady(1_000)))
    assert table.all(guessing=False) == table.ids
    assert set(table.sizes) == {ROWS}


def test_it_begins_after_an_id() -> None:
    table = Table(ids_at(steady(500)))
    assert table.all(table.ids[123]) == table.ids[124:]


def test_a_rush_is_read_in_parts_that_are_not_too_long() -> None:
    quiet, rush = steady(200), [1_700_000_000_000 + 100 * 200] * 5_000
    table = Table(ids_at(quiet + rush))
    assert table.all() == table.ids
    assert max(table.sizes) <= READ_MAX


def test_a_gap_is_passed_over_with_an_exact_end() -> None:
    early = steady(200)
    table = Table(ids_at(early + [moment + 365 * 86_400_000 for moment in early]))
    assert table.all() == table.ids
    assert table.ends < 10


@pytest.mark.parametrize("ids", [["a", "b"], [f"x{number:05}" for number in range(300)], ["TXN_é"], []])
def test_ids_that_the_ledger_has_not_made_are_read_too(ids: list[str]) -> None:
    table = Table(sorted(ids))
    assert table.all() == table.ids


def test_rows_of_any_times_are_each_read_once_and_in_order(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(50):
        moments, moment = [], 1_700_000_000_000
        for _ in range(chance.randrange(30)):
            step = chance.choice((0, 0, 1, 50, 10_000, 10**9))
            for _ in range(chance.randrange(100)):
                moment += step
                moments.append(moment)
        table = Table(ids_at(moments))
        found = table.all()
        assert found == table.ids
        assert all(one < other for one, other in pairwise(found))
        assert max(table.sizes, default=0) <= READ_MAX
