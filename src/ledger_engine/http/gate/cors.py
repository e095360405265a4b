"""CORS headers, which let web pages read answers (docs/deploy.md#let-web-pages-use-the-server).

CORS is off unless the operator names origins. A page sends its credential in the Authorization header, so
cookies are never allowed. Each origin is named exactly, so the allowed origin is never `*`.
"""

from __future__ import annotations

from collections.abc import Sequence

from ledger_engine.http.wire.asgi import Header

_METHODS = b"GET, POST, PATCH, DELETE"
_REQUEST_HEADERS = (
    b"Authorization, Content-Type, Idempotency-Key, If-Match, If-None-Match, Last-Event-ID, Traceparent"
)
_ANSWER_HEADERS = (
    b"Request-Id, X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset, Retry-After,"
    b" Idempotency-Original, Idempotency-Originals, ETag, WWW-Authenticate, Allow"
)
_MAX_AGE_S = b"600"


class Cors:
    """The CORS headers of answers to pages of these origins."""

    def __init__(self, origins: Sequence[str]) -> None:
        self._origins = frozenset(origin.encode() for origin in origins)

    def headers(self, request: dict[bytes, bytes]) -> list[Header]:
        """Return the CORS headers for the answer to a request with these headers."""
        # Answers differ by origin, so a cache must not give one origin the answer for another origin.
        headers = [(b"vary", b"Origin")]
        origin = request.get(b"origin")
        if origin in self._origins:
            headers += [
                (b"access-control-allow-origin", origin),
                (b"access-control-expose-headers", _ANSWER_HEADERS),
            ]
        return headers

    def preflight(self, method: str, request: dict[bytes, bytes]) -> list[Header] | None:
        """Return the headers that answer a preflight request; None for any other request.

        A preflight request from any other origin gets the answer to an ordinary OPTIONS request, so the
        browser stops the page's request.
        """
        is_preflight = method == "OPTIONS" and b"access-control-request-method" in request
        if not is_preflight or request.get(b"origin") not in self._origins:
            return None
        return [
            (b"access-control-allow-methods", _METHODS),
            (b"access-control-allow-headers", _REQUEST_HEADERS),
            (b"access-control-max-age", _MAX_AGE_S),
        ]
