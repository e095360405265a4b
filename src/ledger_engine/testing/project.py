"""The project of one test."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import httpx

from ledger_engine.testing.answers import answered


@dataclass
class Ledger:
    """A project of the test's own: the server's `url`, an owner's test `key`, and `api`, a client with it."""

    url: str
    project: str
    key: str
    api: httpx.Client

    def make(self, path: str, **body: Any) -> dict[str, Any]:
        """POST a body that must succeed; return the object it made.

        Raises httpx.HTTPStatusError with what the server says against it.
        """
        return answered(self.api.post(path, json=body))

    def happen(self, type: str) -> dict[str, Any]:
        """Make an event of this type happen; return `{"event": …, "objects": […]}`."""
        return self.make("/v1/test_helpers/events", type=type)

    def reset(self) -> None:
        """Delete everything in the project's test mode; the key stays."""
        self.make("/v1/test_helpers/reset")

    def close(self) -> None:
        """Close the client."""
        self.api.close()
