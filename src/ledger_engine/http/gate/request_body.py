"""Reads request bodies: counts their bytes as they arrive, and stops reading at the limit."""

from __future__ import annotations

import asyncio
import contextlib
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any, NoReturn

from werkzeug.exceptions import RequestEntityTooLarge
from werkzeug.http import parse_options_header
from werkzeug.sansio.multipart import NEED_DATA, Data, Epilogue, Field, File, MultipartDecoder

from ledger_engine.access.credentials import Credential
from ledger_engine.core.errors import InvalidRequest
from ledger_engine.http.bodies import BODY_MAX
from ledger_engine.http.errors import BodyTimeout, from_wire
from ledger_engine.http.operations import Call
from ledger_engine.http.wire.asgi import LARGE, Extension, Receive
from ledger_engine.limits import Semaphore

FILE_MAX = 25 * 1024 * 1024  # bytes of one file (docs/interface.md#request-size)
PARTS_MAX = 1000  # parts of one multipart body
BODY_TIMEOUT_S = 60  # seconds in which the whole body must arrive
ANONYMOUS_BODIES_MAX = 16  # large bodies that are read at a time for callers without a valid credential
ANONYMOUS_BODIES_PER_ADDRESS_MAX = 4  # how many of these 16 bodies may come from one address


class ClientGone(Exception):
    """The client disconnected before its request was complete."""


def check_length(headers: dict[bytes, bytes]) -> None:
    """Raise InvalidRequest if Content-Length is over the limit and the body is not multipart."""
    length = headers.get(b"content-length")
    if length is not None and int(length) > BODY_MAX and _boundary(headers) is None:
        _refuse_size()


async def begin_body(call: Call, receive: Receive, wire: Extension | None, address: str) -> None:
    """Read the body of the call if it is small or has already arrived; otherwise set `call.read_later`.

    A large body of a caller without a valid credential needs a place. There are only 16 places, and 4 for one
    address, because thousands of bodies that never end would take all memory. `address` is the client's
    address. `wire` is None if the application runs on another ASGI server. Raises LedgerError and ClientGone.
    """
    headers = call.headers
    length = headers.get(b"content-length")
    # On this server, a request with neither Content-Length nor Transfer-Encoding has no body. Another ASGI
    # server may use HTTP/2, in which a body needs neither of the two headers.
    if wire is not None and length is None and b"transfer-encoding" not in headers:
        return
    is_small = length is not None and int(length) <= LARGE and b"expect" not in headers
    if is_small or (wire is not None and wire.whole):
        call.body = await read_body(receive, headers, wire)
        return
    # Do not read the body yet, because the operation may refuse the request without reading the body.
    place = None
    if not isinstance(call.caller, Credential):
        of_address = Semaphore(f"bodies/{address}", ANONYMOUS_BODIES_PER_ADDRESS_MAX)
        place = call.engine.shared_state.semaphores.hold(
            of_address, Semaphore("bodies", ANONYMOUS_BODIES_MAX)
        )
    call.read_later = partial(read_body, receive, headers, wire, place)


async def read_body(
    receive: Receive,
    headers: dict[bytes, bytes],
    wire: Extension | None = None,
    place: AbstractAsyncContextManager[None] | None = None,
) -> bytes:
    """Return the whole body, or b"" for a file upload.

    The bytes of a file upload are counted and dropped, because no route takes files.

    `place` is the context that holds a place for a large body while it is read; None if the body needs no
    place. Raises Full if no place is free. Raises InvalidRequest if the body is too large, does not arrive in
    time or is not framed as HTTP requires. Raises ClientGone if the client disconnects. After any of these
    errors, the rest of the body is still unread.
    """
    boundary = _boundary(headers)
    if boundary is None and wire is not None and wire.whole:
        return await _read_whole(receive, wire)
    try:
        async with contextlib.AsyncExitStack() as stack:
            if place is not None and (boundary is not None or int(headers.get(b"content-length", 0)) > LARGE):
                await stack.enter_async_context(place)
                place = None
            if wire is not None:
                wire.want(may_be_large=place is None)
            async with asyncio.timeout(BODY_TIMEOUT_S):
                if boundary is None:
                    return await _read_whole(receive, wire, place, stack)
                await _drop_upload(receive, wire, boundary)
                return b""
    except TimeoutError:
        raise BodyTimeout(f"The body did not arrive within {BODY_TIMEOUT_S} seconds.") from None


async def _read_whole(
    receive: Receive,
    wire: Extension | None,
    place: AbstractAsyncContextManager[None] | None = None,
    stack: contextlib.AsyncExitStack | None = None,
) -> bytes:
    chunks: list[bytes] = []
    size, more = 0, True
    while more:
        message = await receive()
        chunks.append(_content(message, wire))
        size += len(chunks[-1])
        if size > BODY_MAX:
            _refuse_size()
        if size > LARGE and place is not None and stack is not None:
            await stack.enter_async_context(place)
            place = None
        more = bool(message.get("more_body"))
    return b"".join(chunks)


async def _drop_upload(receive: Receive, wire: Extension | None, boundary: bytes) -> None:
    """Receive a multipart body and drop its bytes. Raises InvalidRequest if the body is too large.

    Each file may have FILE_MAX bytes, and all other fields together may have BODY_MAX bytes.
    """
    decoder = MultipartDecoder(boundary, max_form_memory_size=BODY_MAX, max_parts=PARTS_MAX)
    bytes_left = 0
    in_file = False
    fields_left = BODY_MAX
    more = True
    try:
        while more:
            message = await receive()
            decoder.receive_data(_content(message, wire))
            more = bool(message.get("more_body"))
            if not more:
                decoder.receive_data(None)
            while (event := decoder.next_event()) is not NEED_DATA:
                if isinstance(event, (File, Field)):
                    in_file = isinstance(event, File)
                    bytes_left = FILE_MAX if in_file else fields_left
                elif isinstance(event, Data):
                    bytes_left -= len(event.data)
                    if bytes_left < 0:
                        _refuse_size("A file is larger than 25 MB." if in_file else _TOO_LARGE)
                    if not in_file:
                        fields_left = bytes_left
                elif isinstance(event, Epilogue):
                    break
    except RequestEntityTooLarge:
        _refuse_size()
    except ValueError as error:
        raise InvalidRequest(
            "unsupported_content_type", f"The multipart body is malformed: {error}.", "Content-Type"
        ) from None


def _content(message: dict[str, Any], wire: Extension | None) -> bytes:
    if message["type"] == "http.request":
        return bytes(message.get("body", b""))
    error = None if wire is None else wire.body_error
    raise ClientGone if error is None else from_wire(error)


def _boundary(headers: dict[bytes, bytes]) -> bytes | None:
    """Return the boundary of a multipart body; None for any other body."""
    content_type = headers.get(b"content-type", b"")
    if content_type[:10].lower() != b"multipart/":
        return None
    boundary = parse_options_header(content_type.decode("latin-1"))[1].get("boundary")
    return boundary.encode() if boundary else None


_TOO_LARGE = "The body is larger than 1 MB."


def _refuse_size(message: str = _TOO_LARGE) -> NoReturn:
    raise InvalidRequest("payload_too_large", message)
