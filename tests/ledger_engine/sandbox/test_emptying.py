"""A reset: nothing is left of one project and mode, and everything of all others."""

from __future__ import annotations

from typing import Any

from ledger_engine.core.tenant import Tenant
from ledger_engine.events import outbox
from ledger_engine.sandbox.emptying import EMPTIED, KEPT
from ledger_engine.store import Unit
from ledger_engine.store.books import condition_on
from tests import auditing
from tests.helped_server import ROOT, HelpedServer, Owned

OF_ALL = {"kept_time", "_sqlite_migrations"}
NAMED_BY_OTHERS = {"delivery_attempts", "grants", "oauth_tokens", "sign_ins", "tokens", "books"}


def tables(unit: Unit) -> set[str]:
    rows = unit.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
    return {row["name"] for row in rows}


def rows_of(unit: Unit, tenant: Tenant) -> dict[str, int]:
    counts: dict[str, int] = {}
    for table in EMPTIED.keys() - NAMED_BY_OTHERS:
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
    assert every - OF_ALL == EMPTIED.keys() | set(KEPT) | {"seeds"}


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
