"""Simulate books on several databases: how even the load is, and how many books a further database moves.

`python -m bench.spread` prints a table of the results within seconds. The books' loads follow Zipf's law: the
busiest book has twice the load of the second, and a hundred times the load of the hundredth. The program
compares two ways to choose a book's database. `by_hash` uses a hash of the project (rendezvous hashing), and
needs no list. `by_list` puts each new book into the database with the least load at that time.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from statistics import median

ROUNDS = 20
BOOKS = (10, 100, 1_000)
DATABASES = (2, 4, 8)

Place = Callable[[Sequence[str], Sequence[float], int], list[int]]


@dataclass(frozen=True, slots=True)
class Spread:
    """The result of a simulation.

    `busiest` is the load of the busiest database, and `largest_book` the load of the largest book. Both are
    multiples of the mean load of a database. `moved` is the share of the books that a further database moves.
    """

    busiest: float
    largest_book: float
    moved: float


def by_hash(projects: Sequence[str], loads: Sequence[float], databases: int) -> list[int]:
    """Place each book in the database whose number, hashed with the project, gives the greatest value."""
    return [max(range(databases), key=lambda number: _hash(project, number)) for project in projects]


def by_list(projects: Sequence[str], loads: Sequence[float], databases: int) -> list[int]:
    """Place the books one after another, each in the database with the least load at that time."""
    held = [0.0] * databases
    placed = []
    for load in loads:
        number = min(range(databases), key=held.__getitem__)
        held[number] += load
        placed.append(number)
    return placed


def spread(place: Place, books: int, databases: int, chance: random.Random) -> Spread:
    """Place books with random names in a random order, and return the result."""
    projects = [f"prj_{chance.getrandbits(80):020x}" for _ in range(books)]
    loads = [1 / rank for rank in range(1, books + 1)]
    chance.shuffle(loads)
    placed = place(projects, loads, databases)
    held = [0.0] * databases
    for number, load in zip(placed, loads, strict=True):
        held[number] += load
    mean = sum(loads) / databases
    later = by_hash(projects, loads, databases + 1) if place is by_hash else placed
    moved = sum(before != after for before, after in zip(placed, later, strict=True)) / books
    return Spread(max(held) / mean, max(loads) / mean, moved)


def main() -> None:
    """Print the medians over the rounds."""
    chance = random.Random(1)
    print("| books | databases | largest book | busiest, by hash | busiest, by list | moved, by hash |")
    print("| --- | --- | --- | --- | --- | --- |")
    for books in BOOKS:
        for databases in DATABASES:
            hashed, listed = (
                [spread(place, books, databases, chance) for _ in range(ROUNDS)]
                for place in (by_hash, by_list)
            )
            print(
                f"| {books:,} | {databases} | {hashed[0].largest_book:.2f}"
                f" | {median(each.busiest for each in hashed):.2f}"
                f" | {median(each.busiest for each in listed):.2f}"
                f" | {median(each.moved for each in hashed):.0%} |"
            )


def _hash(project: str, number: int) -> bytes:
    return blake2b(f"{project} {number}".encode(), digest_size=8).digest()


if __name__ == "__main__":
    main()
