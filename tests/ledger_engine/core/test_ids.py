"""Ids sort by time, are unique, and are UUIDs of version 7 underneath."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger_engine.core.ids import IdSource, first_at, id_pattern, is_id, moment_of

CROCKFORD = "0123456789abcdefghjkmnpqrstvwxyz"
NOW = 1_790_000_000_000
moments = st.integers(min_value=0, max_value=2**48 - 1)


def as_uuid(id: str) -> uuid.UUID:
    value = 0
    for letter in id.partition("_")[2]:
        value = value * 32 + CROCKFORD.index(letter)
    return uuid.UUID(int=value)


@given(moments)
def test_an_id_is_a_prefix_and_a_uuid_of_version_7_with_its_moment(moment: int) -> None:
    id = IdSource().new("acc", moment)
    prefix, _, rest = id.partition("_")
    assert (prefix, len(rest)) == ("acc", 26)
    assert as_uuid(id).version == 7
    assert as_uuid(id).variant == uuid.RFC_4122
    assert as_uuid(id).int >> 80 == moment == moment_of(id)
    assert is_id(id, "acc")
    assert re.search(id_pattern("txn", "acc"), id)
    assert not re.search(id_pattern("txn"), id)


@given(st.lists(moments, max_size=100))
def test_ids_rise_whatever_the_clock_does(clock: list[int]) -> None:
    source = IdSource()
    made = [source.new("txn", moment) for moment in clock]
    assert made == sorted(set(made))


def test_ids_of_one_millisecond_rise() -> None:
    source = IdSource()
    made = [source.new("txn", NOW) for _ in range(10_000)]
    assert made == sorted(set(made))
    assert {moment_of(id) for id in made} == {NOW}


def test_ids_made_by_several_threads_are_unique() -> None:
    source = IdSource()
    made: list[list[str]] = [[] for _ in range(4)]

    def make(mine: list[str]) -> None:
        mine.extend(source.new("txn", NOW) for _ in range(2000))

    threads = [threading.Thread(target=make, args=(mine,)) for mine in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id for mine in made for id in mine}) == 8000
    assert all(mine == sorted(mine) for mine in made)


def test_two_sources_do_not_make_the_same_ids() -> None:
    first, second = IdSource(), IdSource()
    assert not {first.new("acc", NOW) for _ in range(1000)} & {second.new("acc", NOW) for _ in range(1000)}


@given(st.integers(min_value=1, max_value=2**48 - 2))
def test_a_moments_first_id_stands_between_the_ids_before_it_and_its_own(moment: int) -> None:
    border = first_at("txn", moment)
    assert IdSource().new("txn", moment - 1) < border <= IdSource().new("txn", moment)
    assert border < IdSource().new("txn", moment + 1)


def test_a_moment_outside_of_all_ids_has_a_border_too() -> None:
    assert first_at("txn", -5) <= IdSource().new("txn", 0)
    assert first_at("txn", 2**60) > IdSource().new("txn", 2**48 - 2)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "acc_",
        "acc",
        "txn_" + "0" * 26,
        "acc_" + "0" * 25,
        "acc_" + "0" * 27,
        "acc_" + "u" * 26,
        "ACC_" + "0" * 26,
    ],
)
def test_a_text_that_is_no_id_of_the_prefix_is_told_apart(text: str) -> None:
    assert not is_id(text, "acc")


FORKS = """
import os
from ledger_engine.core.ids import IdSource
IdSource().new("acc", 1)
for _ in range(2):
    if not os.fork():
        os.write(1, IdSource().new("acc", 2).encode() + b"\\n")
        os._exit(0)
    os.wait()
"""


@pytest.mark.process
def test_forked_processes_make_different_ids_in_one_millisecond() -> None:
    made = subprocess.run([sys.executable, "-c", FORKS], capture_output=True, text=True, check=True)
    first, second = made.stdout.split()
    assert first != second
