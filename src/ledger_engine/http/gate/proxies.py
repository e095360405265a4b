"""Finds the client's address behind proxies, from the headers that they add (docs/decisions.md#conventions).

This replaces Hypercorn's middleware, which makes a deep copy of the scope for each request, and accepts any
text as an address.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ledger_engine.http.wire.asgi import Asgi


@dataclass(frozen=True, slots=True)
class BehindProxies:
    """An ASGI application that wraps `app`, behind `hops` proxies.

    Each proxy appends the address of its own client to `X-Forwarded-For`. So the address of the first client
    is entry number `hops` from the right; that client may have invented the entries further left. A request
    with fewer entries did not pass through all proxies, and keeps the address of its connection.
    """

    app: Asgi
    hops: int

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            address = parse_address(self._forwarded_value(scope["headers"], b"x-forwarded-for"))
            if address is not None:
                scope = {**scope, "client": (address, 0)}
            # Proxies append to X-Forwarded-For but replace X-Forwarded-Proto, which often contains one value
            # for all proxies.
            scheme = self._forwarded_value(scope["headers"], b"x-forwarded-proto", at_least=1)
            if scheme in ("http", "https"):
                scope = {**scope, "scheme": scheme}
        await self.app(scope, receive, send)

    def _forwarded_value(
        self, headers: Iterable[tuple[bytes, bytes]], name: bytes, at_least: int | None = None
    ) -> str:
        """Return value number `hops` from the right in the headers called `name`.

        If there are fewer values than `hops`, but `at_least` this many, return the leftmost value. If there
        are even fewer, return "".
        """
        values = [
            part.strip() for header, value in headers if header.lower() == name for part in value.split(b",")
        ]
        if len(values) < (self.hops if at_least is None else at_least):
            return ""
        return values[-min(self.hops, len(values))].decode("latin-1")


def parse_address(text: str) -> str | None:
    """Return the IP address in `192.0.2.1`, `192.0.2.1:80`, `2001:db8::1` or `[2001:db8::1]:80`, or None."""
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        return None
