"""What the tests of the interface begin with."""

from __future__ import annotations

import httpx
import pytest


@pytest.fixture
async def till(api: httpx.AsyncClient) -> str:
    """Return an account that is made over HTTP."""
    return str((await api.post("/v1/accounts", json={"name": "Till", "currency": "EUR"})).json()["id"])
