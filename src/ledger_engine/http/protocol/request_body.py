"""The body as it comes off the wire: counted as it comes, and never more of it kept than is allowed."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any, NoReturn

from werkzeug.exceptions import RequestEntityTooLarge
from werkzeug.http import parse_options_header
from werkzeug.sansio.multipart import NEED_DATA, Data, Epilogue, Field, File, MultipartDecoder

from ledger_engine.core.errors import InvalidRequest
from ledger_engine.http.bodies import BODY_MAX
from ledger_engine.http.errors import BodyTimeout, PayloadTooLarge
from ledger_engine.http.protocol.asgi import Receive

FILE_MAX = 25 * 1024 * 1024  # bytes of one file (docs/interface.md#request-size)
PARTS_MAX = 1000
LARGE = 4 * 1024  # bytes; what is larger may be worth an attacker's while to have us hold
BODY_TIMEOUT_S = 60
STRANGERS_MAX = 16  # large bodies of callers without a good credential that are read at a time
STRANGERS_OF_ONE_MAX = 4  # … and of these from one address
REFUSAL = "ledger.refusal"  # under this name the wire says why the rest cannot be read

ARRIVAL = "ledger.arrival"  # … and under this one how far the body is


class Arrival:
    """How far a request's body has come; shared by the connection and the application.

    `whole` is true once all of it can be received without waiting. Most bodies come along with their head. Of
    any other the connection reads no more than came with the head until the application asks for it, so that
    a request which is refused without its body costs no memory.
    """

    __slots__ = ("_wanted", "is_wanted", "may_be_large", "whole")

    def __init__(self) -> None:
        self.whole = False
        self.is_wanted = False
        self.may_be_large = False
        self._wanted: asyncio.Event | None = None  # made for a connection that waits; few do

    def want(self, *, may_be_large: bool = False) -> None:
        """Let the connection read on, and in larger pieces if there is room for a large body."""
        self.is_wanted, self.may_be_large = True, may_be_large
        if self._wanted is not None:
            self._wanted.set()

    async def until_wanted(self) -> None:
        """Wait until the application asks for the body."""
        if not self.is_wanted:
            self._wanted = asyncio.Event()
            await self._wanted.wait()


class ClientGone(Exception):
    """The client went away before its request was whole."""


class TooManyBodies(Exception):
    """As many large bodies of callers without a good credential are being read as there is room for."""


class LargeBodies:
    """Counts the large bodies of callers without a good credential that are being read.

    There is room for a few, and for fewer from one address: thousands that never end would take all memory.
    """

    def __init__(self) -> None:
        self._of: Counter[str] = Counter()  # by address

    @contextlib.contextmanager
    def take_place(self, address: str) -> Iterator[None]:
        """Count as one from this address. Raises TooManyBodies."""
        if self._of[address] >= STRANGERS_OF_ONE_MAX or self._of.total() >= STRANGERS_MAX:
            raise TooManyBodies
        self._of[address] += 1
        try:
            yield
        finally:
            self._of[address] -= 1
            self._of += Counter()  # forgets those with none


def check_length(headers: dict[bytes, bytes]) -> None:
    """Raise PayloadTooLarge if the body's declared length is more than is allowed."""
    length = headers.get(b"content-length")
    if length is not None and int(length) > BODY_MAX and _boundary(headers) is None:
        _refuse_size()


def is_small(headers: dict[bytes, bytes]) -> bool:
    """Whether the body is declared to be small, and comes without the client waiting to be asked for it."""
    length = headers.get(b"content-length")
    return length is not None and int(length) <= LARGE and b"expect" not in headers


async def read_body(
    receive: Receive,
    headers: dict[bytes, bytes],
    arrival: Arrival | None = None,
    place: AbstractContextManager[None] | None = None,
) -> bytes:
    """The whole body, empty for files: those are counted and dropped, because no route takes one.

    A large body is read within `place`, if that is given. Raises PayloadTooLarge, BodyTimeout, InvalidRequest
    when the body is not framed as HTTP asks, what entering `place` raises, and ClientGone. After any of these
    the rest is still to come.
    """
    if b"content-length" not in headers and b"transfer-encoding" not in headers:
        return _content(await receive())
    boundary = _boundary(headers)
    if boundary is None and arrival is not None and arrival.whole:
        return await _read_whole(receive)
    try:
        with contextlib.ExitStack() as entered:
            if place is not None and (boundary is not None or int(headers.get(b"content-length", 0)) > LARGE):
                entered.enter_context(place)
                place = None
            if arrival is not None:
                arrival.want(may_be_large=place is None)
            async with asyncio.timeout(BODY_TIMEOUT_S):
                if boundary is None:
                    return await _read_whole(receive, place, entered)
                await _pass_files(receive, boundary)
                return b""
    except TimeoutError:
        raise BodyTimeout(f"The body did not arrive within {BODY_TIMEOUT_S} seconds.") from None


async def _read_whole(
    receive: Receive,
    place: AbstractContextManager[None] | None = None,
    entered: contextlib.ExitStack | None = None,
) -> bytes:
    chunks: list[bytes] = []
    size, more = 0, True
    while more:
        message = await receive()
        chunks.append(_content(message))
        size += len(chunks[-1])
        if size > BODY_MAX:
            _refuse_size()
        if size > LARGE and place is not None and entered is not None:
            entered.enter_context(place)
            place = None
        more = bool(message.get("more_body"))
    return b"".join(chunks)


async def _pass_files(receive: Receive, boundary: bytes) -> None:
    """Count the files of a multipart body, each up to 25 MB; its other fields together are a body's size."""
    decoder = MultipartDecoder(boundary, max_form_memory_size=BODY_MAX, max_parts=PARTS_MAX)
    left = 0
    in_file = False
    fields_left = BODY_MAX
    more = True
    try:
        while more:
            message = await receive()
            decoder.receive_data(_content(message))
            more = bool(message.get("more_body"))
            if not more:
                decoder.receive_data(None)
            while (event := decoder.next_event()) is not NEED_DATA:
                if isinstance(event, (File, Field)):
                    in_file = isinstance(event, File)
                    left = FILE_MAX if in_file else fields_left
                elif isinstance(event, Data):
                    left -= len(event.data)
                    if left < 0:
                        raise PayloadTooLarge("A file is larger than 25 MB." if in_file else _TOO_LARGE)
                    if not in_file:
                        fields_left = left
                elif isinstance(event, Epilogue):
                    break
    except RequestEntityTooLarge:
        _refuse_size()
    except ValueError as error:
        raise InvalidRequest(
            "unsupported_content_type", f"The multipart body is malformed: {error}.", "Content-Type"
        ) from None


def _content(message: dict[str, Any]) -> bytes:
    if message["type"] == "http.request":
        return bytes(message.get("body", b""))
    refusal = message.get(REFUSAL)
    raise ClientGone if refusal is None else refusal


def _boundary(headers: dict[bytes, bytes]) -> bytes | None:
    """The boundary of a multipart body, None for any other."""
    content_type = headers.get(b"content-type", b"")
    if content_type[:10].lower() != b"multipart/":
        return None
    boundary = parse_options_header(content_type.decode("latin-1"))[1].get("boundary")
    return boundary.encode() if boundary else None


_TOO_LARGE = "The body is larger than 1 MB."


def _refuse_size() -> NoReturn:
    raise PayloadTooLarge(_TOO_LARGE)
