"""The request log: notes off the request's path, without secrets, and never in its way."""

from __future__ import annotations

import asyncio
import json
import pickle
from functools import partial
from typing import Any

import pytest

from ledger_engine.access.credentials import Credential
from ledger_engine.access.quotas import LOGS_KEPT_FOR, PLANS
from ledger_engine.core.errors import InvalidRequest, NotFound, StorageUnavailable
from ledger_engine.core.ids import IdSource, first_at
from ledger_engine.core.masking import MASK
from ledger_engine.core.records import Moment
from ledger_engine.core.tenant import Tenant
from ledger_engine.events import request_log
from ledger_engine.events.request_log import BODY_KEPT_MAX, RequestRecorder, SeenRequest
from ledger_engine.store import Work
from ledger_engine.store.engine import Engine
from ledger_engine.store.pages import PageRequest
from tests.ledger_engine.conftest import START, Run
from tests.ledger_engine.core.test_masking import VALUES
from tests.ledger_engine.manual_clock import ManualClock
from tests.ledger_engine.waiting import looked_until

KEY = "sk_test_" + "a" * 28 + "WXYZ"
IDS = IdSource()


def credential(tenant: Tenant) -> Credential:
    return Credential(
        kind="api_key",
        id="key_1",
        user=None,
        project=tenant.project,
        livemode=tenant.livemode,
        role="admin",
        scopes=None,
        plan="enterprise",
        limits=PLANS["enterprise"],
        may_overdraw=True,
        created=Moment(START),
        expires_at=None,
    )


def note(tenant: Tenant, **changed: Any) -> SeenRequest:
    """Return a successful request, with the fields in `changed`."""
    given: dict[str, Any] = {
        "request": IDS.new("req", START),
        "created": START,
        "duration_s": 0.0123456,
        "caller": credential(tenant),
        "method": "POST",
        "path": "/v1/accounts",
        "query": b"a=b",
        "address": "192.0.2.7",
        "authorization": f"Bearer {KEY}".encode(),
        "idempotency_key": b"once",
        "body": b'{"name":"Till"}',
        "status": 201,
        "answer": b'{"id":"acc_1"}',
    }
    return SeenRequest(**given | changed)


async def logged(engine: Engine, tenant: Tenant) -> list[request_log.LoggedRequest]:
    found = await engine.read(lambda unit: request_log.page(unit, tenant, PageRequest(100)))
    return found.items


async def log(engine: Engine, tenant: Tenant, **changed: Any) -> request_log.LoggedRequest:
    """Return the entry of one request."""
    recorder = RequestRecorder(engine)
    recorder.start()
    recorder.note(note(tenant, **changed))
    await recorder.stop()
    return (await logged(engine, tenant))[0]


@pytest.mark.parametrize("method", ["GET", "POST", "PATCH", "DELETE"])
async def test_a_secret_in_the_idempotency_key_is_masked(engine: Engine, tenant: Tenant, method: str) -> None:
    key = f"again {KEY}".encode()
    entry = await log(engine, tenant, idempotency_key=key, method=method, status=400)
    assert entry.idempotency_key == f"again sk_test_{MASK}"


async def test_an_entry_has_the_request_and_its_answer(engine: Engine, tenant: Tenant) -> None:
    entry = await log(engine, tenant)
    assert (entry.method, entry.path, entry.query, entry.status) == ("POST", "/v1/accounts", "a=b", 201)
    assert entry.duration_ms == 12.345
    assert (entry.credential_id, entry.credential) == ("key_1", f"sk_test_{MASK}WXYZ")
    assert (entry.address, entry.idempotency_key, entry.error_code) == ("192.0.2.7", "once", None)
    assert (entry.request_body, entry.response_body) == ('{"name":"Till"}', '{"id":"acc_1"}')
    assert (entry.created, entry.livemode) == (START, False)


async def test_an_entry_has_the_traceparent_of_a_request_that_sent_one(
    engine: Engine, tenant: Tenant
) -> None:
    sent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    assert (await log(engine, tenant, traceparent=sent)).traceparent == sent
    assert (await log(engine, tenant)).traceparent is None


async def test_in_live_mode_no_body_is_kept(engine: Engine, tenant: Tenant) -> None:
    live = Tenant(tenant.project, livemode=True)
    entry = await log(engine, live, status=400, answer=b"{}", error_code="missing_field")
    assert (entry.request_body, entry.response_body, entry.error_code) == (None, None, "missing_field")


