"""An HTTP client that limits the size and the time of each answer, for servers that are not trusted.

The client refuses compressed answers, because httpx would expand a few kilobytes to any size.
"""

from __future__ import annotations

import asyncio
import functools
import os
import socket
import ssl
from collections.abc import Iterator
from typing import Any

import httpx

from ledger_client.errors import LedgerError, NotConnected, NotSent, Unreadable

LIST_BYTES_MAX = 128_000_000  # a page of 100 orders can be 100 MB long, because one order can be 1 MB long
_AUTHORITIES = ("SSL_CERT_FILE", "SSL_CERT_DIR")  # variables that name the trusted certificate authorities
SMALL_BYTES_MAX = 1_000_000  # the limit for an error, and for an answer with one small object


class Unread(httpx.TransportError):
    """An answer that was not read to its end; the message gives the reason.

    `answer` contains the status and the headers, if these have arrived; otherwise it is None.
    """

    def __init__(self, message: str, answer: httpx.Response | None = None) -> None:
        super().__init__(message)
        self.answer = answer


class BoundedClient(httpx.AsyncClient):
    """A client that raises Unread for an answer that is too large, too slow or compressed.

    With `stream`, `send` returns a successful answer as soon as its headers have arrived; read the body with
    `event_stream.events`. The client reads every text as UTF-8. It ignores the charset in Content-Type,
    because with a charset a server could select any codec of Python.
    """

    def __init__(self, *, bytes_max: int, seconds_max: float, **settings: Any) -> None:
        if settings.get("verify", True) is True:
            trust_env = settings.get("trust_env", True)
            settings["verify"] = _trusted(trust_env, *map(os.environ.get, _AUTHORITIES))
        super().__init__(**settings)
        self._bytes_max = bytes_max
        self._seconds_max = seconds_max

    async def send(self, request: httpx.Request, *, stream: bool = False, **how: Any) -> httpx.Response:
        """Send the request and return the whole answer. Raises Unread and httpx.HTTPError."""
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
        require_plain(answer)
        bytes_max = self._bytes_max if answer.is_success else min(self._bytes_max, SMALL_BYTES_MAX)
        body = bytearray()
        assert isinstance(answer.stream, httpx.AsyncByteStream)
        async for part in answer.stream:
            body += part
            if len(body) > bytes_max:
                raise Unread(f"the answer is larger than {bytes_max // 1_000_000} MB", answer)
        await answer.aclose()
        read = httpx.Response(
            answer.status_code,
            headers=answer.headers,
            content=bytes(body),
            request=answer.request,
            extensions=answer.extensions,
        )
        read.encoding = "utf-8"
        return read


@functools.cache
def _trusted(trust_env: bool, *_places: str | None) -> ssl.SSLContext:
    """Return a TLS context with the trusted authorities. Raises OSError.

    Reading the authorities takes 30 ms, so the cache keeps the context. `_places` are the values of the
    variables in `_AUTHORITIES`. These values are part of the cache's key, so this function reads the
    authorities again after a variable has changed.
    """
    return httpx.create_ssl_context(trust_env=trust_env)


def require_plain(answer: httpx.Response) -> None:
    """Raise Unread for an answer that is compressed."""
    if answer.headers.get("Content-Encoding", "identity").strip().lower() != "identity":
        raise Unread("the answer is compressed, although the request forbade it", answer)


def no_answer(error: Exception) -> LedgerError:
    """Return the LedgerError for an error of httpx; its message gives the reason in a few words."""
    if isinstance(error, Unread):
        head = error.answer
        return (
            Unreadable(str(error))
            if head is None
            else Unreadable(str(error), status=head.status_code, headers=head.headers)
        )
    if not isinstance(error, httpx.HTTPError | httpx.StreamError):  # InvalidURL, UnicodeError, idna's errors
        return NotSent(f"The request cannot be sent: {error}")
    if isinstance(error, httpx.TimeoutException):
        return NotConnected("no answer in time")
    causes = [*_causes(error)]
    for kind, words in (
        (ConnectionRefusedError, "connection refused"),
        (socket.gaierror, "no such host"),
        (ssl.SSLError, "no trusted TLS connection"),
    ):
        if any(isinstance(cause, kind) for cause in causes):
            return NotConnected(words)
    return NotConnected("cannot connect" if isinstance(error, httpx.ConnectError) else "connection lost")


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an exception and its causes.

    If a host has several addresses, the failures of all of them are in one exception group.
    """
    while error is not None:
        yield error
        if isinstance(error, BaseExceptionGroup):
            for inner in error.exceptions:
                yield from _causes(inner)
        error = error.__cause__ or error.__context__
