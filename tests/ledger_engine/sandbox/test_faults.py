"""Faults in requests: errors, delays and cut connections, as often and as likely as was asked for."""

from __future__ import annotations

import asyncio
import hmac
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, cast

import httpx
import pytest

from ledger_engine.core.errors import StorageUnavailable
from ledger_engine.core.tenant import Tenant
from ledger_engine.events.webhooks.sending import AttemptJob, SendResult
from ledger_engine.sandbox import faults
from ledger_engine.sandbox.faults import Faults, FaultySender
from ledger_engine.store.engine import Engine
from ledger_engine.store.pages import PageRequest
from tests.helped_server import ROOT, HelpedServer, Owned
from tests.ledger_engine.waiting import looked_until, until, wait_until
from tests.receivers import Receiver, receiving

ACCOUNT = {"name": "Till", "currency": "EUR"}


def fault(own: Owned, action: dict[str, Any], *, times: int | None = 1, **match: str) -> dict[str, Any]:
    return own.made(f"{ROOT}/faults", match=match, action=action, times=times)


def hits(own: Owned, id: str) -> int:
    listed = own.api.get(f"{ROOT}/faults").json()["data"]
    return next(each["hits"] for each in listed if each["id"] == id)


def test_an_app_that_retries_with_the_same_key_after_a_cut_makes_exactly_one_object(own: Owned) -> None:
    made = fault(own, {"cut": "after_commit"}, method="POST", path="/v1/accounts")
    assert made["id"].startswith("flt_")
    headers = {"Idempotency-Key": "till-1"}
    with pytest.raises(httpx.RemoteProtocolError):
        own.api.post("/v1/accounts", json=ACCOUNT, headers=headers)
    again = own.api.post("/v1/accounts", json=ACCOUNT, headers=headers)
    assert (again.status_code, again.json()["error"]["code"]) == (409, "duplicate_idempotency_key")
    (only,) = own.api.get("/v1/accounts").json()["data"]
    assert again.headers["Idempotency-Original"] == only["id"]
    assert hits(own, made["id"]) == 1


def test_cut_before_the_work_nothing_is_made(own: Owned) -> None:
    fault(own, {"cut": "before"}, path="/v1/accounts")
    with pytest.raises(httpx.RemoteProtocolError):
        own.api.post("/v1/accounts", json=ACCOUNT, headers={"Idempotency-Key": "till-1"})
    assert own.api.get("/v1/accounts").json()["data"] == []
    assert own.api.post("/v1/accounts", json=ACCOUNT, headers={"Idempotency-Key": "till-1"}).is_success


def test_half_an_answer_has_the_length_of_the_whole_one(own: Owned) -> None:
    fault(own, {"cut": "half"}, method="GET", path="/v1/accounts")
    with own.api.stream("GET", "/v1/accounts") as answer:
        whole = int(answer.headers["Content-Length"])
        assert "Request-Id" in answer.headers
        parts = answer.iter_raw()
        assert len(next(parts)) == whole // 2
        with pytest.raises(httpx.RemoteProtocolError, match="complete message body"):
            next(parts)
    assert own.api.get("/v1/accounts").is_success


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_a_stream_is_cut_at_its_first_part_or_at_its_end_where_it_has_none(own: Owned, method: str) -> None:
    fault(own, {"cut": "after_commit"}, path="/v1/events/stream")
    with pytest.raises(httpx.RemoteProtocolError):
        own.api.request(method, "/v1/events/stream")


@pytest.mark.parametrize(
    ("status", "code", "path", "body"),
    [
        (503, None, "/v1/accounts", {"type": "api_error", "code": "storage_unavailable"}),
        (500, "internal_error", "/v1/accounts", {"type": "api_error", "code": "internal_error"}),
        (404, None, "/v1/accounts", {"type": "not_found", "code": "not_found"}),
        (409, "invoice_not_open", "/v1/invoices/*", {"type": "conflict", "code": "invoice_not_open"}),
        (418, None, "/v1/accounts", {"type": "invalid_request", "code": "invalid_value"}),
    ],
)
def test_an_error_has_the_ledgers_own_shape(
    own: Owned, status: int, code: str | None, path: str, body: dict[str, str]
) -> None:
    made = fault(own, {"status": status, "code": code}, path=path)
    answer = own.api.get(path.replace("*", "inv_1"))
    error = answer.json()["error"]
    assert (answer.status_code, error["type"], error["code"]) == (status, body["type"], body["code"])
    assert made["id"] in error["message"]
    assert {"Request-Id", "X-RateLimit-Limit"} <= {*answer.headers} or "request-id" in answer.headers


