"""The screen of the test helpers offers keys, fits a long list, and shows a failure."""

from __future__ import annotations

from typing import Any

import pytest
from textual.binding import Binding

from ledger_tui.app.command_line import Choices, completions, parse_command
from ledger_tui.client.names import AccountNames
from ledger_tui.features.test_helpers import (
    MISSING,
    HelperLineRequested,
    HelperState,
    HelpersView,
    described,
    hits_of,
    outcome_of,
    parse_helper,
)
from ledger_tui.resources.filtering import BadLine
from ledger_tui.resources.registry import TEST_HELPERS
from tests.ledger_tui.alone import Alone, unconnected

OFFERED = ("snapshot", "open")


def state(snapshots: int) -> HelperState:
    found: list[dict[str, Any]] = [
        {"id": f"snp_{n}", "object": "snapshot", "name": f"snapshot {n}"} for n in range(snapshots)
    ]
    return HelperState({"frozen": True, "now": "2026-11-20T04:31:00.123Z"}, found, [])


def test_a_key_that_can_do_nothing_is_dim_and_says_why() -> None:
    without = HelpersView(TEST_HELPERS, unconnected())
    without.problem = MISSING
    reading = HelpersView(TEST_HELPERS, unconnected(read_only=True))
    reading.state = state(1)
    for view in (without, reading):
        assert [view.check_action(each, ()) for each in OFFERED] == [None] * 2
    assert [without.why_not(Binding("x", each)) for each in OFFERED] == [MISSING] * 2
    empty = HelpersView(TEST_HELPERS, unconnected())
    empty.state = state(0)
    assert [empty.check_action(each, ()) for each in OFFERED] == [True, None]
    assert empty.why_not(Binding("x", "open")) == "No snapshot or fault is chosen; tab goes to them."


@pytest.mark.parametrize(("snapshots", "last"), [(3, "snapshot 2"), (4, "and 2 more"), (200, "and 198 more")])
def test_of_more_snapshots_than_fit_the_tile_says_how_many_more_there_are(snapshots: int, last: str) -> None:
    view = HelpersView(TEST_HELPERS, unconnected())
    view.state = state(snapshots)
    drawn = view.tiles[1]._draw(60, 3)
    assert len(drawn.rows) == 3
    assert "".join(cell.text for cell in drawn.rows[-1].cells).startswith(last)
    assert [cell.text for cell in drawn.fact] == [f"{snapshots}+" if snapshots == 200 else str(snapshots)]


async def test_its_keys_only_begin_a_line_so_that_none_changes_the_ledger_alone() -> None:
    app = Alone(view := HelpersView(TEST_HELPERS, unconnected()))
    async with app.run_test() as pilot:
        view.take_state(state(1)._replace(faults=[{"id": "flt_1", "object": "fault"}]))
        await pilot.pause()
        view.action_snapshot()
        view.action_tile(1)
        view.action_open()
        view.action_tile(1)
        view.action_open()
        await pilot.pause()
        lines = [each.line for each in app.those_said(HelperLineRequested)]
        assert lines == ["snapshot ", "restore snapshot 0", "drop flt_1"]


def test_a_dropped_snapshot_is_asked_about_and_a_dropped_fault_is_not() -> None:
    snapshot, fault = parse_helper("drop", "seeded"), parse_helper("drop", "flt_1")
    assert (snapshot.method, snapshot.path) == ("DELETE", "/v1/test_helpers/snapshots/seeded")
    assert 'Delete the snapshot "seeded"?' in snapshot.question
    assert (fault.method, fault.path, fault.question) == ("DELETE", "/v1/test_helpers/faults/flt_1", "")


async def test_a_list_stays_when_reading_it_again_fails() -> None:
    app = Alone(view := HelpersView(TEST_HELPERS, unconnected()))
    async with app.run_test():
        view.take_state(state(2))
        view.take_state(None, "The server is busy.")
        assert view.snapshots == ["snapshot 0", "snapshot 1"]
        caption = view.caption.render()
        assert "✕ The server is busy." in str(caption)
        view.take_state(None, MISSING)
        assert view.snapshots == []


async def test_a_click_on_a_line_without_a_row_chooses_none() -> None:
    app = Alone(view := HelpersView(TEST_HELPERS, unconnected()))
    async with app.run_test() as pilot:
        view.take_state(state(2))
        await pilot.pause()
        _clock, snapshots, faults = view.tiles
        assert snapshots.choose_at(1) is False  # it was not chosen before
        assert snapshots.choose_at(5) is False
        assert snapshots.chosen is not None
        assert (snapshots.chosen.record or {})["name"] == "snapshot 1"
        assert faults.choose_at(0) is True  # nothing can be chosen in it, so a click opens the tile


