"""What the tests of the interface begin with."""

from __future__ import annotations

import itertools
from functools import partial

import httpx
import pytest
from quart import Quart

from ledger_engine.http.app import create_app
from ledger_engine.http.gate.gate import AuthRateLimit
from ledger_engine.store.engine import Engine


@pytest.fixture
def app(engine: Engine) -> Quart:
    """Return an application in which each request has a new minute, so that none exceeds its limit."""
    return create_app(
        engine,
        auth_rate_limit=AuthRateLimit(1_000_000, 1_000_000),
        wall_clock=partial(next, itertools.count(0, 60)),
    )


@pytest.fixture
async def till(api: httpx.AsyncClient) -> str:
    """Return an account that is made over HTTP."""
    return str((await api.post("/v1/accounts", json={"name": "Till", "currency": "EUR"})).json()["id"])
