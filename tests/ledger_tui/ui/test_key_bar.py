"""The key bar leaves some keys out if it is narrow, and presses a key at a click."""

from __future__ import annotations

import pytest
from textual.app import App, ComposeResult
from textual.binding import Binding
from textual.geometry import Offset
from textual.screen import Screen

from ledger_tui.ui.key_bar import KeyBar


class KeyScreen(Screen[None]):
    """A widget with an enabled and a disabled key."""

    BINDINGS = [
        Binding("h", "help", "keys"),
        Binding("n", "create", "new"),
        Binding("e", "edit", "edit"),  # not possible now
        Binding("o", "open", "open"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self.bar = KeyBar()
        self.pressed: list[str] = []

    def compose(self) -> ComposeResult:
        yield self.bar

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return None if action == "edit" else True

    def action_create(self) -> None:
        self.pressed.append("new")

    def action_edit(self) -> None:
        self.pressed.append("edit")


class KeyApp(App[None]):
    CSS = "KeyBar { height: 1; }"
    ENABLE_COMMAND_PALETTE = False

    def get_default_screen(self) -> KeyScreen:
        self.shown = KeyScreen()
        return self.shown

    def get_css_variables(self) -> dict[str, str]:
        return {**super().get_css_variables(), "muted": "#888888", "faint": "#444444"}


@pytest.mark.slow
async def test_a_click_beside_the_keys_does_nothing() -> None:
    app = KeyApp()
    async with app.run_test(size=(80, 3)) as pilot:
        line = app.shown.bar.render().plain
        for at in (len(line) + 5, line.index("new"), len(line) + 5):
            await pilot.click(app.shown.bar, offset=Offset(at, 0))
        await pilot.pause()
        assert app.shown.pressed == ["new"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("width", "shown"),
    [(60, "o open   n new   h keys"), (22, "o open   h keys"), (10, "h keys")],
)
async def test_a_narrow_bar_leaves_out_what_cannot_be_pressed_then_the_last_but_never_the_help(
    width: int, shown: str
) -> None:
    app = KeyApp()
    async with app.run_test(size=(width, 3)):
        assert app.shown.bar.render().plain == shown
