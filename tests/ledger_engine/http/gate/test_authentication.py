"""The Authorization header (docs/interface.md#authentication), and what guessing costs."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from functools import partial
from typing import Any, cast

import httpx
import pytest

from ledger_engine.access import api_keys
from ledger_engine.access.api_keys import NewApiKey
from ledger_engine.access.credentials import Credential
from ledger_engine.core.errors import AuthenticationError, StorageUnavailable
from ledger_engine.core.settings import Location
from ledger_engine.core.tenant import Tenant
from ledger_engine.http.gate import authentication
from ledger_engine.http.gate.authentication import Authenticator
from ledger_engine.store import Unit
from ledger_engine.store.engine import Engine, open_engine
from ledger_engine.store.sqlite.readers import READERS
from tests.contract.conftest import refusal
from tests.ledger_engine.manual_clock import ManualClock


@pytest.fixture
async def key(engine: Engine, tenant: Tenant) -> tuple[str, str]:
    """Return the id and the value of an admin's key."""
    value = api_keys.new_value(livemode=False)
    made = await engine.write(partial(api_keys.create, tenant=tenant, new=NewApiKey(), value=value))
    return made.id, value


async def ask(client: httpx.AsyncClient, header: str | bytes) -> httpx.Response:
    return await client.get("/v1/whoami", headers={"Authorization": header})


# What happens to a credential between two requests


