"""A worker's side of the channel: what it asks its parent, and what its parent tells it."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import socket
from collections.abc import AsyncIterator, Callable
from typing import Any

from ledger_engine.limits import Outcome, Place
from ledger_engine.server.workers.channel import Channel, Message

ANSWER, REFUSAL = "answer", "refusal"  # the kinds of message that end a request, with a result or an error


class Parent:
    """The parent of this worker.

    `told` is called with each message that is no answer, in order with the answers; `lost` when the parent
    has ended.
    """

    def __init__(self, told: Callable[[Message], None], lost: Callable[[], None]) -> None:
        self._told = told
        self._channel = Channel(self._receive, lost, self._refuse)
        self._numbers = itertools.count(1)
        self._asked: dict[int, Outcome] = {}

    async def open(self, end: socket.socket) -> None:
        """Start at this end of the pair of sockets."""
        await self._channel.open(end)

    @property
    def waiting(self) -> int:
        """How many requests have no answer yet."""
        return len(self._asked)

    def tell(self, kind: str, content: Any = None, number: int = 0) -> None:
        """Send a message that has no answer."""
        self._channel.send(kind, content, number)

    def request(self, kind: str, content: Any, outcome: Outcome) -> int:
        """Send a request, whose answer goes to `outcome`; return its number."""
        number = next(self._numbers)
        self._asked[number] = outcome
        self._channel.send(kind, content, number)
        return number

    async def ask(self, kind: str, content: Any = None) -> Any:
        """Send a request and return its answer. Raises what the parent refuses it with."""
        answered: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.request(kind, content, answered)
        return await answered

    def flush(self) -> None:
        """Send what is waiting at once."""
        self._channel.flush()

    def close(self) -> None:
        """Send what is waiting, and close the channel."""
        self._channel.close()

    def _receive(self, messages: list[Message]) -> None:
        asked = self._asked
        for message in messages:
            kind, number, content = message
            if kind == ANSWER:
                if not (outcome := asked.pop(number)).done():
                    outcome.set_result(content)
            elif kind == REFUSAL:
                if not (outcome := asked.pop(number)).done():
                    outcome.set_exception(content)
            else:
                self._told(message)

    def _refuse(self, message: Message, error: Exception) -> None:
        outcome = self._asked.pop(message[1], None)
        if outcome is not None and not outcome.done():
            outcome.set_exception(error)


class ParentsPlaces:
    """Places that the parent gives out; it takes back those of a worker that has ended."""

    def __init__(self, parent: Parent) -> None:
        self._parent = parent

    @contextlib.asynccontextmanager
    async def hold(self, *places: Place, wait: bool = False) -> AsyncIterator[None]:
        """Hold one place of each for the duration of the context, as `Places.hold` does."""
        answered: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        number = self._parent.request("take places", (places, wait), answered)
        try:
            await answered
            yield
        finally:
            # Also when this was cancelled before the answer, which may be under way.
            self._parent.tell("give places back", number=number)
