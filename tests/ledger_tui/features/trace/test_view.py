"""The screen of a trace before a trace is read, during the read, and after a failed read."""

from __future__ import annotations

import pytest
from textual.app import App, ComposeResult
from textual.geometry import Offset

from ledger_tui.client.session import ConnectionState
from ledger_tui.features.trace import view as trace_view
from ledger_tui.features.trace.nodes import Node
from ledger_tui.features.trace.reading import Trace, TraceStep
from ledger_tui.features.trace.view import TraceTree, TraceView
from ledger_tui.resources.base import Cell
from ledger_tui.resources.registry import TRACE
from ledger_tui.ui.view import ActionRequested, LinkFollowed, Location, LocationOpened
from tests.ledger_tui.alone import Alone, unconnected
from tests.ledger_tui.driving import until

ACCOUNT = {"id": "acc_1", "object": "account", "name": "Till", "currency": "EUR"}


def caption(view: TraceView) -> str:
    return str(view.query_one("#trace-caption").render())


async def test_before_anything_is_traced_it_is_empty_and_its_keys_do_nothing() -> None:
    app = Alone(view := TraceView(TRACE, unconnected()))
    async with app.run_test() as pilot:
        view.names_loaded()
        view.session_changed()
        view.action_refresh()
        view.action_open()
        view.action_send_again()
        await pilot.pause()
        assert not app.those_said(LinkFollowed, LocationOpened, ActionRequested)
        assert caption(view) == ""
        assert (view.location, view.shown_path(), view.selected) == (Location("trace"), "", None)
        assert not view.may_poll()


async def test_while_it_is_read_and_when_that_fails_the_caption_says_so() -> None:
    app = Alone(view := TraceView(TRACE, context := unconnected()))
    async with app.run_test():
        view.show_traced("accounts", ACCOUNT)
        assert "connecting" in caption(view)
        context.session.state = ConnectionState.ONLINE
        view.session_changed()
        assert "Till" in caption(view)
        assert caption(view).endswith("reading…")
        view.take_trace(None, "The server is busy.")
        assert caption(view).endswith("✕ The server is busy.")
        assert view.may_poll()  # it will be read again
        view.take_trace(Trace("accounts", ACCOUNT, requests=1, complete=True))
        assert caption(view).endswith("1 request read")


async def test_an_object_traced_again_is_read_again_and_stays_until_then() -> None:
    app = Alone(view := TraceView(TRACE, unconnected()))
    async with app.run_test():
        view.show_traced("accounts", ACCOUNT)
        whole = Trace("accounts", ACCOUNT, requests=2, complete=True)
        view.take_trace(whole)
        view.show_traced("accounts", {**ACCOUNT})
        assert view.trace is whole
        assert not view.may_poll()  # it is being read
        view.take_trace(Trace("accounts", {**ACCOUNT, "id": "acc_2"}))  # of what was traced before
        assert view.trace is whole
        view.show_traced("accounts", {**ACCOUNT, "id": "acc_2"})
        assert view.location.record_id == "acc_2"


async def test_the_path_of_a_delivery_is_that_of_its_event() -> None:
    event = {"id": "evt_1", "object": "event", "type": "account.created", "data": {"object": ACCOUNT}}
    delivery = {"id": "dlv_1", "event": "evt_1", "endpoint": "whe_1", "status": "pending", "attempts": []}
    step = TraceStep("req_1", events=(event,), deliveries={"evt_1": (delivery,)})
    app = Alone(view := TraceView(TRACE, unconnected()))
    async with app.run_test():
        view.show_traced("events", event)
        view.take_trace(Trace("events", event, (step,), complete=True))
        paths = {}
        for number, node in enumerate(view._tree.nodes):
            view._tree.action_move(number - view._tree.cursor)
            paths[node.kind] = view.shown_path()
        assert paths["event"] == "/v1/events/evt_1"
        assert paths["delivery"] == "/v1/events/evt_1/deliveries"


async def test_a_fault_while_it_is_read_is_shown_and_it_can_be_read_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_arguments: object) -> None:
        raise RuntimeError("a fault")

    monkeypatch.setattr(trace_view, "read_trace", fail)
    app = Alone(view := TraceView(TRACE, unconnected()))
    async with app.run_test():
        view.show_traced("accounts", ACCOUNT)
        await until(lambda: "✕" in caption(view), "the fault")
        assert caption(view).endswith("✕ unexpected RuntimeError('a fault')")
        assert view.may_poll()


