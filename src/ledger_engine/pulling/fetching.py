"""Answers of servers that are not trusted: each is read up to a size and within a time."""

from __future__ import annotations

import asyncio

import httpx

ENCODINGS = "gzip, deflate"  # what httpx can decode by itself, in pieces that stay small


class Unread(Exception):
    """An answer that was not read to its end; the text says why."""


async def fetch(
    client: httpx.AsyncClient, request: httpx.Request, *, bytes_max: int, seconds_max: float
) -> httpx.Response:
    """Send the request and return the answer, read to its end. Redirects are not followed.

    Raises Unread for an answer whose body has more bytes, decoded, or that takes longer, and httpx.HTTPError.
    """
    try:
        async with asyncio.timeout(seconds_max):
            answer = await client.send(request, stream=True)
            try:
                body = bytearray()
                async for part in answer.aiter_bytes():
                    body += part
                    if len(body) > bytes_max:
                        raise Unread(f"the answer has more than {bytes_max // 1_000_000} MB")
            finally:
                await answer.aclose()
    except TimeoutError:
        raise Unread(f"the answer took more than {seconds_max:.0f} seconds") from None
    headers = httpx.Headers([each for each in answer.headers.raw if each[0].lower() != b"content-encoding"])
    return httpx.Response(
        answer.status_code,
        headers=headers,
        content=bytes(body),
        request=request,
        extensions=answer.extensions,
    )
