"""Flows are computed from transactions, and their bands are as wide as the amounts, at any size."""

from __future__ import annotations

from typing import Any

import pytest
from rich.cells import cell_len

from ledger_tui.features.flows import (
    OTHERS,
    OUTSIDE,
    Flow,
    draw,
    flows_of,
    largest,
    name_widths,
    shares,
    tone_of,
)

CURRENCIES = {"till": "EUR", "bank": "EUR", "yen": "JPY"}


def posting(account: str, kind: str, amount: int, to: str | None = None) -> dict[str, Any]:
    transfer = None if to is None else "tra_1"
    fields = {"account": account, "type": kind, "amount": amount}
    return {**fields, "destination": to, "transfer": transfer}


def flows(*transactions: dict[str, Any]) -> list[Flow]:
    return flows_of(transactions, CURRENCIES.get)


def test_money_flows_from_the_outside_to_it_and_between_accounts() -> None:
    found = flows(
        posting("till", "credit", 300),
        posting("till", "credit", 200),
        posting("bank", "debit", 50),
        posting("till", "debit", 400, to="bank"),
        posting("bank", "credit", 400, to="till"),  # the other side of the same transfer
        posting("yen", "credit", 9_000),
        posting("unknown", "credit", 1),
    )
    assert found == [
        Flow(OUTSIDE, "till", "EUR", 500, 2),
        Flow("till", "bank", "EUR", 400, 1),
        Flow("bank", OUTSIDE, "EUR", 50, 1),
        Flow(OUTSIDE, "yen", "JPY", 9_000, 1),
    ]


def test_all_but_the_largest_are_summed_as_others() -> None:
    many = [Flow(f"acc_{n}", OUTSIDE, "EUR", 100 - n, 1) for n in range(10)]
    shown = largest(many, 4)
    assert shown[:3] == many[:3]
    assert shown[3] == Flow(OTHERS, OTHERS, "EUR", sum(range(91, 98)), 7)
    assert largest(many, 10) == many


def test_rows_that_one_currency_does_not_need_go_to_another() -> None:
    assert shares([9, 1, 1], 7) == [5, 1, 1]
    assert shares([9, 9], 7) == [4, 3]
    assert shares([2, 1], 7) == [2, 1]
    assert shares([9, 9], 3) == [2, 2]  # the largest flow and the others, even without room


def text_of(drawn: Any) -> list[str]:
    return ["".join(cell.text for cell in line) for line in drawn]


@pytest.mark.parametrize(("width", "height"), [(40, 5), (76, 12), (70, 35), (95, 40), (200, 60)])
@pytest.mark.parametrize("count", [1, 2, 9, 40])
def test_a_drawing_has_its_size_and_every_flow_that_fits(width: int, height: int, count: int) -> None:
    many = [
        Flow(OUTSIDE if n % 2 else f"a{n}", f"b{n}" if n % 2 else OUTSIDE, "EUR", 1000 - n, 1)
        for n in range(count)
    ]
    lines = text_of(draw(many, lambda id_: id_ or "outside", many[0], width, height))
    assert len(lines) == height
    assert {cell_len(line) for line in lines} == {width}
    if count <= height // 2:
        text = "\n".join(lines)
        assert all(
            f"{name} " in text or f"{name}\n" in text for f in many for name in (f.source, f.target) if name
        )


def test_a_band_is_as_wide_as_its_amount() -> None:
    two = [Flow(OUTSIDE, "till", "EUR", 900, 1), Flow(OUTSIDE, "bank", "EUR", 300, 1)]
    drawn = draw(two, lambda id_: id_ or "outside", two[1], 60, 13)
    columns = [cell.text[0] for line in drawn for cell in line[1:2] if cell.tone == "plus"]
    chosen = [cell.text[0] for line in drawn for cell in line[1:2] if cell.tone == "accent"]
    assert (len(columns), len(chosen)) == (9, 3)


def test_nothing_is_drawn_of_nothing_or_in_no_room() -> None:
    one = [Flow(OUTSIDE, "till", "EUR", 0, 1)]
    assert draw([], str, None, 60, 20) == draw(one, str, None, 60, 1) == draw(one, str, None, 15, 20) == []
    assert len(draw(one, str, None, 60, 20)) == 20


def test_a_flow_has_the_tone_of_its_direction() -> None:
    into, out, between = (
        Flow(OUTSIDE, "a", "EUR", 1, 1),
        Flow("a", OUTSIDE, "EUR", 1, 1),
        Flow("a", "b", "EUR", 1, 1),
    )
    assert [tone_of(each, None) for each in (into, out, between, None)] == ["plus", "minus", "plain", "dim"]
    assert tone_of(into, into) == "accent"


def test_a_long_name_gets_the_cells_that_the_other_name_does_not_need() -> None:
    assert name_widths(17, 22, 60) == (17, 22)
    assert name_widths(7, 22, 28) == (7, 21)
    assert name_widths(22, 7, 28) == (21, 7)
    assert name_widths(22, 22, 28) == (14, 14)
    assert name_widths(22, 22, 5) == (6, 6)
