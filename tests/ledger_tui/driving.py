"""Looking at a running dashboard and pressing its keys."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial

from textual import events
from textual.keys import _character_to_key, key_to_character
from textual.pilot import Pilot
from textual.widget import Widget

from ledger_tui.app import LedgerApp
from ledger_tui.state.session import Mode
from ledger_tui.widgets.resource_view import ResourceView

PATIENCE_SECONDS = 10.0
LASTING = {"listen", "connect", "server"}  # workers that live as long as the dashboard


async def until(condition: Callable[[], object], what: str = "") -> None:
    """Wait until a condition holds; fail if it never does. What takes long is looked at less often."""
    deadline, pause = time.monotonic() + PATIENCE_SECONDS, 0.001
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"never came: {what or condition}")
        await asyncio.sleep(pause)
        pause = min(2 * pause, 0.05)


def key_event(key: str) -> events.Key:
    """The event of a key, named as Textual names it or by its character."""
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
        """The view on screen, which is of a resource."""
        view = self.app.dashboard.view
        assert isinstance(view, ResourceView)
        return view

    async def rests(self) -> None:
        """Wait until nothing is asked any more for what is on the screen."""
        await until(lambda: not [w for w in self.app.workers if w.is_running and w.group not in LASTING])

    async def connects(self) -> None:
        """Wait until a server at an address has answered what is asked of it at the start."""
        await until(lambda: not [w for w in self.app.workers if w.is_running and w.group == "connect"])

    async def press(self, *keys: str) -> None:
        """Press keys, each when the one before it has had its effect on the screen."""
        for key in keys:
            await self.burst(key)

    async def burst(self, *keys: str) -> None:
        """Press keys that all come in one read, as a slow line delivers them."""
        for key in keys:
            self.app.post_message(key_event(key))
        await self.pilot.pause(0)  # the application has them
        await until(lambda: self.app.keys.all_done, "the effect of the keys")
        await self.pilot.pause(0)  # what they led to is on the screen

    def turn_live(self) -> None:
        """Have the dashboard take its key for one of the live mode, whatever the records say."""
        self.app.session._key_mode = Mode.LIVE
        self.app.session.on_change()

    async def type(self, text: str) -> None:
        """Type a text in one go."""
        await self.burst(*text)

    def text(self, of: Widget | None = None) -> str:
        """What stands on the screen, as lines of plain text."""
        screen = of or self.app.screen
        strips = self.app.screen._compositor.render_strips()
        if of is not None:
            region = screen.region
            strips = [strip.crop(region.x, region.right) for strip in strips[region.y : region.bottom]]
        return "\n".join("".join(segment.text for segment in strip) for strip in strips)

    async def sees(self, *texts: str) -> None:
        """Wait until each text stands on the screen."""
        for text in texts:
            try:
                await until(partial(self._stands, text))
            except AssertionError:
                raise AssertionError(f"{text!r} never came to stand on\n{self.text()}") from None

    def _stands(self, text: str) -> bool:
        return text in self.text()

    async def sees_no_more(self, text: str) -> None:
        """Wait until a text is gone."""
        await until(lambda: text not in self.text(), f"{text!r} going away")
