"""The project of one test, and what the server answers it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx

import ledger_client
from ledger_client.errors import NotFound


def asked(
    client: ledger_client.Ledger, method: str, path: str, body: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Send a request that must succeed; return the object that the answer has. Raises LedgerError."""
    try:
        return client.request(method, path, body=body).object
    except NotFound as error:
        if "No such path" not in error.message:
            raise
        hint = f"{error} Was the server started with --test-helpers?"
        raise NotFound(hint, status=404, code=error.code) from None


@dataclass
class Ledger:
    """A project of the test's own: the server's `url` and an owner's test `key`.

    `client` is a ledger_client.Ledger that repeats nothing, and `api` an httpx.Client for any request.
    """

    url: str
    project: str
    key: str
    client: ledger_client.Ledger
    api: httpx.Client

    def make(self, path: str, **body: Any) -> dict[str, Any]:
        """POST a body that must succeed; return the object it made.

        Raises ledger_client.LedgerError with what the server says against it.
        """
        return asked(self.client, "POST", path, body)

    def happen(self, type: str) -> dict[str, Any]:
        """Make an event of this type happen; return `{"event": …, "objects": […]}`."""
        return self.make("/v1/test_helpers/events", type=type)

    def reset(self) -> None:
        """Delete everything in the project's test mode; the key stays."""
        asked(self.client, "POST", "/v1/test_helpers/reset")

    def close(self) -> None:
        """Close the clients."""
        self.client.close()
        self.api.close()
