"""One key after the other: each is given out when what the one before it led to has happened.

Textual gives a key to the widget that has the focus; from there it bubbles up to the application, and only
there its binding is looked for. Keys that come in one read (a slow line delivers them in bunches) would all
go to the widget that has the focus now, though the first of them opens the form the others are meant for.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

from textual import events
from textual.app import App
from textual.message_pump import MessagePump

_PATIENCE_SECONDS = 2.0  # a part that hangs must not lock the keyboard


class KeyOrder:
    """Keys wait here for their turn; `give_out` is what the application does with one.

    A messenger follows each key on its way, from the focus up to the application, and waits at every part
    until that has done what it was told before. When it comes home and nobody on the way has anything left
    to do, the key is done; else, or when there is another screen or focus by now, it goes again.
    """

    def __init__(self, app: App[Any], give_out: Callable[[events.Event], Awaitable[None]]) -> None:
        self._app = app
        self._give_out = give_out
        self._waiting: deque[events.Event] = deque()
        self._given_at: float | None = None  # when the key that is not done yet was given out
        self._followed: tuple[MessagePump, ...] = ()  # the way of the messenger that is waited for
        self._rounds = 0

    @property
    def all_done(self) -> bool:
        """Whether every key that was pressed has had its effect."""
        return self._given_at is None

    async def take(self, event: events.Event) -> None:
        """A key was pressed, or text was pasted."""
        self._waiting.append(event)
        if self._given_at is None or time.monotonic() - self._given_at > _PATIENCE_SECONDS:
            await self._next()

    async def _next(self) -> None:
        self._given_at = time.monotonic()
        self._rounds = 0
        await self._give_out(self._waiting.popleft())
        self._follow()

    def _follow(self) -> None:
        self._followed = self._path()
        self._go(self._followed, 0)

    def _path(self) -> tuple[MessagePump, ...]:
        """From the focus up to the application, which is the last."""
        screens = self._app.screen_stack
        parts = (screens[-1].focused or screens[-1]).ancestors_with_self if screens else ()
        return (*(part for part in parts if part is not self._app), self._app)

    def _go(self, path: tuple[MessagePump, ...], at: int) -> None:
        """The messenger goes to the part of this number; one that was removed is passed over."""
        for number in range(at, len(path)):
            if path[number].call_later(
                self._go if number + 1 < len(path) else self._returned, path, number + 1
            ):
                return

    async def _returned(self, path: tuple[MessagePump, ...], _at: int) -> None:
        if path is not self._followed:  # its key was given up
            return
        self._rounds += 1
        # Once is never enough: the application, at the end of the way, may have told a part at its beginning
        # something that this one is just about to do.
        if self._rounds == 1 or path != self._path() or any(part.message_queue_size for part in path):
            self._follow()
        elif self._waiting:
            await self._next()
        else:
            self._given_at = None
