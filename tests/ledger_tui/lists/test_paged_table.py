"""A table reacts to the mouse only on a row or a heading, and keeps its cursor on the screen."""

from __future__ import annotations

import pytest
from textual.app import App, ComposeResult
from textual.geometry import Offset, Region

from ledger_tui.client.names import AccountNames
from ledger_tui.client.records import ListPage, Record
from ledger_tui.lists.list_model import ListModel
from ledger_tui.lists.paged_table import PagedTable, TableHeader
from ledger_tui.resources.base import Cell, Column
from ledger_tui.resources.registry import BY_KIND
from tests.ledger_tui.alone import unconnected
from tests.ledger_tui.driving import until


def cell_of(name: str) -> Column:
    def cell(record: Record, _names: AccountNames) -> Cell:
        return Cell(str(record[name]))

    return Column(name, 8, cell)


class TableApp(App[None]):
    """Shows a table with its headings, and notes what they say."""

    CSS = "TableHeader { height: 1; }"

    def __init__(self, rows: int) -> None:
        super().__init__()
        model = ListModel(BY_KIND["accounts"], unconnected())
        self.window = model.window
        want = model.page_for(0, 1)
        assert want is not None
        records = [{"id": f"id {n}", "name": f"name {n}"} for n in range(rows)]
        model.take_page(want, ListPage(records, None), 0)
        self.header = TableHeader()
        self.table = PagedTable(model, [cell_of("id"), cell_of("name")], AccountNames())
        self.headings: list[str] = []
        self.opened: list[Record | None] = []

    def compose(self) -> ComposeResult:
        yield self.header
        yield self.table

    def on_paged_table_columns_fitted(self, message: PagedTable.ColumnsFitted) -> None:
        self.header.columns = message.columns

    def on_table_header_clicked(self, message: TableHeader.Clicked) -> None:
        self.headings.append(message.column.name)

    def on_paged_table_opened(self) -> None:
        self.opened.append(self.window.current)


@pytest.mark.slow
async def test_a_click_beside_the_headings_sorts_by_none_and_one_on_the_second_by_it() -> None:
    app = TableApp(3)
    async with app.run_test(size=(60, 10)) as pilot:
        for beside in (0, 10, 50):  # the margin, the gap between the columns, what is right of the last
            await pilot.click(app.header, offset=Offset(beside, 0))
        assert app.headings == []
        title = app.header.render_line(0).text.index("name")
        await pilot.click(app.header, offset=Offset(title, 0))
        assert app.headings == ["name"]


@pytest.mark.slow
async def test_a_click_goes_to_a_row_two_open_it_and_one_below_the_last_does_nothing() -> None:
    app = TableApp(3)
    async with app.run_test(size=(60, 10)) as pilot:
        await pilot.click(app.table, offset=Offset(5, 1))
        assert (app.window.cursor, app.opened) == (1, [])
        await pilot.click(app.table, offset=Offset(5, 6), times=2)
        assert (app.window.cursor, app.opened) == (1, [])
        await pilot.click(app.table, offset=Offset(5, 2), times=2)
        assert (app.window.cursor, app.opened) == (2, [{"id": "id 2", "name": "name 2"}])


async def test_the_cursor_follows_what_the_scrollbar_shows() -> None:
    app = TableApp(60)
    async with app.run_test(size=(60, 6)) as pilot:
        app.table.scroll_to(y=20, animate=False, immediate=True, force=True)
        await pilot.pause()
        assert app.window.cursor == app.table.top == 20
        app.table.scroll_to(y=10, animate=False, immediate=True, force=True)
        await pilot.pause()
        assert app.window.cursor == 10 + app.table.height_in_rows - 1


async def test_a_table_that_is_made_invisible_keeps_its_place() -> None:
    app = TableApp(60)
    async with app.run_test(size=(60, 6)) as pilot:
        app.table.go_to(30)
        top = app.table.top
        app.table.styles.height = 0
        await pilot.pause()
        assert app.table.size.height == 0
        app.table.styles.height = "1fr"
        await pilot.pause()
        assert (app.table.size.height, app.window.cursor, app.table.top) == (5, 30, top)


async def test_every_row_is_drawn_as_itself_on_the_way_through_a_long_list() -> None:
    app = TableApp(60)
    async with app.run_test(size=(60, 4)):
        for step in (1, -1):
            for _page in range(30):
                for line in range(app.table.size.height):
                    assert app.table.render_line(line).text.split()[-1] == str(app.table.top + line)
                # The drawn lines that are kept do not grow with the list.
                assert len(app.table._strips) <= 8 * app.table.size.height + 1
                app.table.action_move_pages(step)


async def test_a_part_of_a_line_and_a_table_narrower_than_its_columns_have_just_their_width() -> None:
    app = TableApp(2)
    async with app.run_test(size=(60, 4)) as pilot:
        whole = app.table.render_line(1).text
        (part,) = app.table.render_lines(Region(2, 1, 5, 1))
        assert part.text == whole[2:7]
        await pilot.resize_terminal(6, 4)
        await until(lambda: app.table.size.width == 6)
        assert app.table.render_line(1).text == whole[:6]


@pytest.mark.parametrize(("rows", "possible"), [(0, None), (1, True)])
def test_only_a_list_with_rows_can_be_marked(rows: int, possible: bool | None) -> None:
    table = TableApp(rows).table
    assert [table.check_action(action, ()) for action in ("mark", "mark_all")] == [possible] * 2
