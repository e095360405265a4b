"""CORS headers, which let web pages read answers (docs/deploy.md#let-web-pages-use-the-server).

CORS is off unless the operator names origins. A page sends its credential in the Authorization header, so
the server never allows cookies. The server names the page's own origin as the allowed origin, and never `*`.
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
_MAX_AGE_S = b"600"  # seconds for which a browser may cache the answer to a preflight request


class Cors:
    """Makes the CORS headers of answers, for web pages of the allowed `origins`."""

    def __init__(self, origins: Sequence[str]) -> None:
        self._origins = frozenset(origin.encode() for origin in origins)

    def headers(self, request: dict[bytes, bytes]) -> list[Header]:
        """Return the CORS headers for the answer to a request with these headers."""
        # The answer depends on the origin, so a cache must not give one origin the answer for another origin.
        headers = [(b"vary", b"Origin")]
        origin = request.get(b"origin")
        if origin in self._origins:
            headers += [
                (b"access-control-allow-origin", origin),
                (b"access-control-expose-headers", _ANSWER_HEADERS),
            ]
        return headers

    def preflight(self, method: str, request: dict[bytes, bytes]) -> list[Header] | None:
        """Return the headers that answer a preflight request from an allowed origin; None for other requests.

        The server answers a preflight request from another origin like an ordinary OPTIONS request, without
        these headers. So the browser does not send the page's request.
        """
        is_preflight = method == "OPTIONS" and b"access-control-request-method" in request
        if not is_preflight or request.get(b"origin") not in self._origins:
            return None
        return [
            (b"access-control-allow-methods", _METHODS),
            (b"access-control-allow-headers", _REQUEST_HEADERS),
            (b"access-control-max-age", _MAX_AGE_S),
        ]
