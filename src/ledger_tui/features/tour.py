"""The tour: for a minute it goes by itself through the screens of the demo, with a caption for each step.

The tour presses keys as a person would, so the screen shows the real effects of these keys. If the user
presses any key, the tour ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from typing import Any, NamedTuple

from textual import events
from textual.app import App
from textual.content import Content
from textual.css.query import NoMatches
from textual.keys import key_to_character
from textual.widget import Widget

from ledger_tui.client.session import ConnectionState, Session
from ledger_tui.formats import plot
from ledger_tui.ui.handlers import KeyOrder

_KEY_SECONDS = 0.3  # seconds between two keys of a step
_PATIENCE_SECONDS = 20.0  # the longest wait for the requests that a key causes
_LOOK_SECONDS = 0.02
# the names that Textual gives to these characters
_LONGER = {"/": "slash", ":": "colon", ",": "comma", ".": "full_stop", "-": "minus", " ": "space"}


class TourStep(NamedTuple):
    """A caption, the keys to press while it is shown, and the number of seconds to show the result."""

    caption: str
    keys: tuple[str, ...]
    seconds: float


# A caption fits a line of 80 columns.
STEPS = (
    TourStep(
        "A ledger at work, live. One receiver of webhooks fails: its strip shows it",
        ("shift+tab", "shift+tab"),
        3.5,
    ),
    TourStep("Its deliveries show why: every attempt is stored", ("enter", "enter"), 3),
    TourStep("T traces one: its request, the changes, the event and every attempt", ("T",), 5),
    TourStep("R repairs it, in the demo, and s sends the event again", ("escape", "R", "s"), 3.5),
    # A retry may have delivered the event first; then `s` asks a question, and `escape` closes it.
    TourStep("Transactions: new ones arrive on top, and millions scroll as one list", ("escape", "2"), 2.5),
    TourStep("/ filters on the server, here the debits", ("/", *"type:debit", "enter"), 2.5),
    TourStep("An account, with its balance over time", ("1", *["down"] * 6, "enter"), 3),
    TourStep("How money flows between the accounts", (":", *"flows", "enter"), 4),
    TourStep("The request log: who sent each request, how long it took, why it was refused", ("8",), 2.5),
    TourStep("Back in time: every screen as it was before the failure", ("0", ":", *"at -2m", "enter"), 4),
    TourStep(", and . step the whole ledger back and forth by one event", (*",,,...",), 2.5),
    TourStep("… and on, until after the repair", (":", *"at -20s", "enter"), 3),
    TourStep("The rest is yours: press any key, then ? for all keys", ("escape",), 5),
)


class TourCaption(Widget):
    """The caption of the current step, below the tabs, where no dialog covers it."""

    DEFAULT_CSS = "TourCaption { height: 2; padding: 0 1; background: $panel; }"

    def __init__(self) -> None:
        super().__init__(id="tour")
        self.number = 0

    def render(self) -> Content:
        width = max(1, self.content_size.width)
        bar_text, empty = plot.meter((self.number + 1) / len(STEPS), min(30, width // 3))
        caption = Content.styled(STEPS[self.number].caption, "bold $accent").truncate(width, ellipsis=True)
        hint = "  any key ends the tour"
        return Content.assemble(caption, "\n", (bar_text, "$accent"), (empty, "$faint"), (hint, "$muted"))


class Tour:
    """Plays the steps. `pace` is the speed: with a pace of 2 the tour takes half of its usual time.

    `is_reading` returns whether the screen waits for an answer.
    """

    def __init__(
        self, app: App[Any], keys: KeyOrder, session: Session, is_reading: Callable[[], bool], pace: float
    ) -> None:
        self._app = app
        self._keys = keys
        self._session = session
        self._is_reading = is_reading
        self._pace = pace
        self._caption = TourCaption()
        self.playing = False

    def start(self) -> None:
        """Play the tour in a worker of the application."""
        self._app.run_worker(self.play(), group="tour", exit_on_error=False)

    def stop(self) -> None:
        """End the tour at once, because the user has pressed a key."""
        self.playing = False
        self._app.workers.cancel_group(self._app, "tour")
        self._app.run_worker(self.end(), group="tour", exit_on_error=False)

    async def play(self) -> None:
        """Play all steps when the demo is loaded. The last caption stays until the user presses a key."""
        self.playing = True
        dashboard = self._app.screen_stack[0]
        await self._until(lambda: self._session.state is ConnectionState.ONLINE, for_ever=True)
        await dashboard.mount(self._caption, after=dashboard.query_one("ScreenTabs"))
        await self._settle()
        for number, step in enumerate(STEPS):
            self._caption.number = number
            self._caption.refresh()
            for key in step.keys:
                if not self.playing:
                    return
                await self._press(key)
                await asyncio.sleep(_KEY_SECONDS / self._pace / (4 if len(step.keys) > 6 else 1))
            await asyncio.sleep(step.seconds / self._pace)

    async def end(self) -> None:
        """Remove the tour's caption; the screen stays as it is."""
        with suppress(NoMatches):
            await self._app.screen_stack[0].query_one("#tour").remove()

    async def _press(self, key: str) -> None:
        name = _LONGER.get(key, key)
        # The newest delivery may not have failed yet when the tour comes to repair its receiver.
        await self._until(lambda: self._is_possible(name))
        await self._keys.take(events.Key(name, key if len(key) == 1 else key_to_character(key)))
        await self._until(lambda: self._keys.all_done)
        await self._settle()

    def _is_possible(self, key: str) -> bool:
        active = self._app.screen.active_bindings.get(key)
        return active is None or active.enabled

    async def _settle(self) -> None:
        """Wait until the screen has read its data and the results of the keys."""
        await self._until(lambda: not self._is_reading())

    async def _until(self, condition: Callable[[], bool], *, for_ever: bool = False) -> None:
        for _ in count() if for_ever else range(int(_PATIENCE_SECONDS / _LOOK_SECONDS)):
            if condition():
                return
            await asyncio.sleep(_LOOK_SECONDS)
