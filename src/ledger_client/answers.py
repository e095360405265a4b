"""An HTTP client for servers that are not trusted: each answer is read up to a size and within a time.

Nothing is decompressed: httpx decodes the whole of what a few kilobytes say, and all stacked codings at once.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

import httpx

LIST_BYTES_MAX = 128_000_000  # a page of 100 orders can have 100 MB, as a request has up to 1 MB
SMALL_BYTES_MAX = 1_000_000  # of an error, or of an answer that has one small object


class Unread(httpx.TransportError):
    """An answer that was not read to its end; the text says why."""


class Client(httpx.AsyncClient):
    """A client that raises Unread for an answer with more bytes or that takes longer, its head included.

    With `stream` a successful answer is returned when its head is here, to be read with `events`. The text of
    an answer is UTF-8, whatever its Content-Type says: the name of a charset may be that of any codec.
    """

    def __init__(self, *, bytes_max: int, seconds_max: float, **settings: Any) -> None:
        super().__init__(**settings)
        self._bytes_max = bytes_max
        self._seconds_max = seconds_max

    async def send(self, request: httpx.Request, *, stream: bool = False, **how: Any) -> httpx.Response:
        """Send the request and return the answer, read to its end. Raises Unread and httpx.HTTPError."""
        request.headers["Accept-Encoding"] = "identity"
        try:
            async with asyncio.timeout(self._seconds_max):
                answer = await super().send(request, stream=True, **how)
                try:
                    if stream and answer.is_success:
                        return answer
                    return await self._read(answer)
                except BaseException:
                    await answer.aclose()
                    raise
        except TimeoutError:
            raise Unread(f"the answer took more than {self._seconds_max:.0f} seconds") from None

    async def _read(self, answer: httpx.Response) -> httpx.Response:
        body = _Body(answer, self._bytes_max)
        assert isinstance(answer.stream, httpx.AsyncByteStream)
        async for part in answer.stream:
            body.add(part)
        await answer.aclose()
        return body.whole()


class SyncClient(httpx.Client):
    """The same without `async`."""

    def __init__(self, *, bytes_max: int, seconds_max: float, **settings: Any) -> None:
        super().__init__(**settings)
        self._bytes_max = bytes_max
        self._seconds_max = seconds_max

    def send(self, request: httpx.Request, *, stream: bool = False, **how: Any) -> httpx.Response:
        """Send the request and return the answer, read to its end. Raises Unread and httpx.HTTPError."""
        request.headers["Accept-Encoding"] = "identity"
        until = time.monotonic() + self._seconds_max
        answer = super().send(request, stream=True, **how)
        try:
            if stream and answer.is_success:
                return answer
            body = _Body(answer, self._bytes_max)
            assert isinstance(answer.stream, httpx.SyncByteStream)
            for part in answer.stream:
                body.add(part)
                if time.monotonic() > until:
                    raise Unread(f"the answer took more than {self._seconds_max:.0f} seconds")
            answer.close()
            return body.whole()
        except BaseException:
            answer.close()
            raise


class _Body:
    """The body of an answer, as far as it is here."""

    def __init__(self, answer: httpx.Response, bytes_max: int) -> None:
        require_plain(answer)
        self._answer = answer
        self._bytes_max = bytes_max if answer.is_success else min(bytes_max, SMALL_BYTES_MAX)
        self._body = bytearray()

    def add(self, part: bytes) -> None:
        """Add what has come. Raises Unread beyond the limit."""
        self._body += part
        if len(self._body) > self._bytes_max:
            raise Unread(f"the answer has more than {self._bytes_max // 1_000_000} MB")

    def whole(self) -> httpx.Response:
        """Return the answer with its body read."""
        answer = self._answer
        read = httpx.Response(
            answer.status_code,
            headers=answer.headers,
            content=bytes(self._body),
            request=answer.request,
            extensions=answer.extensions,
        )
        read.encoding = "utf-8"
        return read


def require_plain(answer: httpx.Response) -> None:
    """Raise Unread for an answer that is compressed."""
    if answer.headers.get("Content-Encoding", "identity").strip().lower() != "identity":
        raise Unread("the answer is compressed, which was not asked for")
