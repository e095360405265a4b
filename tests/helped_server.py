"""A server with test helpers in this process, on a real socket, with all tasks that run next to the
requests.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from quart import Quart

from ledger_engine.access import api_keys, projects
from ledger_engine.access.projects import Project
from ledger_engine.core.tenant import Tenant
from ledger_engine.events.webhooks.sending import Sender
from ledger_engine.events.webhooks.signing import Seal
from ledger_engine.http.app import create_app
from ledger_engine.sandbox import routes
from ledger_engine.sandbox.clock import MovableClock, clock_of
from ledger_engine.sandbox.helpers import Helpers
from ledger_engine.store.engine import open_engine
from ledger_engine.upkeep.background import Background
from tests.made_once import put_empty_ledger
from tests.threaded_server import ThreadedServer

ROOT = "/v1/test_helpers"
RETRIES_S = (5, 300, 1800)


@dataclass
class Owned:
    """A new project, and a client with an owner's key for its test mode."""

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
        """POST an object; return the created object."""
        answer = self.api.post(path, json=body)
        assert answer.status_code == 201, answer.text
        made: dict[str, Any] = answer.json()
        return made


class HelpedServer(ThreadedServer):
    """Use it as a context. Its webhooks are sent from this process, and retried after RETRIES_S."""

    clock: MovableClock

    def __init__(self, database: Path) -> None:
        super().__init__()
        self.database = database

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

    def _file(self) -> Path:
        return self.database if self.database.exists() else put_empty_ledger(self.database)

    async def prepare(self) -> Quart:
        file = self._file()
        self.clock = clock_of(file)
        self.engine = open_engine(file, clock=self.clock, serving=True)
        helpers = Helpers.offer(self.engine, self.clock, self.database)
        self._background = Background(
            self.engine,
            Seal(None),
            retries_s=RETRIES_S,
            monotonic=self.clock.monotonic,
            make_sender=partial(helpers.make_sender, make=Sender),
        )
        helpers.begin(self._background)
        self._background.start()
        return create_app(self.engine, recorder=self._background.recorder, test_helpers=routes)

    def begin_stop(self) -> None:
        self._background.begin_stop()

    async def clean_up(self) -> None:
        await self._background.stop()


# Fixtures for tests that use a helped server; a folder's conftest imports them.


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HelpedServer]:
    """One server with test helpers for the tests of a file."""
    with HelpedServer(tmp_path_factory.mktemp("helped") / "ledger.db") as running:
        yield running


@pytest.fixture
def own(server: HelpedServer) -> Owned:
    """A project of the test's own."""
    return server.owned()
