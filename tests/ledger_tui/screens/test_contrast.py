"""Highlighted and dim texts are readable in every theme: their contrast is high enough."""

from __future__ import annotations

import pytest
from textual.color import Color
from textual.geometry import Region
from textual.widgets import OptionList

from ledger_tui.app.application import LedgerApp
from ledger_tui.settings.config import Config, Options
from ledger_tui.ui.key_bar import KeyBar
from ledger_tui.ui.styles import ABOUT, THEME_OF_16_COLORS
from tests.ledger_tui.cheap_textual import strips_on_screen
from tests.ledger_tui.contract_server import ContractServer
from tests.ledger_tui.driving import Driver

READABLE = 4.5  # of small text, by WCAG 2
# The terminal chooses the colours of the other theme.
THEMES = [name for name in ABOUT if name != THEME_OF_16_COLORS]


def opened(server: ContractServer, theme: str, *, read_only: bool = False) -> LedgerApp:
    config = Config(theme=theme)
    return LedgerApp(Options(url=server.url, key=server.key, config=config, read_only=read_only))


@pytest.mark.parametrize("theme", THEMES)
async def test_the_highlighted_line_of_a_choice_can_be_read(server: ContractServer, theme: str) -> None:
    server.post(server.add_account("Beans"), 5)
    app = opened(server, theme)
    async with app.run_test() as pilot:
        driver = Driver(app, pilot)
        await driver.sees("Beans")
        for key, seen in (("ctrl+t", "ledger-light"), ("i", "acc_")):
            if key == "i":
                await driver.press("2", sees="credit")
            await driver.press(key, sees=seen)
            options = app.screen.query_one(OptionList)
            assert options.highlighted is not None
            inside = options.content_region
            line = Region(inside.x, inside.y + options.highlighted, inside.width, 1)
            for text, foreground, background in drawn(driver, line):
                assert contrast(foreground, background) >= 3.5, (key, text, foreground, background)
            await driver.press("escape", "escape")


@pytest.mark.parametrize("theme", THEMES)
async def test_the_keys_in_the_bar_and_in_the_help_can_be_read(server: ContractServer, theme: str) -> None:
    server.add_account("Beans")
    app = opened(server, theme, read_only=True)
    async with app.run_test(size=(120, 40)) as pilot:
        driver = Driver(app, pilot)
        await driver.sees("Beans", "/ filter", ", past")
        bar = drawn(driver, app.screen.query_one(KeyBar).content_region)
        await driver.press("question_mark", sees="/  filter")
        help_ = drawn(driver, app.screen.query_one("#help").content_region)
        for where, parts, word in (("bar", bar, "filter"), ("help", help_, "filter")):
            assert any(word in text for text, _foreground, _background in parts)
            for text, foreground, background in parts:
                assert contrast(foreground, background) >= READABLE, (where, text, foreground, background)


def drawn(driver: Driver, region: Region) -> list[tuple[str, Color, Color]]:
    """Return the texts of a region of the screen, each with its colour and what it stands on."""
    found = []
    for strip in strips_on_screen(driver.app)[region.y : region.bottom]:
        for segment in strip.crop(region.x, region.right):
            if segment.text.strip() and segment.style and segment.style.color and segment.style.bgcolor:
                colors = (segment.style.color, segment.style.bgcolor)
                found.append((segment.text, *map(Color.from_rich_color, colors)))
    assert found
    return found


def contrast(one: Color, other: Color) -> float:
    """Return the contrast of two colours as WCAG 2 defines it."""
    darker, lighter = sorted(map(luminance, (one, other)))
    return (lighter + 0.05) / (darker + 0.05)


def luminance(color: Color) -> float:
    red, green, blue = (
        part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in color.normalized
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
