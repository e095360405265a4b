"""A commit of one server reaches the listeners of another, with or without a notification."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from functools import partial

import pytest

from ledger_engine.access import api_keys, projects
from ledger_engine.access.credentials import Credential
from ledger_engine.core.tenant import Tenant
from ledger_engine.events import following, outbox
from ledger_engine.events.following import Followers
from ledger_engine.http.gate import authentication
from ledger_engine.http.gate.authentication import Authenticator
from ledger_engine.http.operations import _TenantWork
from ledger_engine.ledger import accounts
from ledger_engine.store.engine import Engine
from ledger_engine.store.postgres import notifications
from ledger_engine.store.postgres.connection import PostgresConnection
from ledger_engine.store.postgres.database import open_database
from ledger_engine.store.postgres.notifications import NotificationFollower
from tests.ledger_engine.conftest import START
from tests.ledger_engine.manual_clock import ManualClock
from tests.ledger_engine.waiting import PATIENCE_S, looked_until, until

pytestmark = pytest.mark.process
NEVER_S = 100_000.0
TILL = accounts.NewAccount("Till", "EUR", {})


@pytest.fixture
def no_looking(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave servers only the notifications of each other's commits."""
    monkeypatch.setattr(notifications, "POLL_S", NEVER_S)


@pytest.fixture
def no_telling(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lose all notifications."""
    monkeypatch.setattr(notifications, "notify", lambda *_: None)


@pytest.fixture
def looking_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notifications, "POLL_S", 0.02)


@pytest.fixture
async def engines(address: str) -> AsyncIterator[list[Engine]]:
    """Three servers, whose clocks stand still and are an hour apart."""
    opened = []
    for hours in (0, 1, -1):
        clock = ManualClock(START + hours * 3_600_000)
        opened.append(Engine(open_database(address, clock, serving=True), clock))
    yield opened
    for engine in opened:
        await engine.close()


@pytest.fixture(autouse=True)
def nothing_grows_old(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep remembered keys from growing old, unless a test changes this."""
    monkeypatch.setattr(authentication, "monotonic", lambda: 0.0)


@pytest.fixture
async def tenant(engines: list[Engine]) -> Tenant:
    project = await engines[0].write(partial(projects.create, new=projects.NewProject("Roastery")))
    return Tenant(project.id, livemode=False)


async def make_key(engine: Engine, tenant: Tenant) -> tuple[str, str]:
    """Return the id and the value of a new key."""
    value = api_keys.new_value(livemode=False)
    made = await engine.write(partial(api_keys.create, tenant=tenant, new=api_keys.NewApiKey(), value=value))
    return made.id, value


async def remembers(engine: Engine, authenticator: Authenticator, value: str) -> bool:
    return isinstance(authenticator.remembered(f"Bearer {value}", engine.clock.now()), Credential)


async def until_heard(engine: Engine, other: Engine, tenant: Tenant) -> None:
    """Wait until a server hears of another one's commits, which it does some time after it was opened."""
    authenticator = Authenticator(engine)

    async def look() -> bool:
        id, value = await make_key(other, tenant)
        await authenticator.find(f"Bearer {value}")
        await other.write(partial(api_keys.revoke, tenant=tenant, id=id))
        await asyncio.sleep(0.05)
        return not await remembers(engine, authenticator, value)

    await looked_until(look, bool)


async def assert_revoked_keys_are_forgotten(engines: list[Engine], tenant: Tenant) -> None:
    one, other, _ = engines
    authenticator = Authenticator(other)
    id, value = await make_key(one, tenant)

    async def remembers_again() -> bool:  # the news of the new key may come after it was found
        assert isinstance(await authenticator.find(f"Bearer {value}"), Credential)
        return await remembers(other, authenticator, value)

    await looked_until(remembers_again, bool)
    await one.write(partial(api_keys.revoke, tenant=tenant, id=id))
    await looked_until(lambda: remembers(other, authenticator, value), lambda known: not known)


@pytest.mark.usefixtures("no_looking")
async def test_a_revoked_key_is_forgotten_as_soon_as_the_server_hears_of_it(
    engines: list[Engine], tenant: Tenant
) -> None:
    await until_heard(engines[1], engines[0], tenant)
    await assert_revoked_keys_are_forgotten(engines, tenant)


@pytest.mark.usefixtures("no_telling")
async def test_a_revoked_key_is_forgotten_without_a_notification(
    engines: list[Engine], tenant: Tenant
) -> None:
    await assert_revoked_keys_are_forgotten(engines, tenant)


@pytest.fixture
def may_follow(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Let servers follow each other only once this event is set."""
    may_follow, follow = threading.Event(), NotificationFollower._run

    def follow_later(follower: NotificationFollower) -> None:
        may_follow.wait(PATIENCE_S)
        follow(follower)

    monkeypatch.setattr(NotificationFollower, "_run", follow_later)
    return may_follow


@pytest.mark.usefixtures("no_telling", "no_looking")
async def test_a_key_that_was_revoked_before_a_server_could_follow_is_forgotten_once_it_does(
    may_follow: threading.Event, engines: list[Engine], tenant: Tenant
) -> None:
    one, other, _ = engines
    authenticator = Authenticator(other)
    id, value = await make_key(one, tenant)
    await authenticator.find(f"Bearer {value}")
    await one.write(partial(api_keys.revoke, tenant=tenant, id=id))
    assert await remembers(other, authenticator, value)
    may_follow.set()
    await looked_until(lambda: remembers(other, authenticator, value), lambda known: not known)


@pytest.mark.usefixtures("no_telling", "no_looking")
async def test_a_key_is_remembered_for_half_a_second_at_most(
    engines: list[Engine], tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other, _ = engines
    authenticator = Authenticator(other)
    id, value = await make_key(one, tenant)
    await authenticator.find(f"Bearer {value}")
    await one.write(partial(api_keys.revoke, tenant=tenant, id=id))
    assert await remembers(other, authenticator, value)
    monkeypatch.setattr(authentication, "monotonic", lambda: 0.501)
    assert not await remembers(other, authenticator, value)


async def followed(engine: Engine, tenant: Tenant, count: int) -> list[str]:
    """Return the ids of the first events, as a listener of this server hears of them."""
    followers = Followers.of(engine)
    found, cursor = [], ""
    async with followers.follow(tenant.project):
        while len(found) < count:
            change = followers.next_change()
            batch, cursor = await engine.read(partial(outbox.after, tenant=tenant, cursor=cursor, limit=16))
            found += [message.id for message in batch]
            if not batch:
                await followers.wait_for(change)
    return found


async def assert_all_is_followed(engines: list[Engine], tenant: Tenant) -> None:
    """Have all servers write at the same time, and one follow."""
    following_them = asyncio.create_task(followed(engines[0], tenant, 60))

    async def write(engine: Engine) -> None:
        for _ in range(20):
            await engine.write(partial(accounts.create, tenant=tenant, new=TILL))

    await asyncio.gather(*[write(engine) for engine in engines])
    heard = await following_them
    newest, _ = await engines[1].read(partial(outbox.after, tenant=tenant, cursor="", limit=100))
    assert heard == [message.id for message in newest]
    assert len(heard) == 60


@pytest.mark.usefixtures("no_looking")
async def test_a_listener_hears_of_what_another_server_commits(
    engines: list[Engine], tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "POLL_INTERVAL_S", NEVER_S)
    await until_heard(engines[0], engines[1], tenant)
    await assert_all_is_followed(engines, tenant)


@pytest.mark.usefixtures("no_telling", "no_looking")
async def test_a_listener_misses_nothing_when_all_notifications_are_lost(
    engines: list[Engine], tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "POLL_INTERVAL_S", 0.02)
    await assert_all_is_followed(engines, tenant)


@pytest.mark.usefixtures("no_telling", "looking_often")
async def test_other_servers_also_hear_of_a_commit_of_a_server_whose_clock_is_behind(
    engines: list[Engine], tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    listening, ahead, behind = engines
    look, looks = NotificationFollower._announced, []
    monkeypatch.setattr(
        NotificationFollower, "_announced", lambda *given: looks.append(given[0]) or look(*given)
    )
    for engine in (behind, ahead):  # the first work of each is one of the whole ledger, which sets its clock
        project = await engine.write(partial(projects.create, new=projects.NewProject("Bakery")))
    ahead.clock.advance_past(ahead.clock.now() + 100)
    heard: list[frozenset[str]] = []
    listening.listen(heard.append)
    for engine, of in (ahead, tenant), (behind, Tenant(project.id, livemode=False)):
        looks.clear()  # until each has looked again, so that nothing before is heard of later
        await until(lambda: all(looks.count(each) > 1 for each in {*looks}) and len({*looks}) == 3)
        heard.clear()
        await engine.write(_TenantWork(accounts.create, of, (TILL,), {}))
        await until(lambda: heard)


@pytest.mark.usefixtures("looking_often")
async def test_a_lost_notification_is_noticed_beside_one_that_came(
    engines: list[Engine], tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    listening, one, other = engines
    await until_heard(listening, one, tenant)
    notify = notifications.notify

    def lose_credentials(connection: PostgresConnection, server: int, number: int, topics: set[str]) -> None:
        if api_keys.TOPIC not in topics:
            notify(connection, server, number, topics)

    monkeypatch.setattr(notifications, "notify", lose_credentials)
    authenticator = Authenticator(listening)
    id, value = await make_key(one, tenant)
    await authenticator.find(f"Bearer {value}")
    writing = asyncio.create_task(followed(listening, tenant, 20))
    for number in range(20):
        await other.write(partial(accounts.create, tenant=tenant, new=TILL))
        if number == 10:
            await one.write(partial(api_keys.revoke, tenant=tenant, id=id))
    await writing
    await looked_until(lambda: remembers(listening, authenticator, value), lambda known: not known)


async def test_a_listener_misses_nothing_when_some_notifications_are_lost(
    engines: list[Engine], tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    notify, sent = notifications.notify, iter(range(1_000_000))

    def lose_two_of_three(*given: object) -> None:
        if next(sent) % 3 == 0:
            notify(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(notifications, "notify", lose_two_of_three)
    monkeypatch.setattr(notifications, "POLL_S", 0.02)
    monkeypatch.setattr(following, "POLL_INTERVAL_S", 0.2)
    await assert_all_is_followed(engines, tenant)
