"""What the server answered, or an error that says why not."""

from __future__ import annotations

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
