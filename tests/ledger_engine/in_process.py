"""Clients of an application in the test's own process."""

from __future__ import annotations

from typing import Any

import httpx


def client_of(
    app: Any, key: str | None = None, *, url: str = "http://ledger.test", address: str = "127.0.0.1"
) -> httpx.AsyncClient:
    """Return a client of the application, with a credential or without one."""
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    transport = httpx.ASGITransport(app=app, client=(address, 50_000))
    return httpx.AsyncClient(transport=transport, base_url=url, headers=headers)
