"""Sessions end with their server, however that ends, and never by another server's start."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from dataclasses import replace
from functools import partial

import pytest

from ledger_engine import __version__
from ledger_engine.access import api_keys, credentials, projects
from ledger_engine.access.api_keys import NewApiKey
from ledger_engine.core.errors import AuthenticationError
from ledger_engine.core.tenant import Tenant
from ledger_engine.store.engine import Engine, open_engine
from ledger_engine.upkeep.heartbeat import SILENT_BEATS, Heartbeat
from tests.ledger_engine.manual_clock import ManualClock
from tests.postgres_server import emptied_database

pytestmark = pytest.mark.process

NOON = 1_790_000_000_000
HOUR = 3_600_000


class Server:
    """A server of the ledger, and the key of a session on it."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.heartbeat = Heartbeat(engine)
        self.key = api_keys.new_value(livemode=False)

    async def begin(self, tenant: Tenant) -> None:
        await self.heartbeat.begin()
        new = NewApiKey("dashboard", "owner", session=True, server=self.heartbeat.server)
        await self.engine.write(partial(api_keys.create, tenant=tenant, new=new, value=self.key))

    async def accepts(self, key: str) -> bool:
        try:
            await self.engine.read(partial(credentials.find, value=key))
        except AuthenticationError:
            return False
        return True


@pytest.fixture
def database() -> str:
    return emptied_database()


@pytest.fixture
async def servers(database: str) -> AsyncIterator[list[Server]]:
    """Three servers, whose clocks are an hour apart."""
    engines = [open_engine(database, clock=ManualClock(NOON + hours * HOUR)) for hours in (0, 1, -1)]
    yield [Server(engine) for engine in engines]
    for engine in engines:
        await engine.close()


@pytest.fixture
async def tenant(servers: list[Server]) -> Tenant:
    project = await servers[0].engine.write(partial(projects.create, new=projects.NewProject("Roastery")))
    return Tenant(project.id, livemode=False)


async def test_a_session_goes_on_while_its_server_beats_and_whoever_starts(
    servers: list[Server], tenant: Tenant
) -> None:
    first, second, third = servers
    await first.begin(tenant)
    for _ in range(SILENT_BEATS):
        await first.heartbeat.beat()
    for started in (second, third):
        await started.begin(tenant)
        await started.heartbeat.beat()
        for _ in range(2 * SILENT_BEATS):
            await started.heartbeat.beat()
            await first.heartbeat.beat()
            await second.heartbeat.beat()
        assert await first.accepts(first.key)
        assert await first.accepts(second.key)


async def test_the_sessions_of_a_server_that_does_not_beat_any_more_end(
    servers: list[Server], tenant: Tenant
) -> None:
    dead, alive, _ = servers
    await dead.begin(tenant)
    await alive.begin(tenant)
    rolled = api_keys.new_value(livemode=False)
    [key] = [each for each in await keys_of(dead, tenant) if each.last4 == dead.key[-4:]]
    await dead.engine.write(partial(api_keys.roll, tenant=tenant, id=key.id, value=rolled))
    for _ in range(SILENT_BEATS + 1):
        assert await alive.accepts(rolled)
        await alive.heartbeat.beat()
    await alive.heartbeat.beat()
    assert not await alive.accepts(rolled)
    assert await alive.accepts(alive.key)
    [log] = [each for each in await keys_of(alive, tenant) if each.revoked_at is None]
    assert log.last4 == alive.key[-4:]


async def test_a_server_that_beats_at_the_last_moment_goes_on(servers: list[Server], tenant: Tenant) -> None:
    late, watching, _ = servers
    await late.begin(tenant)
    await watching.begin(tenant)
    for _ in range(SILENT_BEATS + 1):
        await watching.heartbeat.beat()
    await late.heartbeat.beat()
    await watching.heartbeat.beat()
    assert await watching.accepts(late.key)


async def test_a_server_that_was_stopped_ends_nobody_and_begins_again(
    servers: list[Server], tenant: Tenant
) -> None:
    stopped, alive, _ = servers
    await stopped.begin(tenant)
    await alive.begin(tenant)
    await stopped.heartbeat.beat()
    for _ in range(SILENT_BEATS + 3):
        await alive.heartbeat.beat()
    assert not await alive.accepts(stopped.key)
    for _ in range(2 * SILENT_BEATS):
        await stopped.heartbeat.beat()
        assert await alive.accepts(alive.key)
        await alive.heartbeat.beat()
    again = Server(stopped.engine)
    again.heartbeat = stopped.heartbeat
    new = NewApiKey("dashboard", session=True, server=again.heartbeat.server)
    await again.engine.write(partial(api_keys.create, tenant=tenant, new=new, value=again.key))
    await alive.heartbeat.beat()
    assert await alive.accepts(again.key)


async def test_a_server_that_ends_takes_its_own_sessions_with_it(
    servers: list[Server], tenant: Tenant
) -> None:
    first, second, _ = servers
    await first.begin(tenant)
    await second.begin(tenant)
    await first.heartbeat.end()
    assert not await second.accepts(first.key)
    assert await second.accepts(second.key)


async def test_a_session_of_no_server_ends(servers: list[Server], tenant: Tenant) -> None:
    """Such as one that was copied from a SQLite file."""
    first, second, _ = servers
    await second.begin(tenant)
    new = NewApiKey("dashboard", "owner", session=True)
    await first.engine.write(partial(api_keys.create, tenant=tenant, new=new, value=first.key))
    keeping = api_keys.new_value(livemode=False)
    await first.engine.write(partial(api_keys.create, tenant=tenant, new=NewApiKey("Till"), value=keeping))
    await second.heartbeat.beat()
    assert not await second.accepts(first.key)
    assert await second.accepts(keeping)


async def keys_of(server: Server, tenant: Tenant) -> list[api_keys.ApiKey]:
    return await server.engine.read(partial(api_keys.every, project=tenant.project))


async def test_a_server_is_described_by_its_row_also_after_others_have_ended_it(
    servers: list[Server],
) -> None:
    first, second, _ = servers
    first.heartbeat = Heartbeat(first.engine, "http://127.0.0.1:8700")
    await first.heartbeat.begin()
    (entry,) = await first.engine.read(api_keys.servers)
    assert (entry.id, entry.url) == (first.heartbeat.server, "http://127.0.0.1:8700")
    assert (entry.version, entry.host) == (__version__, socket.gethostname())
    await second.engine.write(partial(api_keys.end, server=entry.id))
    await first.heartbeat.beat()
    (again,) = await first.engine.read(api_keys.servers)
    assert replace(again, beaten=entry.beaten) == entry
