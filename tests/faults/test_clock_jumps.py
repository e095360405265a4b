"""The machine's clock jumps: no token comes back to life, and everything keeps its order."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import httpx
import pytest

from ledger_engine.access import api_keys, projects
from ledger_engine.core.tenant import Scope
from ledger_engine.database.engine import Engine, open_engine
from ledger_engine.http.app import create_app

HOUR_S = 3600
NS = 1_000_000_000


@dataclass
class Machine:
    """What its clocks show; `jump` is somebody setting the one on the wall."""

    wall_s: int = 1_790_000_000
    monotonic_s: int = 50

    def run(self, seconds: int) -> None:
        self.wall_s += seconds
        self.monotonic_s += seconds

    def jump(self, seconds: int) -> None:
        self.wall_s += seconds


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    machine = Machine()
    monkeypatch.setattr(time, "time_ns", lambda: machine.wall_s * NS)
    monkeypatch.setattr(time, "monotonic_ns", lambda: machine.monotonic_s * NS)
    return machine


@asynccontextmanager
async def serving(path: Path) -> AsyncIterator[tuple[Engine, httpx.AsyncClient]]:
    engine = open_engine(path, serving=True)
    transport = httpx.ASGITransport(app=create_app(engine), client=("127.0.0.1", 50_000))
    async with httpx.AsyncClient(transport=transport, base_url="http://ledger.test") as client:
        yield engine, client
    await engine.close()


async def make_key(engine: Engine) -> str:
    new = projects.NewProject("Clocks", "enterprise", rate_limit=10**9, burst=10**9)
    project = await engine.write(partial(projects.create, new=new))
    value = api_keys.new_value(livemode=False)
    scope = Scope(project.id, livemode=False)
    await engine.write(partial(api_keys.create, scope=scope, new=api_keys.NewApiKey(), value=value))
    return value


async def make_token(client: httpx.AsyncClient, key: str) -> str:
    answer = await client.post("/v1/auth/token", json={"grant_type": "api_key", "api_key": key})
    assert answer.status_code == 200
    token: str = answer.json()["access_token"]
    return token


async def create(client: httpx.AsyncClient, key: str) -> dict[str, str]:
    body = {"name": "Till", "currency": "EUR"}
    answer = await client.post("/v1/accounts", json=body, headers={"Authorization": f"Bearer {key}"})
    assert answer.status_code == 201
    made: dict[str, str] = answer.json()
    return made


async def status_with(client: httpx.AsyncClient, token: str) -> int:
    answer = await client.get("/v1/accounts", headers={"Authorization": f"Bearer {token}"})
    return answer.status_code


@pytest.mark.parametrize("back_s", [60, 2 * HOUR_S, 365 * 24 * HOUR_S])
async def test_a_clock_set_back_revives_no_token(tmp_path: Path, machine: Machine, back_s: int) -> None:
    async with serving(tmp_path / "ledger.db") as (engine, client):
        token = await make_token(client, await make_key(engine))
        assert await status_with(client, token) == 200
        machine.run(HOUR_S)
        assert await status_with(client, token) == 401
        machine.jump(-back_s)
        assert await status_with(client, token) == 401
        machine.run(30)
        assert await status_with(client, token) == 401


async def test_a_clock_set_back_does_not_lengthen_a_tokens_hour(tmp_path: Path, machine: Machine) -> None:
    async with serving(tmp_path / "ledger.db") as (engine, client):
        token = await make_token(client, await make_key(engine))
        machine.run(HOUR_S // 2)
        machine.jump(-HOUR_S)
        assert await status_with(client, token) == 200
        machine.run(HOUR_S // 2)
        assert await status_with(client, token) == 401


async def test_a_clock_set_forward_ends_tokens_and_they_stay_ended(tmp_path: Path, machine: Machine) -> None:
    async with serving(tmp_path / "ledger.db") as (engine, client):
        token = await make_token(client, await make_key(engine))
        machine.jump(2 * HOUR_S)
        assert await status_with(client, token) == 401
        machine.jump(-2 * HOUR_S)
        assert await status_with(client, token) == 401


async def test_what_is_made_keeps_its_order_through_every_jump(tmp_path: Path, machine: Machine) -> None:
    async with serving(tmp_path / "ledger.db") as (engine, client):
        key = await make_key(engine)
        made = []
        for jump in (0, -HOUR_S, 5, 10 * HOUR_S, -30 * HOUR_S, 0, -1, 7 * HOUR_S):
            machine.jump(jump)
            machine.run(1)
            made.append(await create(client, key))
        listed = await client.get("/v1/accounts", headers={"Authorization": f"Bearer {key}"})
    assert [each["id"] for each in made] == sorted(each["id"] for each in made)
    assert [each["created"] for each in made] == sorted(each["created"] for each in made)
    assert [each["id"] for each in listed.json()["data"]] == [each["id"] for each in reversed(made)]


async def test_a_restart_on_a_machine_that_was_set_back_goes_on_from_where_it_was(
    tmp_path: Path, machine: Machine
) -> None:
    path = tmp_path / "ledger.db"
    async with serving(path) as (engine, client):
        key = await make_key(engine)
        token = await make_token(client, key)
        machine.run(HOUR_S)
        before = await create(client, key)
        assert await status_with(client, token) == 401
    machine.jump(-5 * HOUR_S)
    async with serving(path) as (engine, client):
        assert await status_with(client, token) == 401
        after = await create(client, key)
    assert after["id"] > before["id"]
    assert after["created"] > before["created"]
