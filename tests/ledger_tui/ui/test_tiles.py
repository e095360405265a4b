"""A tile keeps the chosen row while the user looks at the tile, and begins at its first row otherwise."""

from __future__ import annotations

import pytest
from textual.app import App, ComposeResult

from ledger_tui.resources.base import Cell, Link
from ledger_tui.ui.tiles import Tile, TileContent, TileRow

WORKING, FAILING = (Link(name, "deliveries", filters={"endpoint": name}) for name in ("working", "failing"))


class OneTile(App[None]):
    def __init__(self) -> None:
        super().__init__()
        self.links = [WORKING]
        self.tile = Tile("webhooks", self.draw_tile, Link("Webhooks", "webhooks"), id="tile")

    def draw_tile(self, _width: int, _height: int) -> TileContent:
        return TileContent([TileRow([Cell(link.label)], link) for link in self.links])

    def compose(self) -> ComposeResult:
        yield self.tile


@pytest.mark.parametrize(("current", "chosen"), [(False, FAILING), (True, WORKING)])
async def test_a_row_that_comes_first_is_chosen_only_in_a_tile_that_the_user_has_not_entered(
    current: bool, chosen: Link
) -> None:
    app = OneTile()
    async with app.run_test() as pilot:
        await pilot.pause()
        app.tile.show_changes()
        assert app.tile.link == WORKING
        app.tile.current = current
        app.links = [FAILING, WORKING]
        app.tile.show_changes()
        assert app.tile.link == chosen


async def test_the_row_that_the_user_has_chosen_is_chosen_again_after_it_was_away() -> None:
    app = OneTile()
    app.links = [WORKING, FAILING]
    async with app.run_test() as pilot:
        await pilot.pause()
        app.tile.current = True
        app.tile.show_changes()
        app.tile.move(1)
        another = Link("another", "deliveries", filters={"endpoint": "another"})
        for links, chosen in (([], None), ([WORKING], WORKING), ([another, FAILING, WORKING], FAILING)):
            app.links = links
            app.tile.show_changes()
            assert (app.tile.chosen.link if app.tile.chosen is not None else None) == chosen
