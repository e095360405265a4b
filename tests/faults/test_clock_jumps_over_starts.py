"""Clocks jump between the starts of servers, some of them killed: nothing is revived, erased or flooded."""

from __future__ import annotations

import asyncio
import random
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest

from ledger_engine.core.clock import DAY
from tests.conftest import Tally
from tests.faults.server import PATIENCE_S, Server
from tests.receivers import answering, receiving

# The library itself: the command `faketime` would take the signals instead of the server.
FAKETIME = list(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))
# Only the time of day. With its fix for the hangs of an older C library each wait with a time limit is over
# at once, and the threads of a server take all the processors.
FAKED = ("FAKETIME_DONT_FAKE_MONOTONIC=1", "DONT_FAKE_MONOTONIC=1", "FAKETIME_FORCE_MONOTONIC_FIX=0")
SECOND, HOUR = 1000, 3_600_000
# Tokens that are tried at each start: as many as may have expired before one address has asked too often.
TRIED = 10
# The latest of those that are believed one after the other is under 7 days, so nothing becomes old in truth.
JUMPS = ((SECOND, 59 * SECOND), (HOUR, 20 * HOUR), (2 * DAY, 6 * DAY), (365 * DAY, 30 * 365 * DAY))


def draw_offset(chance: random.Random) -> int:
    """How far the machine's clock is from the true time, in milliseconds."""
    if chance.random() < 0.25:
        return 0
    least, most = chance.choice(JUMPS)
    return chance.randint(least, most) * chance.choice((1, 1, -1))


# A server whose tokens expire by the machine's clock, which may go back.
FORGETFUL = """
import time
from ledger_engine import cli
from ledger_engine.access.credentials import Credential

def check_expiry(self, now, check=Credential.check_expiry, time_ns=time.time_ns):
    check(self, time_ns() // 10**6)

Credential.check_expiry = check_expiry
cli.main()
"""


@dataclass
class Seen:
    """What must not come back or go."""

    tokens: list[str] = field(default_factory=list)
    expired: set[str] = field(default_factory=set)
    newest: str = ""
    logged: int = 0


@pytest.mark.skipif(not FAKETIME, reason="needs libfaketime")
async def test_servers_with_jumping_clocks_revive_erase_and_flood_nothing(
    tmp_path: Path, seed: int, soak: int, tally: Tally
) -> None:
    database = tmp_path / "ledger.db"
    seen, chance = Seen(), random.Random(seed)
    server = Server(database, options=["--webhook-retries", "3600,3600,3600,3600"])
    server.start()
    try:
        await jump(server, seen, chance, starts=2 * soak)
    finally:
        server.kill()
    server.assert_books_are_right()
    expired = f"{len(seen.expired)} of {len(seen.tokens)} tokens expired"
    tally(starts=2 * soak, tokens=len(seen.tokens), requests=seen.logged)
    print(f"{2 * soak} starts, {expired}, {seen.logged} requests logged")


@pytest.mark.parametrize("program", [None, pytest.param(FORGETFUL, id="forgetful")])
def test_a_server_that_revives_a_token_when_its_clock_goes_back_is_found(
    tmp_path: Path, seed: int, program: str | None
) -> None:
    server, seen, chance = Server(tmp_path / "ledger.db", program=program), Seen(), random.Random(seed)

    def look_at_all_hours() -> None:
        key = user = ""
        for hours in (0, 2, 0):
            server.clock_ahead_s = hours * 3600
            server.start()
            key = key or server.make_key()
            with calling(server, key) as client:
                user = user or prepare(client, "http://127.0.0.1:9", seen)
                look(client, server.database, user, seen, chance)
            assert server.stop() == 0

    try:
        if program is None:
            look_at_all_hours()
        else:
            with pytest.raises(AssertionError, match="revived"):
                look_at_all_hours()
        assert seen.expired
    finally:
        server.kill()


