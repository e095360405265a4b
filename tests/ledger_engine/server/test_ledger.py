"""What is opened for a served ledger."""

from __future__ import annotations

import importlib.util

import pytest

from ledger_engine.core.settings import BadSettings, ServeSettings
from ledger_engine.server import ledger
from tests.ledger_engine.limits.counters import redis_address
from tests.postgres_server import emptied_database

pytestmark = pytest.mark.process


@pytest.fixture
def database() -> str:
    return emptied_database()


async def test_two_servers_count_in_the_database_or_in_redis(database: str) -> None:
    for number, limits in enumerate((None, redis_address())):
        settings, who = ServeSettings(database, limits=limits), f"address/{number}"
        async with ledger.opened(settings, database) as first, ledger.opened(settings, database) as second:
            used = 0
            while not used:
                verdict = await first.shared.rate_limits.count(who, 60, 10)
                after = await second.shared.rate_limits.peek(who, 60)
                used = 60 - after.remaining if after.reset == verdict.reset else 0
            assert used == 60 - verdict.remaining


@pytest.mark.parametrize(
    "url", ["unix:///nowhere/redis.sock", "redis://:secret@127.0.0.1:1/0", "redis://127.0.0.1:no/0"]
)
async def test_a_redis_that_cannot_be_used_is_said_to_be_so_without_its_password(
    database: str, url: str
) -> None:
    with pytest.raises(BadSettings, match=r"--limits cannot be used: \w") as refused:
        async with ledger.opened(ServeSettings(database, limits=url), database):
            pass
    assert "secret" not in str(refused.value)


async def test_redis_without_its_package_says_what_to_install(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(BadSettings, match=r"`pip install '\.\[redis\]'` in the folder of"):
        async with ledger.opened(ServeSettings(database, limits=redis_address()), database):
            pass
