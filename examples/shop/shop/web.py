"""A WSGI application that receives the ledger's webhooks."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from shop.shop import Shop


def hooks(shop: Shop) -> Callable[[dict[str, Any], Any], Iterable[bytes]]:
    def application(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        body = environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"]))
        good = shop.receive(environ.get("HTTP_LEDGER_SIGNATURE", ""), body)
        start_response("204 No Content" if good else "400 Bad Request", [])
        return []

    return application
