"""When a server does not begin at all."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypercorn.asyncio import serve
from hypercorn.config import Config
from hypercorn.utils import LifespanFailureError

from ledger_engine.http.wire.hypercorn_patch import make_strict


async def fails_to_start(scope: Any, receive: Any, send: Any) -> None:
    await receive()
    await send({"type": "lifespan.startup.failed", "message": "there is no ledger"})


@pytest.fixture
def config() -> Config:
    config = Config()
    config.bind = ["127.0.0.1:0"]
    make_strict(config)
    return config


async def test_the_reason_of_an_application_that_cannot_start_is_raised(config: Config) -> None:
    with pytest.raises(LifespanFailureError, match="there is no ledger"):
        await serve(fails_to_start, config, shutdown_trigger=asyncio.Event().wait)


async def test_what_would_never_stop_is_not_served(config: Config) -> None:
    with pytest.raises(TypeError, match="until its trigger returns"):
        await serve(fails_to_start, config)
