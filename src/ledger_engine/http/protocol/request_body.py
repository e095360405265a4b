"""The body as it comes off the wire: counted as it comes, and never more of it kept than is allowed."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, NoReturn

from werkzeug.exceptions import RequestEntityTooLarge
from werkzeug.http import parse_options_header
from werkzeug.sansio.multipart import NEED_DATA, Data, Epilogue, Field, File, MultipartDecoder

from ledger_engine.core.errors import InvalidRequest
from ledger_engine.http.bodies import BODY_MAX
from ledger_engine.http.errors import BodyTimeout, PayloadTooLarge
from ledger_engine.http.protocol.asgi import Receive

FILE_MAX = 25 * 1024 * 1024  # bytes of one file (interface.md, Request size)
PARTS_MAX = 1000
LARGE = 16 * 1024  # bytes of a body that may be worth an attacker's while to have us hold
BODY_TIMEOUT_S = 60
REFUSAL = "ledger.refusal"  # under this name the wire says why the rest cannot be read

ARRIVAL = "ledger.arrival"  # … and under this one how far the body is


@dataclass(slots=True)
class Arrival:
    """`whole` once all of the body is there to be received: most come along with their head, and then
    there is nobody to be timed."""

    whole: bool = False


class ClientGone(Exception):
    """The client went away before its request was whole."""


async def read_body(receive: Receive, headers: dict[bytes, bytes], arrival: Arrival | None = None) -> bytes:
    """The whole body, empty for files: those are counted and dropped, because no route takes one.

    Raises PayloadTooLarge, BodyTimeout, InvalidRequest when the body is not framed as HTTP asks, and
    ClientGone. After a LedgerError the rest is still to come.
    """
    length = headers.get(b"content-length")
    if length is None and b"transfer-encoding" not in headers:
        return _content(await receive())
    boundary = _boundary(headers.get(b"content-type", b""))
    if boundary is None and _declares_too_much(length):
        _refuse_size()
    if boundary is None and arrival is not None and arrival.whole:
        return await _read_whole(receive)
    try:
        async with asyncio.timeout(BODY_TIMEOUT_S):
            if boundary is not None:
                await _pass_files(receive, boundary)
                return b""
            return await _read_whole(receive)
    except TimeoutError:
        raise BodyTimeout(f"The body did not arrive within {BODY_TIMEOUT_S} seconds.") from None


def is_refused_unread(headers: dict[bytes, bytes]) -> bool:
    """Whether the body is refused for the size that is told of it, before any of it comes."""
    return _boundary(headers.get(b"content-type", b"")) is None and _declares_too_much(
        headers.get(b"content-length")
    )


def is_large(headers: dict[bytes, bytes]) -> bool:
    """Whether much of a body would be held until it is whole; of files nothing is."""
    if _boundary(headers.get(b"content-type", b"")) is not None:
        return False
    length = headers.get(b"content-length")
    if length is None or not length.isdigit():
        return b"transfer-encoding" in headers
    return LARGE < int(length) <= BODY_MAX


def _declares_too_much(length: bytes | None) -> bool:
    return length is not None and length.isdigit() and int(length) > BODY_MAX


async def _read_whole(receive: Receive) -> bytes:
    chunks: list[bytes] = []
    size, more = 0, True
    while more:
        message = await receive()
        chunks.append(_content(message))
        size += len(chunks[-1])
        if size > BODY_MAX:
            _refuse_size()
        more = bool(message.get("more_body"))
    return b"".join(chunks)


async def _pass_files(receive: Receive, boundary: bytes) -> None:
    """Count the files of a multipart body, each up to 25 MB; its other fields together are a body's size."""
    decoder = MultipartDecoder(boundary, max_form_memory_size=BODY_MAX, max_parts=PARTS_MAX)
    room = 0
    in_file = False
    fields_room = BODY_MAX
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
                    room = FILE_MAX if in_file else fields_room
                elif isinstance(event, Data):
                    room -= len(event.data)
                    if room < 0:
                        raise PayloadTooLarge("A file is larger than 25 MB." if in_file else _TOO_LARGE)
                    if not in_file:
                        fields_room = room
                elif isinstance(event, Epilogue):
                    break
    except RequestEntityTooLarge:
        _refuse_size()
    except ValueError as error:
        raise InvalidRequest(
            "unsupported_content_type", f"This is no multipart body: {error}.", "Content-Type"
        ) from None


def _content(message: dict[str, Any]) -> bytes:
    if message["type"] == "http.request":
        return bytes(message.get("body", b""))
    refusal = message.get(REFUSAL)
    raise ClientGone if refusal is None else refusal


def _boundary(content_type: bytes) -> bytes | None:
    """The boundary of a multipart body, None for any other."""
    if content_type[:10].lower() != b"multipart/":
        return None
    boundary = parse_options_header(content_type.decode("latin-1"))[1].get("boundary")
    return boundary.encode() if boundary else None


_TOO_LARGE = "The body is larger than 1 MB."


def _refuse_size() -> NoReturn:
    raise PayloadTooLarge(_TOO_LARGE)
