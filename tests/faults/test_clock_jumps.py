"""The machine's clock jumps: no token comes back to life, and everything keeps its order."""

from __future__ import annotations

import base64
import hashlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import httpx
import pytest

from ledger_engine.access import api_keys, credentials, projects
from ledger_engine.access.oauth import apps, authorization, passwords, sign_ins
from ledger_engine.access.oauth.authorization import AuthorizationRequest
from ledger_engine.core.tenant import Tenant
from ledger_engine.http.app import create_app
from ledger_engine.ledger import users
from ledger_engine.store import Unit
from ledger_engine.store.engine import Engine, open_engine

HOUR_S = 3600
VERIFIER = "v" * 43
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


@dataclass(frozen=True)
class Held:
    """What lets somebody in for a time: an API key's tokens, an app's tokens, a code and a sign-in."""

    pair: credentials.TokenPair
    of_app: credentials.TokenPair
    code: str
    sign_in: str
    asked: dict[str, str]


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
    tenant = Tenant(project.id, livemode=False)
    await engine.write(partial(api_keys.create, tenant=tenant, new=api_keys.NewApiKey(), value=value))
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


async def test_a_clock_set_back_lengthens_a_tokens_hour_by_a_seventh_at_most(
    tmp_path: Path, machine: Machine
) -> None:
    async with serving(tmp_path / "ledger.db") as (engine, client):
        token = await make_token(client, await make_key(engine))
        machine.run(HOUR_S // 2)
        assert await status_with(client, token) == 200
        machine.jump(-HOUR_S)
        assert await status_with(client, token) == 200
        machine.run(HOUR_S // 2 * 8 // 7 + 1)
        assert await status_with(client, token) == 401


async def test_a_clock_set_forward_ends_tokens_and_they_stay_ended(tmp_path: Path, machine: Machine) -> None:
    async with serving(tmp_path / "ledger.db") as (engine, client):
        token = await make_token(client, await make_key(engine))
        machine.jump(2 * HOUR_S)
        assert await status_with(client, token) == 401
        machine.jump(-2 * HOUR_S)
        assert await status_with(client, token) == 401


async def test_new_objects_keep_their_order_through_every_jump(tmp_path: Path, machine: Machine) -> None:
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


# Each way to be let in until a certain time, and whether it lets in now: made at the ledger's beginning.


async def has_token(engine: Engine, client: httpx.AsyncClient, held: Held) -> bool:
    return await status_with(client, held.pair.access_token) == 200


async def can_refresh(engine: Engine, client: httpx.AsyncClient, held: Held) -> bool:
    given = {"grant_type": "refresh_token", "refresh_token": held.pair.refresh_token}
    answer = await client.post("/v1/auth/token", json=given)
    assert answer.status_code in (200, 401)
    return answer.status_code == 200


async def app_has_token(engine: Engine, client: httpx.AsyncClient, held: Held) -> bool:
    return await status_with(client, held.of_app.access_token) == 200


async def app_can_refresh(engine: Engine, client: httpx.AsyncClient, held: Held) -> bool:
    given = {"grant_type": "refresh_token", "refresh_token": held.of_app.refresh_token}
    return (await client.post("/oauth/token", json=given)).status_code == 200


async def has_code(engine: Engine, client: httpx.AsyncClient, held: Held) -> bool:
    given = {"code": held.code, "code_verifier": VERIFIER}
    return (await client.post("/oauth/token", json=given)).status_code == 200


async def is_signed_in(engine: Engine, client: httpx.AsyncClient, held: Held) -> bool:
    cookie = {"Cookie": f"ledger_sign_in={held.sign_in}"}
    asked = await client.get("http://127.0.0.1/oauth/authorize", params=held.asked, headers=cookie)
    assert asked.status_code == 200, asked.text
    return "password" not in asked.text


async def let_everybody_in(engine: Engine) -> Held:
    key = await make_key(engine)
    first, second = api_keys.new_secret("ac"), api_keys.new_secret("ac")
    pair, of_app = credentials.new_pair(), credentials.new_pair()
    sign_in, uri = api_keys.new_secret("si"), "https://app.example/"
    challenge = base64.urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).decode().rstrip("=")

    def work(unit: Unit) -> Held:
        credentials.exchange(unit, key, pair)
        tenant = Tenant(credentials.find_key(unit, key).project, livemode=False)
        user = users.create(unit, tenant, users.NewUser("Ada", "ada@example.com", "owner"))
        passwords.set_password(unit, tenant, "ada@example.com", "a hash")
        sign_ins.begin(unit, user.id, "a hash", sign_in, None)
        app = apps.create(unit, tenant, apps.NewApp("App", [uri]))
        asked = AuthorizationRequest(app, uri, ["read:projects"], "s", challenge)
        authorization.decide(unit, asked, sign_in, first)
        authorization.exchange(unit, {"code": first, "code_verifier": VERIFIER}, of_app)
        authorization.decide(unit, asked, sign_in, second)
        return Held(pair, of_app, second, sign_in, asked.parameters())

    return await engine.write(work)


@pytest.mark.parametrize(
    "lets_in", [has_token, can_refresh, app_has_token, app_can_refresh, has_code, is_signed_in]
)
async def test_a_token_refused_as_expired_is_refused_after_a_kill_and_a_clock_set_back(
    tmp_path: Path, machine: Machine, lets_in: Callable[[Engine, httpx.AsyncClient, Held], Awaitable[bool]]
) -> None:
    path = tmp_path / "ledger.db"
    async with serving(path) as (engine, client):
        held = await let_everybody_in(engine)
        if lets_in not in (can_refresh, app_can_refresh, has_code):  # which work once
            assert await lets_in(engine, client, held)
        machine.jump(31 * 24 * HOUR_S)
        assert not await lets_in(engine, client, held)
    # An engine writes nothing at its end: it could as well have been killed.
    machine.jump(-31 * 24 * HOUR_S)
    async with serving(path) as (engine, client):
        assert not await lets_in(engine, client, held)
