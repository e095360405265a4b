"""When a server does not begin at all."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypercorn.config import Config
from hypercorn.utils import LifespanFailureError

from ledger_engine.http.wire.serving import serve


async def fails_to_start(scope: Any, receive: Any, send: Any) -> None:
    await receive()
    await send({"type": "lifespan.startup.failed", "message": "there is no ledger"})


@pytest.fixture
def config() -> Config:
    config = Config()
    config.bind = ["127.0.0.1:0"]
    return config


async def test_the_reason_of_an_application_that_cannot_start_is_raised(config: Config) -> None:
    with pytest.raises(LifespanFailureError, match="there is no ledger"):
        await serve(fails_to_start, config, shutdown_trigger=asyncio.Event().wait)
