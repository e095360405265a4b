"""A server with test helpers in this process, on a real socket, with all that runs beside the requests."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import httpx
from hypercorn.asyncio import serve
from hypercorn.config import Config

from ledger_engine.access import api_keys, projects
from ledger_engine.access.projects import Project
from ledger_engine.core.tenant import Tenant
from ledger_engine.database.engine import Engine, open_engine
from ledger_engine.events.webhooks.sealing import Seal
from ledger_engine.events.webhooks.sending import Sender
from ledger_engine.http.app import create_app
from ledger_engine.http.protocol.hypercorn_patch import make_strict
from ledger_engine.test_helpers.clock import MovableClock
from ledger_engine.test_helpers.helpers import Helpers
from ledger_engine.upkeep.background import Background
from ledger_engine.upkeep.timekeeping import Timekeeper
from tests.made_once import put_empty_ledger

ROOT = "/v1/test_helpers"
RETRIES_S = (5, 300, 1800)


@dataclass
class Owned:
    """A project of its own and a client with an owner's key of its test mode."""

    tenant: Tenant
    key: str
    api: httpx.Client

    def helper(self, path: str, **body: Any) -> dict[str, Any]:
        """POST to a helper that succeeds; return its answer."""
        answer = self.api.post(f"{ROOT}/{path}", json=body)
        assert answer.is_success, answer.text
        made: dict[str, Any] = answer.json()
        return made

    def made(self, path: str, **body: Any) -> dict[str, Any]:
        """POST what is created; return it."""
        answer = self.api.post(path, json=body)
        assert answer.status_code == 201, answer.text
        made: dict[str, Any] = answer.json()
        return made


class HelpedServer:
    """Use it as a context. Its webhooks are sent from this process, and retried after RETRIES_S."""

    def __init__(self, database: Path) -> None:
        self.database = database
        self._ready = threading.Event()
        self._clients: list[httpx.Client] = []
        self.engine: Engine
        self.clock: MovableClock
        self.port = 0

    def __enter__(self) -> HelpedServer:
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
        """Return what is awaited in the server's loop."""
        return asyncio.run_coroutine_threadsafe(awaited, self._loop).result(60)

    def owned(self, plan: str = "enterprise") -> Owned:
        """Return a new project."""
        new = projects.NewProject("Roastery", plan, *((10**6, 10**6) if plan == "enterprise" else ()))
        project: Project = self.run(projects.create, new=new)
        key = self.key(project.id, "owner", livemode=False)
        return Owned(Tenant(project.id, False), key, self.client(key))

    def key(self, project: str, role: str, *, livemode: bool) -> str:
        value = api_keys.new_value(livemode)
        new = api_keys.NewApiKey(None, role)
        self.run(api_keys.create, tenant=Tenant(project, livemode), new=new, value=value)
        return value

    def client(self, key: str | None = None) -> httpx.Client:
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        self._clients.append(httpx.Client(base_url=f"http://127.0.0.1:{self.port}", headers=headers))
        return self._clients[-1]

    def _file(self) -> Path:
        return self.database if self.database.exists() else put_empty_ledger(self.database)

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        self.clock = MovableClock()
        self.engine = open_engine(self._file(), clock=self.clock, serving=True)
        helpers = Helpers.offer(self.engine, self.clock, self.database)
        timekeeper = Timekeeper(self.engine, accept=True, monotonic=self.clock.monotonic)
        await timekeeper.begin()
        background = Background(
            self.engine,
            Seal(None),
            timekeeper,
            retries_s=RETRIES_S,
            monotonic=self.clock.monotonic,
            make_sender=partial(helpers.make_sender, make=Sender),
        )
        helpers.begin(background, timekeeper)
        background.start()
        app = create_app(self.engine, recorder=background.recorder, test_helpers=True)
        config = Config()
        config.bind = [f"fd://{self._listener.detach()}"]
        config.loglevel = "CRITICAL"
        make_strict(config)

        async def until_stopped() -> None:
            self._ready.set()
            await self._stop.wait()
            background.begin_stop()

        await serve(app, config, shutdown_trigger=until_stopped, mode="asgi")
        await background.stop()
        await self.engine.close()
