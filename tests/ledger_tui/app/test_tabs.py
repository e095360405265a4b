"""A click on a tab shows its screen, even if the tabs are short or do not fit."""

from __future__ import annotations

import pytest
from textual.app import App, ComposeResult
from textual.geometry import Offset
from textual.screen import Screen

from ledger_tui.app.navigation import ScreenTabs
from ledger_tui.resources.registry import PLACES


class TabsScreen(Screen[None]):
    """Shows the tabs alone, and notes which screen a click asks for."""

    def __init__(self) -> None:
        super().__init__()
        self.tabs = ScreenTabs()
        self.asked: list[str] = []

    def compose(self) -> ComposeResult:
        yield self.tabs

    def action_show(self, kind: str) -> None:
        self.asked.append(kind)


class TabsApp(App[None]):
    CSS = "ScreenTabs { height: 1; }"

    def get_default_screen(self) -> TabsScreen:
        self.shown = TabsScreen()
        return self.shown


@pytest.mark.slow
@pytest.mark.parametrize("width", [200, 80])
async def test_a_click_on_a_tab_shows_its_screen_and_one_beside_them_nothing(width: int) -> None:
    app = TabsApp()
    async with app.run_test(size=(width, 3)) as pilot:
        app.shown.tabs.shown = PLACES[0].kind
        line = app.shown.tabs.render().plain
        assert len(line) < width
        for place in (PLACES[0], PLACES[2], PLACES[-1]):
            await pilot.click(app.shown.tabs, offset=Offset(line.index(f"{place.key} "), 0))
            await pilot.click(app.shown.tabs, offset=Offset(width - 1, 0))
        await pilot.pause()
        assert app.shown.asked == [PLACES[0].kind, PLACES[2].kind, PLACES[-1].kind]


async def test_on_the_narrowest_screen_the_tabs_have_their_short_names() -> None:
    app = TabsApp()
    async with app.run_test(size=(20, 3)):
        app.shown.tabs.shown = PLACES[0].kind
        assert app.shown.tabs.render().plain == "".join(f"{place.key} {place.short} " for place in PLACES)