async def jump(server: Server, seen: Seen, chance: random.Random, starts: int) -> None:
    """Stop or kill the server and start it with another clock so many times."""
    key = await asyncio.to_thread(server.make_key)
    async with receiving(answering(500)) as receiver:
        with calling(server, key) as client:
            user = await asyncio.to_thread(prepare, client, receiver.url, seen)
        await receiver.until_received(30)
        server.kill()
        for _ in range(starts):
            offset = draw_offset(chance)
            server.under = ["env", f"LD_PRELOAD={FAKETIME[0]}", *FAKED, f"FAKETIME={offset / 1000:+.3f}"]
            before, began = len(receiver.received), time.monotonic()
            await asyncio.to_thread(server.start)
            with what_it_shares_removed(server.pid):
                with calling(server, key) as client:
                    await asyncio.to_thread(look, client, server.database, user, seen, chance)
                await asyncio.sleep(chance.uniform(0, 3))
                retries = sum(request.attempt > 1 for request in receiver.received[before:])
                assert retries <= time.monotonic() - began + 2, (offset, "one a second")
                if chance.random() < 0.6:
                    server.kill()
                else:
                    assert await asyncio.to_thread(server.stop) == 0


@contextmanager
def what_it_shares_removed(pid: int) -> Iterator[None]:
    """Remove in the end what libfaketime shares with processes that this one starts: one killed leaves it."""
    try:
        yield
    finally:
        for each in ("faketime_shm", "sem.faketime_sem"):
            Path(f"/dev/shm/{each}_{pid}").unlink(missing_ok=True)


def calling(server: Server, key: str) -> httpx.Client:
    headers = {"Authorization": f"Bearer {key}"}
    return httpx.Client(base_url=server.url, headers=headers, timeout=PATIENCE_S)


def prepare(client: httpx.Client, url: str, seen: Seen) -> str:
    """Create an endpoint at `url`, 30 accounts and a deactivated user; return the user's id."""
    client.post("/v1/webhook_endpoints", json={"url": url, "events": ["account.created"]}).raise_for_status()
    user: str = client.post("/api/users", json={"name": "Ada", "email": "ada@example.com"}).json()["id"]
    client.delete(f"/api/users/{user}").raise_for_status()
    for _ in range(30):
        create_account(client, seen)
    return user


def create_account(client: httpx.Client, seen: Seen) -> None:
    made = client.post("/v1/accounts", json={"name": "Till", "currency": "EUR"})
    assert made.status_code == 201, made.text
    assert made.json()["id"] > seen.newest, "ids are in the order in which things were made"
    seen.newest = made.json()["id"]


def look(client: httpx.Client, database: Path, user: str, seen: Seen, chance: random.Random) -> None:
    """Compare what the server answers, and what is stored, with what was so before."""
    create_account(client, seen)
    key = client.headers["Authorization"].removeprefix("Bearer ")
    old, new = seen.tokens[: -TRIED // 2], seen.tokens[-TRIED // 2 :]
    for token in (*chance.sample(old, min(len(old), TRIED // 2)), *new):
        answer = client.get("/v1/accounts", headers={"Authorization": f"Bearer {token}"})
        assert answer.status_code in (200, 401)
        assert not (answer.status_code == 200 and token in seen.expired), "revived"
        if answer.status_code == 401:
            seen.expired.add(token)
    given = {"grant_type": "api_key", "api_key": key}
    answer = client.post("/v1/auth/token", json=given)
    assert answer.status_code == 200, answer.text
    seen.tokens.append(answer.json()["access_token"])
    with closing(sqlite3.connect(database)) as connection:
        assert connection.execute("SELECT name FROM users WHERE id = ?", (user,)).fetchone() == ("Ada",)
        (logged,) = connection.execute("SELECT count(*) FROM requests").fetchone()
    assert logged >= seen.logged, "the log was emptied"
    seen.logged = logged
