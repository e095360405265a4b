"""Finds the client's address behind proxies, in the headers that the proxies add.

See docs/decisions.md#conventions. This module replaces Hypercorn's middleware, which makes a deep copy of the
scope for each request, and accepts any text as an address.
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

    Each proxy appends the address of its own client to `X-Forwarded-For`. So the address of the original
    client is entry number `hops` from the right. The original client may have invented the entries further
    left. A request with fewer than `hops` entries did not pass through all proxies, so its address is the
    address of its connection.
    """

    app: Asgi
    hops: int

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            address = parse_address(self._forwarded_value(scope["headers"], b"x-forwarded-for"))
            if address is not None:
                scope = {**scope, "client": (address, 0)}
            # Proxies append to X-Forwarded-For, but many replace X-Forwarded-Proto. So a single value of
            # X-Forwarded-Proto is enough, even behind several proxies.
            scheme = self._forwarded_value(scope["headers"], b"x-forwarded-proto", at_least=1)
            if scheme in ("http", "https"):
                scope = {**scope, "scheme": scheme}
        await self.app(scope, receive, send)

    def _forwarded_value(
        self, headers: Iterable[tuple[bytes, bytes]], name: bytes, at_least: int | None = None
    ) -> str:
        """Return value number `hops` from the right among the values of the header `name`.

        If there are fewer than `hops` values, but at least `at_least`, return the leftmost value. If there
        are fewer than `at_least` values, return "". By default, `at_least` is `hops`.
        """
        values = [
            part.strip() for header, value in headers if header.lower() == name for part in value.split(b",")
        ]
        if len(values) < (self.hops if at_least is None else at_least):
            return ""
        return values[-min(self.hops, len(values))].decode("latin-1")


def parse_address(text: str) -> str | None:
    """Return the IP address in a text such as `192.0.2.1`, `192.0.2.1:80` or `[2001:db8::1]:80`.

    Return None for a text that contains no IP address.
    """
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        return None