async def test_a_key_revoked_by_another_process_is_refused_within_a_second(
    anyone: httpx.AsyncClient,
    location: Location,
    clock: ManualClock,
    tenant: Tenant,
    key: tuple[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """docs/decisions.md#commands. The ledger's clock stands still, as the one of test helpers may."""
    id, value = key
    passed = 0.0
    monkeypatch.setattr(authentication, "monotonic", lambda: passed)
    assert (await ask(anyone, f"Bearer {value}")).status_code == 200
    beside = open_engine(location, clock=clock)
    await beside.write(partial(api_keys.revoke, tenant=tenant, id=id))
    await beside.close()
    passed = 0.999
    assert refusal(await ask(anyone, f"Bearer {value}")) == (401, "revoked_credential", None)


# What it costs


@pytest.mark.sqlite
async def test_a_credential_is_found_while_all_reading_threads_are_busy(
    anyone: httpx.AsyncClient, engine: Engine, key: tuple[str, str]
) -> None:
    """Else a caller whose credential is looked up again would wait for the statements of others."""
    release = threading.Event()
    busy = [asyncio.create_task(engine.read(lambda _: release.wait())) for _ in range(READERS)]
    try:
        assert (await ask(anyone, f"Bearer {key[1]}")).status_code == 200
    finally:
        release.set()
        await asyncio.gather(*busy)


class LookUps:
    """Look-ups as the gate does them, on an engine that counts its reads and can be made to fail.

    What is remembered is new for ever, unless a test says otherwise. `id` and `good` are a key's.
    """

    def __init__(self, engine: Engine, tenant: Tenant, key: tuple[str, str]) -> None:
        self._engine, self._tenant = engine, tenant
        self.id, self.good = key
        self.clock, self.listen = engine.clock, engine.listen
        self.reads = self.most_at_once = self._at_once = 0
        self.trouble: Exception | None = None
        self.hangs_until: asyncio.Event | None = None
        self.before_answer: Callable[[], Any] | None = None
        self._authenticator = Authenticator(cast(Engine, self))

    async def __call__(self, value: str) -> Any:
        known = self.remembered(f"Bearer {value}")
        return await self._authenticator.find(f"Bearer {value}") if known is None else known

    def remembered(self, header: str) -> object:
        return self._authenticator.remembered(header, self.clock.now())

    async def revoke(self) -> None:
        await self._engine.write(partial(api_keys.revoke, tenant=self._tenant, id=self.id))

    async def read_short(self, work: Callable[[Unit], Credential]) -> Credential:
        self.reads += 1
        self._at_once += 1
        self.most_at_once = max(self.most_at_once, self._at_once)
        try:
            if self.trouble is not None:
                raise self.trouble
            if self.hangs_until is not None:
                await self.hangs_until.wait()
            try:
                return await self._engine.read(work)
            finally:
                if self.before_answer is not None:
                    await self.before_answer()
        finally:
            self._at_once -= 1


@pytest.fixture
def look_up(engine: Engine, tenant: Tenant, key: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> LookUps:
    monkeypatch.setattr(authentication, "monotonic", lambda: 0.0)
    return LookUps(engine, tenant, key)


def unknown() -> str:
    return api_keys.new_value(livemode=False)


KEY = "sk_test_" + "A" * 32
MALFORMED = {
    "too short": "Bearer sk_test_x",
    "no key": "Bearer x",
    "another mode": f"Bearer {KEY.replace('test', 'prod')}",
    "a refresh token": "Bearer rt_" + "A" * 32,
    "far too long": "Bearer " + "A" * 2**20,
    "a space before": f" Bearer {KEY}",
    "a space after": f"Bearer {KEY} ",
    "a digit that is not ASCII": f"Bearer {KEY[:-1]}٣",
    "a NUL": f"Bearer {KEY}\0",
}


@pytest.mark.parametrize("header", MALFORMED.values(), ids=MALFORMED)
async def test_a_value_without_the_form_of_a_credential_is_not_looked_up(
    look_up: LookUps, header: str
) -> None:
    error = look_up.remembered(header)
    assert isinstance(error, AuthenticationError)
    assert error.code == "invalid_credential"
    assert "AAAA" not in error.message
    assert look_up.reads == 0


async def test_a_value_is_looked_up_once_in_half_a_second_whether_good_or_not(
    look_up: LookUps, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half a second of the time that passes, also where the ledger's clock stands still as it does here."""
    passed = 0.0
    monkeypatch.setattr(authentication, "monotonic", lambda: passed)
    for reads, value in enumerate((look_up.good, unknown()), 1):
        first = await look_up(value)
        passed += 0.5
        assert type(await look_up(value)) is type(first)
        assert look_up.reads == 2 * reads - 1
        passed += 0.25
        assert type(await look_up(value)) is type(first)
        assert look_up.reads == 2 * reads


async def test_those_who_ask_for_one_value_at_once_share_a_look_up(look_up: LookUps) -> None:
    found = await asyncio.gather(*(look_up(look_up.good) for _ in range(32)))
    assert {credential.id for credential in found} == {look_up.id}
    assert look_up.reads == 1


async def test_a_caller_that_waits_for_a_cancelled_look_up_looks_by_itself(look_up: LookUps) -> None:
    read = asyncio.Event()
    look_up.before_answer = partial(_tell_and_wait, read)
    first = asyncio.ensure_future(look_up(look_up.good))
    await read.wait()
    second = asyncio.ensure_future(look_up(look_up.good))
    look_up.before_answer = None
    first.cancel()
    assert isinstance(await second, Credential)
    assert look_up.reads == 2


async def _tell_and_wait(told: asyncio.Event) -> None:
    told.set()
    await asyncio.Event().wait()


async def test_a_credential_revoked_while_it_is_looked_up_is_refused_to_those_who_wait(
    look_up: LookUps,
) -> None:
    look_up.before_answer = look_up.revoke
    first, second = [asyncio.ensure_future(look_up(look_up.good)) for _ in range(2)]
    assert isinstance(await first, Credential)  # it was good when it was read
    assert (await second).code == "revoked_credential"


async def test_each_refusal_is_an_error_of_its_own(look_up: LookUps) -> None:
    value = unknown()
    first, second = await look_up(value), await look_up(value)
    assert isinstance(second, AuthenticationError)
    assert first is not second
    assert (first.code, first.message) == (second.code, second.message)


@pytest.mark.slow
async def test_a_flood_of_unknown_values_does_not_push_out_the_good_ones(look_up: LookUps) -> None:
    await look_up(look_up.good)
    for _ in range(1_100):
        await look_up(unknown())
    reads = look_up.reads
    assert isinstance(await look_up(look_up.good), Credential)
    assert look_up.reads == reads


async def test_few_values_are_looked_up_at_a_time(look_up: LookUps) -> None:
    await asyncio.gather(*(look_up(unknown()) for _ in range(200)))
    assert look_up.reads == 200
    assert look_up.most_at_once == 16


async def test_lost_storage_is_not_remembered_as_a_refusal(look_up: LookUps) -> None:
    look_up.trouble = StorageUnavailable("the disk is gone")
    assert (await look_up(look_up.good)).code == "storage_unavailable"
    look_up.trouble = None
    assert isinstance(await look_up(look_up.good), Credential)


async def test_while_the_storage_hangs_nobody_waits_for_the_look_ups_of_others(
    look_up: LookUps, monkeypatch: pytest.MonkeyPatch
) -> None:
    look_up.hangs_until = asyncio.Event()
    of_one_value = [look_up(look_up.good) for _ in range(50)]
    of_others = [look_up(unknown()) for _ in range(50)]
    with monkeypatch.context() as patch:
        patch.setattr(authentication, "_LOOKED_UP_IN_S", 0.1)
        outcome = await asyncio.wait_for(asyncio.gather(*of_one_value, *of_others), 60)
    assert {each.code for each in outcome} == {"storage_unavailable"}
    assert look_up.reads <= 51  # the 50 with one value share one, and the others have one each at the most
    look_up.hangs_until.set()
    assert isinstance(await look_up(look_up.good), Credential)


async def test_a_refusal_found_while_credentials_change_is_not_remembered(look_up: LookUps) -> None:
    """The change may be that the value has become good."""
    look_up.before_answer = look_up.revoke
    value = unknown()
    assert (await look_up(value)).code == "invalid_credential"
    look_up.before_answer = None
    assert (await look_up(value)).code == "invalid_credential"
    assert look_up.reads == 2
