"""A server in a thread of the test's process, on a real socket."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable
from functools import partial
from typing import Any, Self

import httpx
from hypercorn.config import Config
from quart import Quart

from ledger_engine.http.wire.serving import serve
from ledger_engine.store.engine import Engine


class ThreadedServer:
    """Use it as a context. `prepare` opens the engine and makes the application, in the server's thread."""

    engine: Engine
    port: int

    def __init__(self) -> None:
        self._ready = threading.Event()
        self._clients: list[httpx.Client] = []

    async def prepare(self) -> Quart:
        raise NotImplementedError

    def begin_stop(self) -> None:
        """Stop in the way of a server that gets SIGTERM."""

    async def clean_up(self) -> None:
        """Stop the tasks that `prepare` started next to the application; the engine is closed afterwards."""

    def configure(self, config: Config) -> None:
        """Change the configuration."""

    def __enter__(self) -> Self:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()))
        self._thread.start()
        assert self._ready.wait(60)
        return self

    def __exit__(self, *_: object) -> None:
        for client in self._clients:
            client.close()
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    def run(self, work: Callable[..., Any], **named: Any) -> Any:
        """Run a work as the local administrator."""
        return self.wait(self.engine.write(partial(work, **named)))

    def wait(self, awaited: Any) -> Any:
        """Run an awaitable in the server's loop, and return its result."""
        return asyncio.run_coroutine_threadsafe(awaited, self._loop).result(60)

    def client(self, key: str | None = None) -> httpx.Client:
        """Return a client of this server, with the key or without one."""
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        self._clients.append(httpx.Client(base_url=f"http://127.0.0.1:{self.port}", headers=headers))
        return self._clients[-1]

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        app = await self.prepare()
        config = Config()
        config.bind = [f"fd://{self._listener.detach()}"]
        config.loglevel = "CRITICAL"
        self.configure(config)

        async def until_stopped() -> None:
            self._ready.set()
            await self._stop.wait()
            self.begin_stop()

        await serve(app, config, shutdown_trigger=until_stopped, refuse=app)
        await self.clean_up()
        await self.engine.close()
