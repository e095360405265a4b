"""The channel between a worker of `serve --workers` and its parent: messages over a private pair of sockets.

What one side sends in one iteration of its event loop travels together, so that a group of works costs one
write and one read. The messages are pickled, works by reference to their functions. That is safe because the
pair of sockets has no name: only a parent and the process it started have its ends.
"""

from __future__ import annotations

import asyncio
import pickle
import socket
from collections.abc import Callable
from typing import Any, TypeAlias, cast

from ledger_engine.core.pickling import Messages, framed

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
