"""A server of an ASGI application in the test's own loop, on a real socket."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from typing import Any

from hypercorn.config import Config

from ledger_engine.http.wire.serving import serve


@contextlib.asynccontextmanager
async def served(app: Any, listener: socket.socket | None = None, **configured: Any) -> AsyncIterator[int]:
    """The port of a server of the application, which ends with the context; it may be `configured`."""
    listener = listener or socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    config = Config()
    config.bind = [f"fd://{listener.detach()}"]
    config.errorlog = None
    for name, value in configured.items():
        setattr(config, name, value)
    stop = asyncio.Event()
    running = asyncio.create_task(serve(app, config, shutdown_trigger=stop.wait))
    try:
        yield port
    finally:
        stop.set()
        await running
