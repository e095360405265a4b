"""A worker's side of the channel: what it asks its parent, and what its parent tells it.

What one side sends in one iteration of its event loop travels together, so that a group of works costs one
write and one read. The messages are pickled, works by reference to their functions. That is safe because the
pair of sockets has no name: only a parent and the process it started have its ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import pickle
import socket
from collections.abc import AsyncIterator, Callable
from typing import Any, NamedTuple, TypeAlias, cast

from ledger_engine.core.measuring import RequestMeter
from ledger_engine.core.processes import Messages, framed
from ledger_engine.limits import Outcome, Semaphore

# What the message is about, the number of a request and of its answer, and what it says. A class of its own,
# even a NamedTuple, is pickled by calls of Python.
Message: TypeAlias = tuple[str, int, Any]


class Channel(asyncio.Protocol):
    """One end of a channel.

    `receive` is called with the messages that arrived together, `lost` when the other end is gone.
    `unsendable` is called with a message that cannot be pickled and with the error, and returns another one
    to send instead, or None.
    """

    def __init__(
        self,
        receive: Callable[[list[Message]], None],
        lost: Callable[[], None],
        unsendable: Callable[[Message, Exception], Message | None],
    ) -> None:
        self._receive = receive
        self._lost = lost
        self._unsendable = unsendable
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._unsent: list[Message] = []
        self._arrived = Messages()

    async def open(self, end: socket.socket) -> None:
        """Start sending and receiving at this end of the pair."""
        await self._loop.create_connection(lambda: self, sock=end)

    def send(self, kind: str, content: Any = None, number: int = 0) -> None:
        """Send a message at the end of this iteration of the event loop; nothing happens once it is lost."""
        if not self._unsent:
            self._loop.call_soon(self.flush)
        self._unsent.append((kind, number, content))

    def flush(self) -> None:
        """Send what is waiting at once."""
        messages, self._unsent = self._unsent, []
        if self._transport is None or not messages:
            return
        try:
            data = framed(messages)
        except Exception:  # of one of them, whatever it raises: the others must not suffer
            data = framed(self._sendable(messages))
        self._transport.write(data)

    def close(self) -> None:
        """Send what is waiting, and close this end."""
        self.flush()
        if self._transport is not None:
            self._transport.close()

    # Called by the event loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        for messages in self._arrived.feed(data):
            self._receive(messages)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._lost()

    def _sendable(self, messages: list[Message]) -> list[Message]:
        sendable: list[Message] = []
        for message in messages:
            try:
                pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
            except Exception as error:
                replacement = self._unsendable(message, error)
                if replacement is not None:
                    sendable.append(replacement)
            else:
                sendable.append(message)
        return sendable


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


class ParentsSemaphores:
    """The semaphores of the parent, which releases those of a worker that has ended."""

    def __init__(self, parent: Parent) -> None:
        self._parent = parent

    @contextlib.asynccontextmanager
    async def hold(self, *semaphores: Semaphore, wait: bool = False) -> AsyncIterator[None]:
        """Acquire each for the duration of the context, as `Semaphores.hold` does."""
        answered: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        number = self._parent.request("acquire", (semaphores, wait), answered)
        try:
            await answered
            yield
        finally:
            # Also when this was cancelled before the answer, which may be under way.
            self._parent.tell("release", number=number)


REPORTED_AFTER_S = 1.0  # what a worker has noted is lost if it is killed within this time


class Measured(NamedTuple):
    """What a worker has answered and refused since its last report: arguments of calls of `RequestMeter`."""

    answered: list[tuple[str, str, int, float]]
    refused: list[str]

    def count_in(self, meter: RequestMeter) -> None:
        """Count all of it."""
        for request in self.answered:
            meter.answered(*request)
        for limit in self.refused:
            meter.refused(limit)


class ParentsMeter:
    """The `RequestMeter` of a worker: its parent counts, and gets a report at most once a second."""

    def __init__(self, parent: Parent) -> None:
        self._parent = parent
        self._loop = asyncio.get_running_loop()
        self._noted = Measured([], [])
        self._timer: asyncio.TimerHandle | None = None

    def answered(self, method: str, route: str, status: int, seconds: float) -> None:
        self._noted.answered.append((method, route, status, seconds))
        self._report_soon()

    def refused(self, limit: str) -> None:
        self._noted.refused.append(limit)
        self._report_soon()

    def report(self) -> None:
        """Send the parent what was noted, at once; for the end of the worker."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            noted, self._noted = self._noted, Measured([], [])
            self._parent.tell("measured", noted)

    def _report_soon(self) -> None:
        if self._timer is None:
            self._timer = self._loop.call_later(REPORTED_AFTER_S, self.report)
