"""The position in a list claims no more than is known."""

from __future__ import annotations

import pytest

from ledger_tui.client.records import ListPage, Record
from ledger_tui.lists.caption import position
from ledger_tui.lists.window import Window

HEIGHT = 10


def rows(count: int) -> list[Record]:
    return [{"id": number} for number in range(count)]


def window_of(count: int, older: str | None = None, total: int | None = None) -> Window:
    window = Window()
    want = window.want(0, HEIGHT)
    assert want is not None
    window.apply(want, ListPage(rows(count), older, total=total))
    return window


def test_nothing_is_claimed_before_the_list_is_loaded() -> None:
    assert position(Window(), 0, HEIGHT) == ""


@pytest.mark.parametrize(
    ("window", "top", "text"),
    [
        (window_of(0), 0, "0"),
        (window_of(1), 0, "1 of 1"),
        (window_of(45), 35, "36–45 of 45"),
        (window_of(40, "39"), 0, "1–10 of 40+"),
        (window_of(20, "19", total=1234), 0, "1–10 of 1,234"),
    ],
)
def test_the_number_of_rows_is_named_as_far_as_it_is_known(window: Window, top: int, text: str) -> None:
    assert position(window, top, HEIGHT) == text


def test_a_list_opened_in_the_middle_names_only_the_loaded_rows() -> None:
    window = Window()
    window.open_at({"id": 250})
    assert position(window, 0, HEIGHT) == "in the middle, 1 loaded"


def test_an_arranged_list_names_the_rows_that_were_arranged() -> None:
    window = window_of(40, "39")
    window.sort(lambda row: row["id"])
    assert position(window, 0, HEIGHT) == "1–10 of 40 loaded"
    window.show_only(lambda row: row["id"] < 1)
    assert position(window, 0, HEIGHT) == "1 of 1 among 40 loaded"
    window.show_only(lambda row: False)
    assert position(window, 0, HEIGHT) == "0 of 40 loaded"
