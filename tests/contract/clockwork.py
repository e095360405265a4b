"""A server on a real socket whose clocks only the test moves."""

from __future__ import annotations

from hypercorn.config import Config
from quart import Quart

from ledger_engine.access import api_keys, projects
from ledger_engine.core.settings import Location
from ledger_engine.core.tenant import Tenant
from ledger_engine.http.app import create_app
from ledger_engine.http.gate.gate import DEFAULT_AUTH_RATE_LIMIT, AuthRateLimit
from ledger_engine.store.engine import open_engine
from tests.contract.raw import Wire
from tests.ledger_engine.manual_clock import ManualClock
from tests.threaded_server import ThreadedServer

NOON_S = 1_795_176_000  # 2026-11-20T12:00:00Z, the start of a minute


class Clockwork(ThreadedServer):
    """Use it as a context, on an empty ledger; `now_s` is the wall clock of the rate limits."""

    def __init__(
        self,
        database: Location,
        *,
        idle_s: float = 60,
        auth_rate_limit: AuthRateLimit = DEFAULT_AUTH_RATE_LIMIT,
    ) -> None:
        super().__init__()
        self._database = database
        self._idle_s = idle_s
        self._auth_rate_limit = auth_rate_limit
        self.clock = ManualClock(NOON_S * 1000)
        self.now_s = float(NOON_S)

    def advance(self, seconds: float) -> None:
        """Move both clocks forward."""
        self.now_s += seconds
        self.clock.advance(int(seconds * 1000))

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

    def wire(self, key: str = "") -> Wire:
        return Wire(self.port, "127.0.0.1", key)

    async def prepare(self) -> Quart:
        self.engine = open_engine(self._database, clock=self.clock, serving=True)
        return create_app(self.engine, auth_rate_limit=self._auth_rate_limit, wall_clock=lambda: self.now_s)

    def configure(self, config: Config) -> None:
        config.keep_alive_timeout = self._idle_s
