"""What the screen of the test helpers offers, and what it shows of a long list and of a failure."""

from __future__ import annotations

from typing import Any

import pytest

from ledger_tui.features.test_helpers.requests import MISSING, HelperState, resetting
from ledger_tui.features.test_helpers.view import HelperRequested, HelpersLoaded, HelpersView
from ledger_tui.resources.registry import TEST_HELPERS
from tests.ledger_tui.alone import Alone, unconnected

OFFERED = ("helper", "delete_helper", "open")


def state(snapshots: int) -> HelperState:
    found: list[dict[str, Any]] = [
        {"id": f"snp_{n}", "object": "snapshot", "name": f"snapshot {n}"} for n in range(snapshots)
    ]
    return HelperState({"frozen": True, "now": "2026-11-20T04:31:00.123Z"}, found, [])


def test_without_test_helpers_their_keys_are_not_there_and_while_reading_only_they_are_dim() -> None:
    without = HelpersView(TEST_HELPERS, unconnected())
    without.problem = MISSING
    assert [without.check_action(each, ()) for each in OFFERED] == [False] * 3
    reading = HelpersView(TEST_HELPERS, unconnected(read_only=True))
    reading.state = state(1)
    assert [reading.check_action(each, ()) for each in OFFERED] == [None] * 3


@pytest.mark.parametrize(("snapshots", "last"), [(3, "snapshot 2"), (4, "and 2 more"), (200, "and 198 more")])
def test_of_more_snapshots_than_fit_the_tile_says_how_many_more_there_are(snapshots: int, last: str) -> None:
    view = HelpersView(TEST_HELPERS, unconnected())
    view.state = state(snapshots)
    drawn = view.tiles[1]._draw(60, 3)
    assert len(drawn.rows) == 3
    assert "".join(cell.text for cell in drawn.rows[-1].cells).startswith(last)
    assert [cell.text for cell in drawn.fact] == [f"{snapshots}+" if snapshots == 200 else str(snapshots)]


async def test_its_keys_do_nothing_where_nothing_is_chosen_and_one_asks_for_the_reset() -> None:
    app = Alone(view := HelpersView(TEST_HELPERS, unconnected()))
    async with app.run_test() as pilot:
        view.take_state(HelpersLoaded(state(0), ""))
        view.action_open()
        view.action_delete_helper()
        view.action_helper("reset")
        await pilot.pause()
        asked = app.those_said(HelperRequested)
        assert [each.request for each in asked if isinstance(each, HelperRequested)] == [resetting()]


async def test_what_was_read_stays_when_reading_it_again_fails() -> None:
    app = Alone(view := HelpersView(TEST_HELPERS, unconnected()))
    async with app.run_test():
        view.take_state(HelpersLoaded(state(2), ""))
        view.take_state(HelpersLoaded(None, "The server is busy."))
        assert view.snapshots == ["snapshot 0", "snapshot 1"]
        caption = view.query_one("#helpers-caption").render()
        assert "✕ The server is busy." in str(caption)
        view.take_state(HelpersLoaded(None, MISSING))
        assert view.snapshots == []


async def test_a_click_on_a_line_without_a_row_chooses_none() -> None:
    app = Alone(view := HelpersView(TEST_HELPERS, unconnected()))
    async with app.run_test() as pilot:
        view.take_state(HelpersLoaded(state(2), ""))
        await pilot.pause()
        _clock, snapshots, faults = view.tiles
        assert snapshots.choose_at(1) is False  # it was not chosen before
        assert snapshots.choose_at(5) is False
        assert snapshots.chosen is not None
        assert (snapshots.chosen.record or {})["name"] == "snapshot 1"
        assert faults.choose_at(0) is True  # nothing can be chosen in it, so a click opens the tile