@pytest.mark.parametrize(
    ("line", "body"),
    [
        ("+1d", {"advance": 86_400}),
        ("2h 30m", {"advance": 9_000}),
        ("+45", {"advance": 45}),
        ("2026-12-01", {"now": "2026-12-01"}),
        ("2026-12-01 07:18", {"now": "2026-12-01T07:18"}),
        ("freeze", {"frozen": True}),
        ("run", {"frozen": False}),
    ],
)
def test_the_clock_is_moved_by_a_span_or_to_a_time(line: str, body: dict[str, Any]) -> None:
    assert parse_helper("clock", line).body == body


@pytest.mark.parametrize("line", ["", "-1d", "+", "tomorrow", "1 fortnight"])
def test_a_text_that_is_no_time_is_refused(line: str) -> None:
    with pytest.raises(BadLine, match="to go forward"):
        parse_helper("clock", line)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("unavailable", "503 to POST"),
        ("rate-limited", "429 to POST"),
        ("slow", "500 ms ± 200 ms more for all requests"),
        ("cut-before", "cut before the work of POST"),
        ("cut-after", "cut after the commit of POST"),
        ("cut-half", "half an answer to POST"),
        ("lost", "drop webhooks"),
        ("twice", "duplicate webhooks"),
        ("reordered", "reorder webhooks"),
        ("forged", "corrupt webhooks"),
    ],
)
def test_each_ready_fault_has_a_name_and_is_described(name: str, text: str) -> None:
    body = parse_helper("fault", name).body
    assert body is not None
    assert described({**body, "probability": 1}) == text


@pytest.mark.parametrize("line", ["", "503", "unavailable times:3"])
def test_any_other_fault_is_one_of_the_api(line: str) -> None:
    with pytest.raises(BadLine, match="ledger-engine api post /v1/test_helpers/faults"):
        parse_helper("fault", line)


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        ({"match": {"header": "X-Test: 1"}, "action": {"status": 409}}, "409 to X-Test: 1"),
        (
            {"match": {"type": "invoice.paid"}, "action": {"webhook": "delay", "delay_ms": 900}},
            "delay webhooks by 900 ms invoice.paid",
        ),
        (
            {"match": {"path": "/v1/orders*"}, "action": {"cut": "half"}, "probability": 0.5},
            "half an answer to /v1/orders*, 50% of them",
        ),
    ],
)
def test_a_fault_that_was_set_by_the_api_is_described(fault: dict[str, Any], text: str) -> None:
    assert described(fault) == text


def test_hits_are_counted_against_how_often_a_fault_may_happen() -> None:
    assert hits_of({"hits": 2, "times": None}).text == "2"
    assert (hits_of({"hits": 1, "times": 3}), hits_of({"hits": 3, "times": 3})) == (
        ("1 of 3", "warn"),
        ("3 of 3", "dim"),
    )


def test_a_loss_is_confirmed_first() -> None:
    assert 'Go back to the snapshot "before"?' in parse_helper("restore", "before").question
    assert "Empty this project" in parse_helper("reset", "").question
    assert not parse_helper("snapshot", "before").question
    with pytest.raises(BadLine, match="Which event"):
        parse_command("trigger", Choices([], [], AccountNames()))
    with pytest.raises(BadLine, match="reset takes no argument"):  # and not the name of a snapshot
        parse_helper("reset", "before")


def test_all_faults_are_ended_by_a_word_and_counted() -> None:
    request = parse_helper("fault", "none")
    assert (request.method, request.body) == ("DELETE", None)
    assert outcome_of(request, {"deleted": 3}) == "Faults ended: 3."


def test_helpers_are_completed_unless_the_server_has_none() -> None:
    with_them = Choices([], [], AccountNames(), ["before", "empty"])
    assert [text for text, _about in completions("restore b", with_them)] == ["restore before"]
    assert [text for text, _about in completions("fault cut-a", with_them)] == ["fault cut-after"]
    assert [text for text, _about in completions("clock fr", with_them)] == ["clock freeze"]
    assert "trigger order.paid" in [text for text, _about in completions("trigger order.", with_them)]
    assert [text for text, _about in completions("clo", with_them)] == ["clock"]
    assert completions("clo", Choices([], [], AccountNames(), None)) == []
