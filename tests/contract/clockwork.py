"""A server on a real socket whose clocks only the test moves."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import httpx
from hypercorn.asyncio import serve
from hypercorn.config import Config
from quart import Quart

from ledger_engine.access import api_keys, projects
from ledger_engine.core.tenant import Tenant
from ledger_engine.database.engine import Engine, open_engine
from ledger_engine.http.app import create_app
from ledger_engine.http.protocol.gate import DEFAULT_AUTH_RATE_LIMIT, AuthRateLimit
from ledger_engine.http.protocol.hypercorn_patch import make_strict
from tests.contract.raw import Wire
from tests.ledger_engine.manual_clock import ManualClock
from tests.made_once import put_empty_ledger

NOON_S = 1_795_176_000  # 2026-11-20T12:00:00Z, the start of a minute


class Clockwork:
    """Use it as a context; `now_s` is the wall clock of the rate limits."""

    def __init__(
        self,
        database: Path,
        *,
        idle_s: float = 60,
        auth_rate_limit: AuthRateLimit = DEFAULT_AUTH_RATE_LIMIT,
    ) -> None:
        self._database = database
        self._idle_s = idle_s
        self._auth_rate_limit = auth_rate_limit
        self._ready = threading.Event()
        self._clients: list[httpx.Client] = []
        self.clock = ManualClock(NOON_S * 1000)
        self.now_s = float(NOON_S)
        self.engine: Engine
        self.app: Quart

    def __enter__(self) -> Clockwork:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()))
        self._thread.start()
        assert self._ready.wait(30)
        return self

    def __exit__(self, *_: object) -> None:
        for client in self._clients:
            client.close()
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    def advance(self, seconds: float) -> None:
        """Move both clocks forward."""
        self.now_s += seconds
        self.clock.advance(int(seconds * 1000))

    def run(self, work: Callable[..., Any], **named: Any) -> Any:
        """Run a function of the engine's packages as the local administrator."""
        writing = self.engine.write(partial(work, **named))
        return asyncio.run_coroutine_threadsafe(writing, self._loop).result(30)

    def project(
        self, plan: str = "enterprise", rate: int | None = None, burst: int | None = None
    ) -> projects.Project:
        made: projects.Project = self.run(
            projects.create, new=projects.NewProject("Roastery", plan, rate, burst)
        )
        return made

    def key(self, project: projects.Project, *, livemode: bool = False, role: str = "owner") -> str:
        """Return the value of a new key."""
        value = api_keys.new_value(livemode)
        tenant = Tenant(project.id, livemode)
        self.run(api_keys.create, tenant=tenant, new=api_keys.NewApiKey(None, role), value=value)
        return value

    def client(self, key: str | None = None) -> httpx.Client:
        """Return a client of this server, with the key or without one."""
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        self._clients.append(httpx.Client(base_url=f"http://127.0.0.1:{self.port}", headers=headers))
        return self._clients[-1]

    def wire(self, key: str = "") -> Wire:
        return Wire(self.port, "127.0.0.1", key)

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        self.engine = open_engine(put_empty_ledger(self._database), clock=self.clock, serving=True)
        self.app = create_app(
            self.engine, auth_rate_limit=self._auth_rate_limit, wall_clock=lambda: self.now_s
        )
        config = Config()
        config.bind = [f"fd://{self._listener.detach()}"]
        config.loglevel = "CRITICAL"
        config.keep_alive_timeout = self._idle_s
        make_strict(config)

        async def until_stopped() -> None:
            self._ready.set()
            await self._stop.wait()

        await serve(self.app, config, shutdown_trigger=until_stopped, mode="asgi")
        await self.engine.close()
