"""The project of one test, and what the server answers it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import httpx

from ledger_client.parsing import parsed


def answered(response: httpx.Response) -> dict[str, Any]:
    """Return the object that the answer has. Raises httpx.HTTPStatusError with the text of an error.

    Raises ValueError for an answer that is no JSON object.
    """
    if not response.is_success:
        request = response.request
        said = f"{request.method} {request.url.path} was answered {response.status_code}: {response.text}"
        if response.status_code == 404 and "No such path" in response.text:
            said += " Was the server started with --test-helpers?"
        raise httpx.HTTPStatusError(said, request=request, response=response)
    answer = parsed(response.content)
    if not isinstance(answer, dict):
        raise ValueError(f"{response.request.url.path} was not answered with an object")
    return answer


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