async def test_of_a_body_the_first_4_kb_are_kept(engine: Engine, tenant: Tenant) -> None:
    entry = await log(engine, tenant, body=b"x" * 10_000, answer=b"y" * 10_000)
    assert (entry.request_body, entry.response_body) == ("x" * BODY_KEPT_MAX, "y" * BODY_KEPT_MAX)


async def test_of_a_note_that_waits_no_more_is_held_than_will_be_kept(engine: Engine, tenant: Tenant) -> None:
    recorder = RequestRecorder(engine)
    long = 1_000_000
    recorder.note(note(tenant, body=b"x" * long, answer=b"y" * long))
    recorder.note(note(tenant, path="/" * long, query=b"q" * long, idempotency_key=b"k" * long))
    for waiting in recorder._waiting:
        assert len(pickle.dumps(waiting)) < 16_000


async def test_bytes_that_are_no_text_are_kept_as_far_as_they_are(engine: Engine, tenant: Tenant) -> None:
    entry = await log(engine, tenant, body=b"\xff\x00\xc3", answer=b"")
    assert (entry.request_body, entry.response_body) == ("\ufffd\ufffd\ufffd", None)


@pytest.mark.parametrize("secret", VALUES)
async def test_no_secret_reaches_the_database(engine: Engine, tenant: Tenant, secret: str) -> None:
    path, query = f"/v1/accounts/{secret}", f"key={secret}".encode()
    body = json.dumps({"name": secret}).encode()
    await log(engine, tenant, path=path, query=query, body=body, answer=body)
    rows = await engine.read(lambda unit: unit.execute("SELECT * FROM requests"))
    stored = json.dumps([dict(row) for row in rows])
    assert secret not in stored
    assert KEY not in stored


async def test_readings_of_the_log_are_not_logged(engine: Engine, tenant: Tenant) -> None:
    recorder = RequestRecorder(engine)
    recorder.start()
    recorder.note(note(tenant, path="/v1/requests"))
    recorder.note(note(tenant, path="/v1/requests/req_1"))
    recorder.note(note(tenant, status=0))  # nobody was there to take the answer
    await recorder.stop()
    assert await logged(engine, tenant) == []


async def test_stopping_writes_what_waits(engine: Engine, tenant: Tenant) -> None:
    recorder = RequestRecorder(engine)
    recorder.start()
    for _ in range(1000):
        recorder.note(note(tenant))
    await recorder.stop()
    row = await engine.read(lambda unit: unit.first("SELECT count(*) AS entries FROM requests"))
    assert row is not None
    assert (row["entries"], recorder.dropped) == (1000, 0)


