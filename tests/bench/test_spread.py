"""The simulation of books over databases says what its table claims."""

from __future__ import annotations

import random

import pytest

from bench.spread import by_hash, by_list, spread


@pytest.mark.parametrize("databases", [2, 4])
def test_a_hash_moves_only_what_the_further_database_takes(databases: int) -> None:
    moved = spread(by_hash, 2_000, databases, random.Random(1)).moved
    assert moved == pytest.approx(1 / (databases + 1), abs=0.03)


def test_a_list_is_more_even_and_neither_is_better_than_the_largest_book() -> None:
    hashed, listed = (spread(place, 1_000, 4, random.Random(1)) for place in (by_hash, by_list))
    assert 1 <= listed.busiest < hashed.busiest
    assert spread(by_list, 10, 8, random.Random(1)).busiest >= 8 / 2.93
