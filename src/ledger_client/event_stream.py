"""Reads the live stream: server-sent events (WHATWG HTML, 9.2) that contain the ledger's events."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass

import httpx

from ledger_client import webhooks
from ledger_client.answers import Unread, require_plain
from ledger_client.parsing import parsed

_SURROGATE = re.compile("[\ud800-\udfff]")
EVENT_BYTES_MAX = 16_000_000  # a record in an event has up to 1 MB, but is escaped as JSON twice


class NotEvents(Unread):
    """The answer is not an event stream."""


@dataclass(frozen=True, slots=True)
class ServerSentEvent:
    """One server-sent event; `id` is the last id that the stream has sent so far, "" if there was none."""

    event: str
    data: str
    id: str


async def events(answer: httpx.Response) -> AsyncIterator[ServerSentEvent]:
    """Yield each event that has data, as soon as it arrives. Raises NotEvents, Unread and httpx.HTTPError."""
    parser = _Parser(answer)
    assert isinstance(answer.stream, httpx.AsyncByteStream)
    async for part in answer.stream:
        for event in parser.feed(part):
            yield event


class _Parser:
    """Makes events from the bytes of a stream. The bytes of one event may arrive in several pieces."""

    def __init__(self, answer: httpx.Response) -> None:
        if answer.headers.get("Content-Type", "").partition(";")[0].strip().lower() != "text/event-stream":
            raise NotEvents("the answer is not an event stream")
        require_plain(answer)
        self._line = bytearray()
        self._after_cr = False
        self._first = True
        self._event, self._id, self._data = "", "", bytearray()

    def feed(self, part: bytes) -> Iterator[ServerSentEvent]:
        """Add these bytes, and yield each event that is complete now."""
        for line in self._lines(part):
            if self._first:
                line, self._first = line.removeprefix(b"\xef\xbb\xbf"), False
            if line:
                self._read(line)
                continue
            if len(self._data) > 1:
                text = self._data[:-1].decode("utf-8", "replace")
                yield ServerSentEvent(self._event or "message", text, self._id)
            self._event, self._data = "", bytearray()

    def _read(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data += value + b"\n"
            _require_small(self._data)
        elif name == b"event":
            self._event = value.decode("utf-8", "replace")
        elif name == b"id" and b"\0" not in value:
            self._id = value.decode("utf-8", "replace")

    def _lines(self, part: bytes) -> Iterator[bytes]:
        """Add these bytes, and yield each complete line without its end: CR, LF or both."""
        if not part:
            return
        if self._after_cr:
            part = part.removeprefix(b"\n")
        self._after_cr = part.endswith(b"\r")
        for piece in part.splitlines(keepends=True):
            self._line += piece
            _require_small(self._line)
            if piece.endswith((b"\r", b"\n")):
                yield bytes(self._line.rstrip(b"\r\n"))
                self._line.clear()


def _require_small(data: bytearray) -> None:
    if len(data) > EVENT_BYTES_MAX:
        raise Unread(f"an event is larger than {EVENT_BYTES_MAX // 1_000_000} MB")


@dataclass(frozen=True, slots=True)
class StreamMessage:
    """A message of the live stream: the raw body of an event, and whether its signature is valid.

    The first message of a connection contains no event, but the secret that signs later messages. In this
    message `body` is None, and `is_signed` is false if the secret is missing. After a lost connection the
    stream can resume after the event `id`. If `id` is "", resume after the id of the last message that had an
    id.
    """

    id: str
    body: bytes | None
    is_signed: bool


class StreamSession:
    """One connection to the live stream. The first message contains the secret that signs later messages."""

    def __init__(self) -> None:
        self._secret: str | None = None

    def read(self, event: ServerSentEvent) -> StreamMessage | None:
        """Return the message in a server-sent event; None if the kind of event is unknown."""
        # the client sends the id back in a header, so the id must be ASCII
        id = event.id if event.id.isascii() else ""
        if event.event == "session":
            (self._secret,) = _texts(event.data, "secret")
            return StreamMessage(id, None, self._secret is not None)
        if event.event != "event":
            return None
        body, signature = _texts(event.data, "body", "signature")
        raw = (body or "").encode()
        is_signed = self._secret is not None and signature is not None
        return StreamMessage(
            id, raw, is_signed and webhooks.is_signed(raw, signature or "", self._secret or "")
        )


def _texts(text: str, *names: str) -> list[str | None]:
    """Return these fields of a JSON object; None for a field that is not a text."""
    try:
        fields = parsed(text)
    except ValueError:
        fields = None
    values = [fields.get(name) if isinstance(fields, dict) else None for name in names]
    return [value if isinstance(value, str) and not _SURROGATE.search(value) else None for value in values]
