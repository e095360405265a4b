"""The cursor goes through the tree of a trace by key and by mouse, and stays in it."""

from __future__ import annotations

import pytest
from textual.app import App, ComposeResult
from textual.geometry import Offset

from ledger_tui.features.trace.nodes import Node
from ledger_tui.features.trace.tree import TraceTree
from ledger_tui.resources.base import Cell


class TreeApp(App[None]):
    """Shows a tree alone, and notes what it says."""

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
