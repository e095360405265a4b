"""A screen of tiles: one of them is current, `tab` goes to the next, and the arrows choose a row in it."""

from __future__ import annotations

from ledger_tui.actions import TILE_KEYS, VIEW_KEYS
from ledger_tui.handlers import handles
from ledger_tui.state.window import Record
from ledger_tui.widgets.tile import Tile
from ledger_tui.widgets.view import View


class TiledView(View, can_focus=True):
    """What it is made of, `tiles`, is set before it is mounted; enter opens the chosen row."""

    BINDINGS = [*TILE_KEYS, *VIEW_KEYS]

    tiles: tuple[Tile, ...]
    _at = 0

    def on_mount(self) -> None:
        self.tiles[0].current = True

    @property
    def tile(self) -> Tile:
        """The current tile."""
        return self.tiles[self._at]

    @property
    def selected(self) -> Record | None:
        chosen = self.tile.chosen
        return chosen.record if chosen is not None else None

    def go_to(self, tile: Tile) -> None:
        """Make a tile the current one."""
        before = self.tile
        before.current = False
        self._at = self.tiles.index(tile)
        tile.current = True
        before.show_changes()
        tile.show_changes()
        self.refresh_bindings()

    def action_tile(self, step: int) -> None:
        self.go_to(self.tiles[(self._at + step) % len(self.tiles)])

    def action_choose(self, step: int) -> None:
        self.tile.move(step)
        self.refresh_bindings()

    def action_open(self) -> None:
        """Open the chosen row."""

    @handles(Tile.Clicked)
    def tile_clicked(self, message: Tile.Clicked) -> None:
        """Go to the tile and row that was clicked; open it when it was chosen already."""
        message.stop()
        again = message.tile.choose_at(message.at) and message.tile is self.tile
        if again:
            self.action_open()
        else:
            self.go_to(message.tile)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return action != "back"
