"""Snapshots of the whole ledger, and emptying a project."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from dataclasses import asdict
from pathlib import Path
from typing import Any

import httpx
import pytest

from ledger_client import ledger
from ledger_engine.cli.listening import WebhookListener
from ledger_engine.core.records import Moment
from ledger_engine.core.tenant import Tenant
from ledger_engine.events import outbox
from ledger_engine.sandbox import guard
from ledger_engine.sandbox.clock import MovableClock
from ledger_engine.sandbox.snapshots import EMPTIED_TABLES, KEPT_TABLES, Snapshot, Snapshots
from ledger_engine.store import Unit
from ledger_engine.store.books import condition_on
from ledger_engine.store.pages import PageRequest
from tests import auditing
from tests.helped_server import ROOT, HelpedServer, Owned
from tests.ledger_engine.waiting import looked_until
from tests.receivers import receiving

# Emptying a project


OF_ALL = {"kept_time", "_sqlite_migrations"}
NAMED_BY_OTHERS = {"delivery_attempts", "grants", "oauth_tokens", "sign_ins", "tokens", "books"}


def tables(unit: Unit) -> set[str]:
    rows = unit.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
    return {row["name"] for row in rows}


def rows_of(unit: Unit, tenant: Tenant) -> dict[str, int]:
    counts: dict[str, int] = {}
    for table in EMPTIED_TABLES.keys() - NAMED_BY_OTHERS:
        found = unit.first(f"SELECT count(*) AS n FROM {table} WHERE {condition_on(table)}", tenant.bind())
        assert found is not None
        counts[table] = found["n"]
    return counts


def everything(own: Owned) -> None:
    for type in outbox.KINDS:
        own.helper("events", type=type)
    made = own.made("/v1/webhook_endpoints", url="http://127.0.0.1:9/hook", events=["invoice.paid"])
    own.api.delete(f"/v1/webhook_endpoints/{made['id']}")
    own.made("/v1/webhook_endpoints", url="http://127.0.0.1:9/hook", events=["invoice.paid"])


def test_every_table_is_emptied_or_kept_on_purpose(server: HelpedServer) -> None:
    every = server.wait(server.engine.read(tables))
    assert every - OF_ALL == EMPTIED_TABLES.keys() | set(KEPT_TABLES) | {"seeds"}


def test_nothing_is_left_and_the_key_still_works(server: HelpedServer, own: Owned) -> None:
    token = own.api.post("/v1/auth/token", json={"grant_type": "api_key", "api_key": own.key}).json()
    everything(own)
    own.made(f"{ROOT}/faults", match={"path": "/v1/accounts"}, action={"status": 500})
    deleted = own.helper("reset")
    assert deleted["users"] == 6
    assert min(deleted.values()) > 0
    left = server.wait(server.engine.read(lambda unit: rows_of(unit, own.tenant)))
    # What is asked now is logged again.
    assert {table for table, rows in left.items() if rows} <= {"requests"}
    for path in ("/v1/accounts", "/v1/events", "/api/orders", "/v1/webhook_endpoints", f"{ROOT}/faults"):
        assert own.api.get(path).json()["data"] == []
    assert server.client(token["access_token"]).get("/v1/accounts").status_code == 200
    assert own.helper("events", type="invoice.paid")["objects"][1]["number"] == "INV-000001"
    assert server.wait(server.engine.read(auditing.verify)).fault is None


def test_the_other_mode_and_other_projects_keep_theirs(server: HelpedServer, own: Owned) -> None:
    other = server.owned()
    everything(other)
    live = server.client(server.key(own.tenant.project, "owner", livemode=True))
    account: dict[str, Any] = live.post("/v1/accounts", json={"name": "Till", "currency": "EUR"}).json()
    before = server.wait(server.engine.read(lambda unit: rows_of(unit, other.tenant)))
    own.helper("events", type="invoice.paid")
    own.helper("reset")
    after = server.wait(server.engine.read(lambda unit: rows_of(unit, other.tenant)))
    assert before | {"requests": 0, "deliveries": 0} == after | {"requests": 0, "deliveries": 0}
    assert live.get("/v1/accounts").json()["data"] == [account]


# Snapshots


def sees(own: Owned, *paths: str) -> list[bytes]:
    """Return what the server answers for these paths, byte for byte."""
    return [own.api.get(path).content for path in paths]


def posting(own: Owned, account: str, amount: int = 100) -> dict[str, object]:
    return own.made("/v1/transactions", account=account, amount=amount, type="credit")


def test_a_restored_ledger_answers_byte_for_byte_as_before(server: HelpedServer, own: Owned) -> None:
    account = own.made("/v1/accounts", name="Till", currency="EUR")["id"]
    own.helper("events", type="invoice.paid")
    own.helper("events", type="order.shipped")
    paths = ("/v1/accounts", "/v1/transactions", "/v1/invoices", "/api/users", "/api/orders", "/v1/events")
    snapshot = own.made(f"{ROOT}/snapshots", name="before")
    before = sees(own, *paths, f"/v1/accounts/{account}/statement?from=2020-01-01&to=2100-01-01")
    for number in range(3):
        posting(own, account, 1 + number)
    own.helper("events", type="invoice.paid")
    assert sees(own, *paths) != before[:-1]
    assert own.helper("snapshots/before/restore") == snapshot
    after = sees(own, *paths, f"/v1/accounts/{account}/statement?from=2020-01-01&to=2100-01-01")
    assert after == before
    posted = posting(own, account)
    assert own.api.get("/v1/transactions").json()["data"][0]["id"] == posted["id"]
    assert server.wait(server.engine.read(auditing.verify)).fault is None
    own.api.delete(f"{ROOT}/snapshots/before")


def test_the_clock_goes_back_with_the_ledger(own: Owned) -> None:
    then = own.helper("clock", frozen=True)
    own.made(f"{ROOT}/snapshots", name="frozen")
    own.helper("clock", advance=40 * 86_400)
    own.made("/v1/accounts", name="Later", currency="EUR")
    own.helper("clock", frozen=False)
    own.helper("snapshots/frozen/restore")
    now = own.api.get(f"{ROOT}/clock").json()
    assert (now["now"], now["frozen"]) == (then["now"], True)
    made = [own.made("/v1/accounts", name=f"Till {n}", currency="EUR") for n in range(3)]
    assert made[0]["created"] == then["now"]
    assert made[0]["id"] < made[1]["id"] < made[2]["id"]
    own.helper("clock", frozen=False)
    own.api.delete(f"{ROOT}/snapshots/frozen")


def test_a_token_that_has_expired_since_is_good_again(server: HelpedServer, own: Owned) -> None:
    body = {"grant_type": "api_key", "api_key": own.key}
    token = server.client(own.api.post("/v1/auth/token", json=body).json()["access_token"])
    own.made(f"{ROOT}/snapshots", name="token")
    own.helper("clock", advance=3601)
    assert token.get("/v1/accounts").status_code == 401
    own.helper("snapshots/token/restore")
    assert token.get("/v1/accounts").status_code == 200
    own.api.delete(f"{ROOT}/snapshots/token")


def test_a_key_made_since_is_unknown_at_once_and_a_revoked_one_works_again(
    server: HelpedServer, own: Owned
) -> None:
    old = own.made("/v1/api_keys", role="member")
    own.made(f"{ROOT}/snapshots", name="keys")
    new = own.made("/v1/api_keys", role="member")
    own.api.delete(f"/v1/api_keys/{old['id']}")
    clients = [server.client(each["key"]) for each in (old, new)]
    assert [each.get("/v1/accounts").status_code for each in clients] == [401, 200]
    own.helper("snapshots/keys/restore")
    assert [each.get("/v1/accounts").status_code for each in clients] == [200, 401]
    own.api.delete(f"{ROOT}/snapshots/keys")


def test_a_cursor_of_what_is_gone_is_refused_and_a_stream_ends(own: Owned) -> None:
    own.made(f"{ROOT}/snapshots", name="cursor")
    gone = own.made("/v1/accounts", name="Gone", currency="EUR")
    with own.api.stream("GET", "/v1/events/stream") as stream:
        lines = stream.iter_lines()
        assert next(lines).startswith("id: evt_")
        own.helper("snapshots/cursor/restore")
        assert not [line for line in lines if line.startswith("event: event")], "it ends, with no event"
    refused = own.api.get("/v1/accounts", params={"starting_after": gone["id"]})
    assert refused.json()["error"]["code"] == "invalid_cursor"
    with own.api.stream("GET", "/v1/events/stream") as stream:
        assert next(stream.iter_lines()).startswith("id: evt_")
    own.api.delete(f"{ROOT}/snapshots/cursor")


async def test_webhooks_go_on_from_where_the_ledger_is(own: Owned) -> None:
    async with receiving() as receiver:
        await asyncio.to_thread(
            own.made, "/v1/webhook_endpoints", url=receiver.url, events=["account.created"]
        )
        await asyncio.to_thread(own.made, f"{ROOT}/snapshots", name="hooks")
        await asyncio.to_thread(own.made, "/v1/accounts", name="Undone", currency="EUR")
        await receiver.until_received(1)
        await asyncio.to_thread(own.helper, "snapshots/hooks/restore")
        again = await asyncio.to_thread(own.made, "/v1/accounts", name="Again", currency="EUR")
        await receiver.until_received(2)
        assert again["id"].encode() in receiver.received[1].body
        await asyncio.to_thread(own.api.delete, f"{ROOT}/snapshots/hooks")


def test_requests_under_way_end_before_it_or_fail_cleanly(server: HelpedServer, own: Owned) -> None:
    account = own.made("/v1/accounts", name="Till", currency="EUR")["id"]
    own.made(f"{ROOT}/snapshots", name="busy")
    answers: list[int] = []
    stop = threading.Event()

    def post_on() -> None:
        with server_client(own) as api:
            while not stop.is_set():
                body = {"account": account, "amount": 5, "type": "credit"}
                answers.append(api.post("/v1/transactions", json=body).status_code)

    def server_client(own: Owned) -> httpx.Client:
        return httpx.Client(base_url=own.api.base_url, headers=own.api.headers)

    threads = [threading.Thread(target=post_on) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(3):
        own.helper("snapshots/busy/restore")
    stop.set()
    for thread in threads:
        thread.join()
    assert set(answers) == {201}
    assert server.wait(server.engine.read(auditing.verify)).fault is None
    own.api.delete(f"{ROOT}/snapshots/busy")


def test_snapshots_are_listed_and_deleted_with_their_files(server: HelpedServer, own: Owned) -> None:
    folder = server.database.with_name("ledger.db.snapshots")
    others = set(folder.iterdir()) if folder.exists() else set()
    made = [own.made(f"{ROOT}/snapshots", name=name) for name in ("one", "two")]
    assert all(each["id"].startswith("snp_") for each in made)
    assert {file.stat().st_mode & 0o77 for file in folder.glob("*.db")} == {0}
    assert os.stat(folder).st_mode & 0o77 == 0
    listed = own.api.get(f"{ROOT}/snapshots", params={"limit": 1}).json()
    assert (listed["data"], listed["has_more"]) == ([made[1]], True)
    assert own.api.post(f"{ROOT}/snapshots", json={"name": "one"}).json()["error"]["param"] == "name"
    for each in made:
        assert own.api.delete(f"{ROOT}/snapshots/{each['name']}").json() == each
    assert set(folder.iterdir()) == others
    assert own.api.post(f"{ROOT}/snapshots/one/restore").status_code == 404
    assert own.api.delete(f"{ROOT}/snapshots/one").status_code == 404


@pytest.mark.parametrize("name", ["", "../up", ".hidden", "a b", "ü", "x" * 65])
def test_a_name_that_is_none_is_refused(own: Owned, name: str) -> None:
    refused = own.api.post(f"{ROOT}/snapshots", json={"name": name})
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "name")


def test_snapshots_and_the_time_outlast_the_server(tmp_path: Path) -> None:
    database = tmp_path / "ledger.db"
    with HelpedServer(database) as first:
        own = first.owned()
        own.made(f"{ROOT}/snapshots", name="kept")
        own.made("/v1/accounts", name="Till", currency="EUR")
        own.helper("clock", advance=40 * 86_400)
        shown = own.api.get(f"{ROOT}/clock").json()
        key = own.key
    with HelpedServer(database) as second:
        api = second.client(key)
        assert api.get(f"{ROOT}/clock").json()["now"] > shown["now"]
        assert api.get("/api/health").json()["notice"] is None
        assert len(api.get("/v1/accounts").json()["data"]) == 1
        assert api.post(f"{ROOT}/snapshots/kept/restore").status_code == 200
        assert api.get("/v1/accounts").json()["data"] == []
        assert api.get(f"{ROOT}/clock").json()["offset_ms"] < 86_400_000


@pytest.mark.parametrize("known", ["", "{}", '{"mark": 7}', None])
def test_a_snapshot_whose_files_are_damaged_is_not_listed_and_stops_no_server(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, known: str | None
) -> None:
    database = tmp_path / "ledger.db"
    whole = Snapshot("snp_1", "sound", 4, Moment(0), livemode=False)
    folder = tmp_path / "ledger.db.snapshots"
    folder.mkdir()
    stored = {"snapshot": asdict(whole), "clock": asdict(MovableClock().state()), "mark": [0, 0]}
    for name, text in (
        ("snp_1", json.dumps(stored)),
        ("snp_2", json.dumps(stored) if known is None else known),
    ):
        (folder / f"{name}.json").write_text(text, encoding="utf-8")
    for name in ("snp_1", *([] if known is None else ["snp_2"])):
        (folder / f"{name}.db").touch()
    listed = Snapshots(database).page(PageRequest(10)).items
    assert [snapshot.name for snapshot in listed] == ["sound"]
    assert "snp_2.json cannot be read" in caplog.text


def test_a_snapshot_that_is_damaged_leaves_the_ledger_as_it_is(server: HelpedServer, own: Owned) -> None:
    made = own.made(f"{ROOT}/snapshots", name="damaged")
    account = own.made("/v1/accounts", name="Till", currency="EUR")
    (server.database.with_name("ledger.db.snapshots") / f"{made['id']}.db").write_bytes(b"no database" * 1000)
    refused = own.api.post(f"{ROOT}/snapshots/damaged/restore")
    assert (refused.status_code, refused.json()["error"]["code"]) == (503, "storage_unavailable")
    assert own.api.get("/v1/accounts").json()["data"] == [account]
    own.made("/v1/accounts", name="Next", currency="EUR")
    own.api.delete(f"{ROOT}/snapshots/damaged")


def test_a_request_that_is_not_waited_for_fails_cleanly(own: Owned, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "PATIENCE_S", 0.01)
    own.made(f"{ROOT}/snapshots", name="slow")
    own.made(f"{ROOT}/faults", action={"delay_ms": 1500}, match={"path": "/v1/accounts"}, times=1)
    answers: list[httpx.Response] = []
    with httpx.Client(base_url=own.api.base_url, headers=own.api.headers) as other:
        thread = threading.Thread(target=lambda: answers.append(other.get("/v1/accounts")))
        thread.start()
        while not own.api.get(f"{ROOT}/faults").json()["data"][0]["hits"]:
            pass
        own.helper("snapshots/slow/restore")
        thread.join()
    assert [(each.status_code, each.json()["error"]["code"]) for each in answers] == [
        (503, "storage_unavailable")
    ]
    assert own.api.get("/v1/accounts").status_code == 200
    own.api.delete(f"{ROOT}/faults")
    own.api.delete(f"{ROOT}/snapshots/slow")


async def test_a_listener_goes_on_with_the_next_events(own: Owned, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger, "RECONNECTS_S", (0.01,))
    lines: list[str] = []

    async def until(text: str) -> None:
        async def look() -> bool:
            return any(text in line for line in lines)

        await looked_until(look, bool)

    async with receiving() as receiver:
        await asyncio.to_thread(own.made, f"{ROOT}/snapshots", name="listened")
        url = str(own.api.base_url).rstrip("/")
        task = asyncio.create_task(
            WebhookListener(url, own.key, receiver.url, "whsec_dGVzdA==", lines.append).run()
        )
        await until("whsec_")
        await asyncio.to_thread(own.made, "/v1/accounts", name="Gone", currency="EUR")
        await receiver.until_received(1)
        await asyncio.to_thread(own.helper, "snapshots/listened/restore")
        await until("Connected again.")
        await asyncio.to_thread(own.made, "/v1/accounts", name="Next", currency="EUR")
        await receiver.until_received(2)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert b"Next" in receiver.received[1].body
    assert any("the server no longer stores the event evt_" in line for line in lines)
    await asyncio.to_thread(own.api.delete, f"{ROOT}/snapshots/listened")


def test_requests_begun_before_are_not_held_against_the_turnstile(server: HelpedServer, own: Owned) -> None:
    """A restore waits for requests, and requests wait for it: both end."""
    own.made(f"{ROOT}/snapshots", name="turn")
    with httpx.Client(base_url=own.api.base_url, headers=own.api.headers) as other:
        own.made(f"{ROOT}/faults", action={"delay_ms": 100}, match={"path": "/v1/accounts"})
        answered: list[int] = []
        thread = threading.Thread(target=lambda: answered.append(other.get("/v1/accounts").status_code))
        thread.start()
        own.helper("snapshots/turn/restore")
        thread.join()
    assert answered == [200]
    own.api.delete(f"{ROOT}/faults")
    own.api.delete(f"{ROOT}/snapshots/turn")