def test_an_error_of_the_directory_and_of_the_rate_limit_have_theirs(own: Owned) -> None:
    fault(own, {"status": 503}, path="/api/users")
    assert own.api.get("/api/users").json()["error"] == "storage_unavailable"
    fault(own, {"status": 429}, path="/v1/accounts")
    limited = own.api.get("/v1/accounts")
    assert (limited.status_code, limited.headers["Retry-After"]) == (429, "1")
    assert limited.json()["error"] == "rate_limited"
    fault(own, {"status": 401}, path="/v1/accounts")
    assert own.api.get("/v1/accounts").headers["WWW-Authenticate"] == "Bearer"


def test_an_error_that_a_fault_made_or_cut_is_logged_with_its_code(own: Owned) -> None:
    fault(own, {"status": 409, "code": "email_taken"}, path="/v1/accounts")
    fault(own, {"status": 429}, path="/api/users")
    fault(own, {"cut": "half"}, path="/v1/nowhere")
    assert own.api.get("/v1/accounts").status_code == 409
    assert own.api.get("/api/users").status_code == 429
    with pytest.raises(httpx.RemoteProtocolError, match="complete message body"):
        own.api.get("/v1/nowhere")

    def logged() -> list[str | None]:
        entries = own.api.get("/v1/requests", params={"limit": "3"}).json()["data"]
        return [entry["error_code"] for entry in entries if not entry["path"].startswith(ROOT)]

    wait_until(lambda: len(logged()) == 3)
    assert logged() == ["not_found", "rate_limited", "email_taken"]


def test_delays_add_up_and_what_comes_after_them_still_happens(own: Owned) -> None:
    fault(own, {"delay_ms": 40, "jitter_ms": 10}, path="/v1/*")
    fault(own, {"delay_ms": 40}, path="/v1/accounts")
    fault(own, {"status": 500}, path="/v1/accounts")
    began = time.monotonic()
    assert own.api.get("/v1/accounts").status_code == 500
    assert time.monotonic() - began >= 0.08
    assert own.api.get("/v1/accounts").status_code == 200


def test_a_fault_happens_only_to_what_it_matches(server: HelpedServer, own: Owned) -> None:
    key = own.made("/v1/api_keys", role="owner")
    other = server.client(key["key"])
    of_key = fault(own, {"status": 500}, times=None, key=key["id"])
    assert (own.api.get("/v1/accounts").status_code, other.get("/v1/accounts").status_code) == (200, 500)
    own.api.delete(f"{ROOT}/faults/{of_key['id']}")
    fault(own, {"status": 501}, times=None, header="X-Break: yes")
    fault(own, {"status": 502}, times=None, header="X-Any", method="post")

    def status(method: str, **headers: str) -> int:
        return own.api.request(method, "/v1/accounts", headers=headers, json=ACCOUNT).status_code

    assert status("POST") == 201
    assert status("POST", **{"X-Break": "no"}) == 201
    assert status("POST", **{"X-Break": "yes"}) == 501
    assert status("POST", **{"X-Any": "1"}) == 502
    assert own.api.get("/v1/accounts", headers={"X-Any": "1"}).status_code == 200


def test_another_project_has_none_of_it(server: HelpedServer, own: Owned) -> None:
    made = fault(own, {"status": 500}, times=None)
    other = server.owned()
    assert other.api.get("/v1/accounts").status_code == 200
    assert other.api.get(f"{ROOT}/faults").json()["data"] == []
    assert other.api.delete(f"{ROOT}/faults/{made['id']}").status_code == 404
    assert own.api.get("/v1/accounts").status_code == 500


def test_a_request_without_a_credential_has_the_faults_that_name_its_path(
    server: HelpedServer, own: Owned
) -> None:
    everywhere = fault(own, {"status": 500}, times=None)
    named = fault(own, {"status": 503}, times=1, path="/v1/auth/token")
    body = {"grant_type": "api_key", "api_key": own.key}
    assert server.client().post("/v1/auth/token", json=body).status_code == 503
    assert server.client().post("/v1/auth/token", json=body).status_code == 200
    assert (hits(own, everywhere["id"]), hits(own, named["id"])) == (0, 1)


def test_a_seed_makes_chance_the_same_again(own: Owned) -> None:
    def run() -> list[int]:
        body = {"match": {}, "action": {"status": 500}, "probability": 0.5, "seed": 7}
        made = own.made(f"{ROOT}/faults", **body)
        seen = [own.api.get("/v1/accounts").status_code for _ in range(12)]
        assert hits(own, made["id"]) == seen.count(500)
        own.api.delete(f"{ROOT}/faults/{made['id']}")
        return seen

    first = run()
    assert set(first) == {200, 500}
    assert run() == first


