"""The parts of test_model.py's random histories: mostly valid ones, and a few that are not."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tests.ledger_engine.model import MAX


def mostly(good: list[Any], bad: list[Any]) -> st.SearchStrategy[Any]:
    """Draw one of `bad` about every tenth time: a history of refusals alone would not get far."""
    return st.sampled_from([*good * (1 + 9 * len(bad) // len(good)), *bad])


places = st.sampled_from([0, 0, 1, 2])  # which tenant acts
picks = st.integers(0, 10**6)  # which of the existing objects
keys = st.none() | st.none() | st.sampled_from(["a", "b", "c"]) | st.uuids().map(str)
amounts = st.integers(1, 500) | mostly([1, 7, 100, 2500], [MAX, MAX - 1, MAX // 2, 0, -1, MAX + 1, 2**63])
types = mostly(["credit", "debit"], ["refund"])
postings = st.lists(st.tuples(picks, amounts, types), min_size=1, max_size=5)
names = mostly(["Till", "Café ☕", "x" * 255], ["", "x" * 256])
descriptions = st.none() | mostly(["Espresso", "", "x" * 500], ["x" * 501])
currencies = mostly(["EUR", "eur", "JPY", "KWD"], ["XXX", "euro"])
metadata = mostly([{}, {"a": "b"}, {str(n): "" for n in range(20)}], [{str(n): "" for n in range(21)}])
emails = mostly(["ada@example.com", "ADA@example.com", "bob@example.com", "eve@example.com"], ["nobody"])
roles = mostly(["member", "admin", "owner"], ["boss"])
lines = st.lists(
    st.fixed_dictionaries(
        {
            "description": st.just("Beans"),
            "quantity": st.integers(1, 3),
            "unit_amount": mostly([5, 20, 250], [0, MAX]),
        }
    ),
    min_size=1,
    max_size=3,
)
sums = (
    st.tuples(amounts, st.none())
    | st.tuples(st.none(), lines)
    | st.tuples(amounts, st.none())
    | st.tuples(st.none(), lines)
    | st.tuples(st.none() | amounts, st.just([]) | st.none() | lines)
)
items = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "sku": st.sampled_from(["beans", "cup"]),
            "quantity": mostly([1, 2, 3], [0]),
            "unit_amount": mostly([0, 5, 20, 250], [-1, MAX]),
        },
    ),
    min_size=1,
    max_size=3,
)
