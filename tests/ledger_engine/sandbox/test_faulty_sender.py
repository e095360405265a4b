"""Faults in webhooks: lost, late, twice, out of order, with a signature that does not fit."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, cast

from ledger_engine.core.errors import StorageUnavailable
from ledger_engine.events.webhooks.sending import Job, SendResult
from ledger_engine.sandbox.faults import Faults
from ledger_engine.sandbox.faulty_sender import FaultySender
from ledger_engine.store.engine import Engine
from tests.helped_server import ROOT, Owned
from tests.ledger_engine.waiting import looked_until, until
from tests.receivers import Receiver, receiving


@dataclass
class Hooked:
    own: Owned
    receiver: Receiver
    endpoint: dict[str, Any]

    async def fault(self, webhook: str, times: int = 1, **action: int) -> None:
        body = {"match": {"endpoint": self.endpoint["id"]}, "action": {"webhook": webhook, **action}}
        await asyncio.to_thread(self.own.made, f"{ROOT}/faults", **body, times=times)

    async def account(self, name: str) -> str:
        made = await asyncio.to_thread(self.own.made, "/v1/accounts", name=name, currency="EUR")
        return str(made["name"])

    async def hits(self) -> int:
        """Return how often a fault has hit."""
        listed = (await asyncio.to_thread(self.own.api.get, f"{ROOT}/faults")).json()["data"]
        return sum(each["hits"] for each in listed)

    async def attempts(self) -> list[dict[str, Any]]:
        path = f"/v1/webhook_endpoints/{self.endpoint['id']}/deliveries"
        listed = await asyncio.to_thread(self.own.api.get, path)
        return [attempt for delivery in listed.json()["data"] for attempt in delivery["attempts"]]

    def names(self) -> list[str]:
        return [each.body.partition(b'"name":"')[2].partition(b'"')[0].decode() for each in self.received()]

    def received(self) -> list[Any]:
        return list(self.receiver.received)

    def is_signed(self, number: int) -> bool:
        received = self.receiver.received[number]
        signature = hmac.digest(self.endpoint["secret"].encode(), received.body, "sha256").hex()
        return received.headers["ledger-signature"] == signature


@asynccontextmanager
async def hooked(own: Owned) -> AsyncIterator[Hooked]:
    async with receiving() as receiver:
        endpoint = await asyncio.to_thread(
            own.made, "/v1/webhook_endpoints", url=receiver.url, events=["account.created"]
        )
        yield Hooked(own, receiver, endpoint)


async def test_a_webhook_that_is_lost_comes_with_its_retry(own: Owned) -> None:
    async with hooked(own) as hook:
        await hook.fault("drop")
        await hook.account("Till")
        await asyncio.to_thread(own.helper, "clock", advance=1)
        assert hook.received() == []
        (lost,) = await hook.attempts()
        assert lost["error"].startswith("lost on the way: flt_")
        await asyncio.to_thread(own.helper, "clock", advance=6)
        assert [received.attempt for received in hook.received()] == [2]


async def test_a_webhook_comes_twice(own: Owned) -> None:
    async with hooked(own) as hook:
        await hook.fault("duplicate")
        await hook.account("Till")
        await hook.receiver.until_received(2)
        first, second = hook.received()
        assert (first.event, first.body) == (second.event, second.body)
        await asyncio.to_thread(own.helper, "clock", advance=0)
        assert len(await hook.attempts()) == 1


async def test_a_webhook_that_is_late_is_overtaken(own: Owned) -> None:
    async with hooked(own) as hook:
        await hook.fault("delay", delay_ms=2000)
        await hook.account("first")
        await hook.account("second")
        await hook.receiver.until_received(2)
        assert hook.names() == ["second", "first"]


async def test_two_webhooks_change_places(own: Owned) -> None:
    async with hooked(own) as hook:
        await hook.fault("reorder", delay_ms=60_000)
        for name in ("first", "second", "third"):
            await hook.account(name)
        await hook.receiver.until_received(3)
        assert hook.names()[0] == "second"
        assert sorted(hook.names()) == ["first", "second", "third"]


async def test_a_signature_does_not_fit_once(own: Owned) -> None:
    async with hooked(own) as hook:
        await hook.fault("corrupt")
        await hook.account("first")
        await hook.account("second")
        await hook.receiver.until_received(2)
        assert [hook.is_signed(0), hook.is_signed(1)] == [False, True]


async def test_a_deleted_endpoint_leaves_nothing_that_waits(own: Owned) -> None:
    async with hooked(own) as hook:
        await hook.fault("delay", delay_ms=60_000)
        await hook.account("late")
        await looked_until(hook.hits, lambda hits: hits == 1)
        await asyncio.to_thread(own.api.delete, f"/v1/webhook_endpoints/{hook.endpoint['id']}")
        assert (await asyncio.to_thread(own.helper, "reset"))["accounts"] == 1
        assert hook.received() == []


async def test_jobs_come_back_when_the_endpoints_project_cannot_be_read() -> None:
    class Lost:
        async def read(self, _work: object) -> None:
            raise StorageUnavailable("the disk is full")

    class Idle:
        is_ready = True

        def drop(self, _endpoint: str) -> None: ...
        def send_until(self, _moment: float) -> None: ...

        async def stop(self, _grace_s: float) -> None: ...

    results: list[SendResult] = []
    sender = FaultySender(cast(Engine, Lost()), Faults(), lambda _report: cast(Any, Idle()), results.append)
    sender.submit(Job(1, "whe_1", True, False, "127.0.0.1", 9, False, "/", [], "{}"))
    await until(lambda: results)
    assert results == [SendResult(1, made=False)]
    await sender.stop(0)
