"""Reads the screen of a running dashboard, and presses its keys."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial
from math import inf

from textual import events
from textual.keys import _character_to_key, key_to_character
from textual.pilot import Pilot
from textual.strip import Strip
from textual.widget import Widget

from ledger_tui.app.application import LedgerApp
from ledger_tui.client.session import Mode
from ledger_tui.lists.resource_view import ResourceView
from ledger_tui.ui.dialogs import Dialog
from tests.ledger_tui.cheap_textual import PATIENCE_SECONDS, is_changing, strips_on_screen

LASTING = {"listen", "connect", "server"}  # workers that live as long as the dashboard


async def until(condition: Callable[[], object], what: str = "") -> None:
    """Wait until a condition holds; fail if it never does.

    The pauses between two checks grow: each is a fifth of the time that has passed.
    """
    begun = time.monotonic()
    while not condition():
        passed = time.monotonic() - begun
        if passed > PATIENCE_SECONDS:
            raise AssertionError(f"never came: {what or condition}")
        await asyncio.sleep(min(max(0.001, passed / 5), 0.05))


def key_event(key: str) -> events.Key:
    """Return the event of a key, given by Textual's name or by its character."""
    if len(key) == 1:
        return events.Key(_character_to_key(key), key)
    return events.Key(key, key_to_character(key))


class Driver:
    """One dashboard under test."""

    def __init__(self, app: LedgerApp, pilot: Pilot[int]) -> None:
        self.app = app
        self.pilot = pilot

    @property
    def view(self) -> ResourceView:
        """The view on screen, which must be of a resource."""
        view = self.app.dashboard.view
        assert isinstance(view, ResourceView)
        return view

    async def rests(self) -> None:
        """Wait until no request for the screen is under way and all answers are laid out."""
        await until(lambda: not self._is_asking() and not is_changing(self.app.screen))

    def _is_asking(self) -> bool:
        return any(each.is_running and each.group not in LASTING for each in self.app.workers)

    async def connects(self) -> None:
        """Wait until the server has answered the requests at the start."""
        await until(lambda: not [w for w in self.app.workers if w.is_running and w.group == "connect"])

    async def press(self, *keys: str, sees: str | tuple[str, ...] = (), gone: str = "") -> None:
        """Press keys, each after the effect of the previous key has reached the screen.

        Then wait until the screen no longer shows `gone`, and until it shows `sees`.
        """
        for key in keys:
            await self.burst(key)
        if gone:
            await self.sees_no_more(gone)
        await self.sees(*([sees] if isinstance(sees, str) else sees))

    async def goes_to(self, key: str) -> None:
        """Press the key of a place, and wait until its list is read.

        A key that needs a row does nothing before.
        """
        await self.press(key)
        await until(lambda: self.view.model.window.loaded)

    async def burst(self, *keys: str) -> None:
        """Press keys that all arrive in one read, as over a slow connection."""
        await until(self._question_is_open, "the opening of the question")
        for key in keys:
            self.app.post_message(key_event(key))
        await self.pilot.pause(0)  # the application has received them
        await until(lambda: self.app.keys.all_done, "the effect of the keys")
        await self.pilot.pause(0)  # their effect is on the screen
        await until(self._question_is_open, "the opening of the question")

    async def lists_only(self, account: dict[str, object]) -> None:
        """Show the transactions of one account, so that the form of a new transaction names this account."""
        self.view.set_filters({"account": str(account["id"])})
        await until(lambda: self.view.model.window.loaded)

    def _question_is_open(self) -> bool:
        screen = self.app.screen
        return not (isinstance(screen, Dialog) and screen.is_question) or screen.opened_at < inf

    def turn_live(self) -> None:
        """Make the dashboard treat its key as a live key, even if the records are in test mode."""
        self.app.session._key_mode = Mode.LIVE
        self.app.session.on_change()

    async def type(self, text: str, *keys: str, sees: str | tuple[str, ...] = (), gone: str = "") -> None:
        """Type a text at once, and press the keys after it as `press` does."""
        await self.burst(*text)
        await self.press(*keys, sees=sees, gone=gone)

    def text(self, of: Widget | None = None) -> str:
        """Return the text on the screen as plain lines."""
        strips = strips_on_screen(self.app)
        if of is not None:
            region = of.region
            strips = [strip.crop(region.x, region.right) for strip in strips[region.y : region.bottom]]
        return _lines(strips)

    async def sees(self, *texts: str) -> None:
        """Wait until each text is on the screen."""
        for text in texts:
            try:
                await until(partial(self._stands, text))
            except AssertionError:
                raise AssertionError(f"{text!r} never came to stand on\n{self.text()}") from None

    def _stands(self, text: str) -> bool:
        return text in _lines(strips_on_screen(self.app, in_terminal=True))

    async def sees_no_more(self, text: str) -> None:
        """Wait until a text is gone."""
        await until(lambda: text not in self.text(), f"{text!r} going away")


def _lines(strips: list[Strip]) -> str:
    return "\n".join(strip.text for strip in strips)