def test_the_helpers_themselves_have_no_faults(own: Owned) -> None:
    fault(own, {"cut": "before"}, times=None)
    fault(own, {"status": 500}, times=None, path="/v1/test_helpers*")
    assert own.api.get(f"{ROOT}/clock").status_code == 200
    assert own.api.delete(f"{ROOT}/faults").json() == {"deleted": 2}
    assert own.api.get("/v1/accounts").status_code == 200


def test_a_loop_that_deletes_the_faults_it_lists_leaves_none(own: Owned) -> None:
    for number in range(3):
        fault(own, {"status": 500 + number})
    query: dict[str, Any] = {"limit": 1}
    for _ in range(3):
        page = own.api.get(f"{ROOT}/faults", params=query).json()
        own.api.delete(f"{ROOT}/faults/{page['data'][0]['id']}")
        query["cursor"] = page["next_cursor"]
    assert own.api.get(f"{ROOT}/faults").json()["data"] == []


def test_faults_are_listed_page_by_page(own: Owned) -> None:
    made = [fault(own, {"status": 500 + number})["id"] for number in range(3)]
    first = own.api.get(f"{ROOT}/faults", params={"limit": 2}).json()
    rest = own.api.get(f"{ROOT}/faults", params={"limit": 2, "cursor": first["next_cursor"]}).json()
    assert [each["id"] for each in first["data"] + rest["data"]] == made[::-1]
    assert (first["has_more"], rest["has_more"], rest["next_cursor"]) == (True, False, None)
    refused = own.api.get(f"{ROOT}/faults", params={"cursor": "flt_0"})
    assert refused.json()["error"]["code"] == "invalid_cursor"
    assert own.api.delete(f"{ROOT}/faults/flt_0").status_code == 404


@pytest.mark.parametrize(
    ("match", "action", "param"),
    [
        ({}, {}, "action"),
        ({}, {"status": 500, "cut": "half"}, "action"),
        ({}, {"status": 302}, "action.status"),
        ({}, {"status": 404, "code": "invoice_not_open"}, "action.code"),
        ({}, {"status": 429, "code": "not_found"}, "action.code"),
        ({}, {"cut": "half", "code": "not_found"}, "action.code"),
        ({}, {"jitter_ms": 5, "status": 500}, "action.jitter_ms"),
        ({}, {"cut": "after"}, "action.cut"),
        ({}, {"webhook": "drop", "delay_ms": 5}, "action.delay_ms"),
        ({"path": "v1"}, {"status": 500}, "match.path"),
        ({"path": "/v1/*/x"}, {"status": 500}, "match.path"),
        ({"method": "BREW"}, {"status": 500}, "match.method"),
        ({"key": "sk_test_x"}, {"status": 500}, "match.key"),
        ({"header": ": x"}, {"status": 500}, "match.header"),
        ({"endpoint": "whe_1"}, {"status": 500}, "match.endpoint"),
        ({"path": "/v1/accounts"}, {"webhook": "drop"}, "match.path"),
        ({"type": "invoice.eaten"}, {"webhook": "drop"}, "match.type"),
        ({"endpoint": "https://receiver.test"}, {"webhook": "drop"}, "match.endpoint"),
        ({"path": "/" + 8_192 * "x"}, {"status": 500}, "match.path"),
        ({"header": 16_385 * "x"}, {"status": 500}, "match.header"),
    ],
)
def test_a_text_that_is_no_fault_is_refused(
    own: Owned, match: dict[str, Any], action: dict[str, Any], param: str
) -> None:
    refused = own.api.post(f"{ROOT}/faults", json={"match": match, "action": action})
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, param)
    assert own.api.get(f"{ROOT}/faults").json()["data"] == []


def test_of_too_many_faults_the_oldest_of_the_project_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(faults, "FAULTS_MAX", 2)
    kept, tenants = faults.Faults(), [Tenant(f"prj_{number}", livemode=False) for number in (1, 2)]
    every: Any = dict.fromkeys(("method", "path", "key", "header", "endpoint", "type"))
    failing: Any = dict.fromkeys(("code", "delay_ms", "jitter_ms", "cut", "webhook")) | {"status": 500}
    for number in range(1, 4):
        for tenant in tenants[: 1 if number > 1 else 2]:
            id = f"flt_{number}_{tenant.project}"
            kept.add(tenant, faults.Fault(id, every, failing, 1.0, None, None, 0, 0, livemode=False))
    found = [[fault.id for fault in kept.page(tenant, PageRequest(10)).items] for tenant in tenants]
    assert found == [["flt_3_prj_1", "flt_2_prj_1"], ["flt_1_prj_2"]]


# Faults of webhooks


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
    sender.submit(AttemptJob(1, "whe_1", True, False, "127.0.0.1", 9, False, "/", [], "{}"))
    await until(lambda: results)
    assert results == [SendResult(1, made=False)]
    await sender.stop(0)