async def test_more_than_can_wait_is_dropped_and_counted(
    engine: Engine, tenant: Tenant, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(request_log, "WAITING_MAX", 5)
    recorder = RequestRecorder(engine)
    for _ in range(12):
        recorder.note(note(tenant))
    recorder.start()
    await recorder.stop()
    assert (len(await logged(engine, tenant)), recorder.dropped) == (5, 7)
    assert "7 requests were not logged" in caplog.text


async def test_lost_storage_is_waited_for(
    engine: Engine, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_log, "RETRY_AFTER_S", 0.01)
    real, refused = engine.write, asyncio.Event()

    async def refuse(_: Work[Any]) -> Any:
        refused.set()
        raise StorageUnavailable("the disk is full")

    recorder = RequestRecorder(engine)
    monkeypatch.setattr(engine, "write", refuse)
    recorder.start()
    recorder.note(note(tenant))
    await refused.wait()
    monkeypatch.setattr(engine, "write", real)
    await recorder.stop()
    assert (len(await logged(engine, tenant)), recorder.dropped) == (1, 0)


async def test_requests_of_a_commit_of_unknown_outcome_are_logged_once_with_later_ones(
    engine: Engine, tenant: Tenant, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(request_log, "RETRY_AFTER_S", 0.01)
    real = engine.write
    recorder = RequestRecorder(engine)

    async def write_and_say_nothing(work: Work[Any]) -> Any:
        monkeypatch.setattr(engine, "write", real)
        await real(work)
        recorder.note(note(tenant))
        raise StorageUnavailable("it does not answer", unknown=True)

    monkeypatch.setattr(engine, "write", write_and_say_nothing)
    recorder.note(note(tenant))
    recorder.note(note(tenant))
    recorder.start()
    await looked_until(partial(logged, engine, tenant), lambda found: len(found) == 3 or recorder.dropped)
    await recorder.stop()
    assert (len(await logged(engine, tenant)), recorder.dropped) == (3, 0)
    assert caplog.messages == []


async def test_storage_that_stays_lost_does_not_keep_the_server_from_stopping(
    engine: Engine, tenant: Tenant, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def refuse(_: Work[Any]) -> Any:
        raise StorageUnavailable("the disk is full")

    monkeypatch.setattr(engine, "write", refuse)
    recorder = RequestRecorder(engine)
    recorder.start()
    recorder.note(note(tenant))
    async with asyncio.timeout(30):
        await recorder.stop()
    assert recorder.dropped == 1
    assert caplog.messages == ["1 requests were not logged: the storage is not available"]


async def test_an_entry_that_cannot_be_written_does_not_hold_up_the_next(
    engine: Engine, tenant: Tenant
) -> None:
    recorder = RequestRecorder(engine)
    recorder.start()
    recorder.note(note(Tenant("prj_none", livemode=False)))

    async def dropped() -> int:
        return recorder.dropped

    await looked_until(dropped, lambda count: count == 1)
    recorder.note(note(tenant))
    await recorder.stop()
    assert len(await logged(engine, tenant)) == 1


# The log as it is read


async def test_the_log_is_filtered_by_method_status_and_path(
    engine: Engine, tenant: Tenant, read: Run
) -> None:
    recorder = RequestRecorder(engine)
    recorder.start()
    for method, path, status in (
        ("GET", "/v1/accounts", 200),
        ("POST", "/v1/accounts", 201),
        ("POST", "/v1/accounts", 400),
        ("GET", "/v1/accounts/acc_1", 404),
    ):
        recorder.note(note(tenant, method=method, path=path, status=status))
    await recorder.stop()

    async def statuses(**filters: Any) -> list[int]:
        found = await read(request_log.page, PageRequest(), **filters)
        return [entry.status for entry in found.items]

    assert await statuses() == [404, 400, 201, 200]
    assert await statuses(method="POST") == [400, 201]
    assert await statuses(path="/v1/accounts") == [404, 400, 201, 200], "and what is below it"
    assert await statuses(status=404) == [404]
    assert await statuses(method="POST", path="/v1/accounts", status=201) == [201]
    assert await statuses(status=500) == []


async def test_to_others_a_request_does_not_exist(
    engine: Engine, tenant: Tenant, stranger: Tenant, read: Run
) -> None:
    entry = await log(engine, tenant)
    assert (await read(request_log.get, entry.id)).id == entry.id
    with pytest.raises(NotFound):
        await read(request_log.get, entry.id, by=stranger)
    assert (await read(request_log.page, PageRequest(), by=stranger)).items == []
    with pytest.raises(InvalidRequest):
        await read(request_log.page, PageRequest(after=entry.id, cursor="cursor"), by=stranger)


async def test_an_expired_entry_still_marks_its_place_in_the_list(
    engine: Engine, tenant: Tenant, read: Run, clock: ManualClock
) -> None:
    old = await log(engine, tenant)
    clock.advance(LOGS_KEPT_FOR + 1)
    before = first_at("req", clock.now() - LOGS_KEPT_FOR)
    await engine.write(
        partial(request_log.purge, project=tenant.project, livemode=False, before_id=before, limit=9)
    )
    recent = await log(engine, tenant, request=IdSource().new("req", clock.now()), created=clock.now())
    for filters in ({}, {"method": recent.method}):
        page = await read(request_log.page, PageRequest(after=old.id, cursor="cursor"), **filters)
        assert (page.items, page.has_more) == ([], False)
    for unknown in (first_at("req", clock.now()), first_at("evt", 0), "req_none"):
        with pytest.raises(InvalidRequest):
            await read(request_log.page, PageRequest(after=unknown, cursor="cursor"))


async def test_old_entries_are_purged(engine: Engine, tenant: Tenant, stranger: Tenant) -> None:
    for who, moment in ((tenant, START), (tenant, START + 5000), (stranger, START)):
        await log(engine, who, request=IdSource().new("req", moment), created=moment)
    before = first_at("req", START + 5000)
    purged = await engine.write(lambda unit: request_log.purge(unit, tenant.project, False, before, 100))
    assert purged == 1
    assert [entry.created for entry in await logged(engine, tenant)] == [START + 5000]
    assert len(await logged(engine, stranger)) == 1