class TreeApp(App[None]):
    """Shows a tree alone, and notes what it says."""

    CSS = "TraceTree { overflow-x: hidden; }"  # as in app.tcss

    def __init__(self) -> None:
        super().__init__()
        self.shown = TraceTree()
        self.moved_to: list[int] = []
        self.opened: list[int] = []

    def compose(self) -> ComposeResult:
        yield self.shown

    def on_trace_tree_moved(self) -> None:
        self.moved_to.append(self.shown.cursor)

    def on_trace_tree_opened(self) -> None:
        self.opened.append(self.shown.cursor)


def nodes(count: int) -> list[Node]:
    """Return requests, each with a line below it."""
    return [
        Node("request", 0, (Cell(f"request {number}"),), f"12:00:{number:02}", ((Cell("its change"),),))
        for number in range(count)
    ]


@pytest.mark.slow
async def test_a_cursor_that_was_moved_stays_though_the_trace_is_drawn_before_it_is_heard() -> None:
    app = TreeApp()
    async with app.run_test(size=(40, 7)):
        app.shown.show(nodes(12), 5, from_top=True)
        assert not app.shown.moved
        app.shown.action_move(-1)
        assert app.moved_to == []  # the message is on its way
        assert app.shown.moved


@pytest.mark.slow
async def test_keys_go_by_nodes_and_by_pages_and_stop_at_either_end() -> None:
    app = TreeApp()
    async with app.run_test(size=(40, 7)) as pilot:
        app.shown.show(nodes(12), 0, from_top=True)
        await pilot.press("up")
        assert app.moved_to == []  # it was the first
        await pilot.press("down", "pagedown", "pageup", "end", "pagedown")
        # A page is one line less than the screen, and a node has two lines.
        assert app.moved_to == [1, 4, 1, 11]


@pytest.mark.slow
async def test_the_cursor_passes_over_notes_and_brings_them_into_view() -> None:
    app = TreeApp()
    note = Node("note", 1, (Cell("nothing to open"),))
    async with app.run_test(size=(40, 5)) as pilot:
        app.shown.show([note, *nodes(2), note, *nodes(1), note], 1, from_top=True)
        await pilot.press("down", "down", "down", "up", "end", "home")
        assert app.moved_to == [2, 4, 2, 4, 1]
        assert app.shown.scroll_y == 0  # the first line is a note
        await pilot.press("end")
        assert app.shown.scroll_y == app.shown.max_scroll_y  # and so is the last
        app.shown.show([note], 0, from_top=True)
        await pilot.press("down")
        assert app.shown.cursor == 0


@pytest.mark.slow
async def test_keys_in_a_tree_without_nodes_do_nothing() -> None:
    app = TreeApp()
    async with app.run_test(size=(40, 7)) as pilot:
        app.shown.show([], 0, from_top=True)
        await pilot.press("down", "pagedown", "pageup", "home", "end")
        assert (app.shown.node, app.shown.cursor, app.moved_to) == (None, 0, [])


@pytest.mark.slow
async def test_a_click_goes_to_a_node_two_open_it_and_one_below_the_last_does_nothing() -> None:
    app = TreeApp()
    async with app.run_test(size=(40, 12)) as pilot:
        app.shown.show(nodes(3), 0, from_top=True)
        await pilot.click(app.shown, offset=Offset(5, 3))  # the line below the second
        assert (app.moved_to, app.opened) == ([1], [])
        await pilot.click(app.shown, offset=Offset(5, 10), times=2)
        assert (app.moved_to, app.opened) == ([1], [])
        await pilot.click(app.shown, offset=Offset(5, 4), times=2)
        assert (app.moved_to, app.opened) == ([1, 2], [2])


async def test_the_times_of_the_nodes_are_left_out_where_it_is_narrow() -> None:
    app = TreeApp()
    async with app.run_test(size=(80, 12)) as pilot:
        app.shown.show(nodes(1), 0, from_top=True)
        assert app.shown.render_line(0).text.split() == ["▌", "12:00:00", "request", "0"]
        await pilot.resize_terminal(40, 12)
        assert app.shown.render_line(0).text.rstrip() == "▌request 0"
