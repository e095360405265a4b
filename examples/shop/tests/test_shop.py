"""The shop works when time passes, connections break and webhooks arrive twice."""

from __future__ import annotations

from datetime import timedelta

from ledger_engine.testing import Clock, Faults, Inbox, Ledger, Snapshots
from shop.shop import Shop


def test_an_invoice_becomes_overdue(shop: Shop, ledger_clock: Clock) -> None:
    shop.sell("sale-1", "Café Nord", 12_50, today=ledger_clock.now.date())
    ledger_clock.advance(timedelta(days=14))
    assert shop.overdue(ledger_clock.now.date()) == []
    ledger_clock.advance(timedelta(days=1))
    assert shop.overdue(ledger_clock.now.date()) == ["sale-1"]


def test_the_token_expires_and_the_shop_signs_in_again(shop: Shop, ledger_clock: Clock) -> None:
    assert shop.takings() == 0
    ledger_clock.advance(3601)
    assert shop.takings() == 0


def test_a_cut_connection_makes_exactly_one_invoice(
    shop: Shop, ledger: Ledger, ledger_clock: Clock, ledger_faults: Faults
) -> None:
    cut = ledger_faults.cut("after_commit", method="POST", path="/v1/invoices")
    sold = shop.sell("sale-1", "Café Nord", 12_50, today=ledger_clock.now.date())
    assert cut.hits == 1
    (only,) = ledger.api.get("/v1/invoices").json()["data"]
    assert (only["id"], only["status"]) == (sold["id"], "open")


def test_half_an_answer_and_a_failing_server_are_tried_again(
    shop: Shop, ledger: Ledger, ledger_clock: Clock, ledger_faults: Faults
) -> None:
    ledger_faults.cut("half", path="/v1/invoices*")
    ledger_faults.status(503, path="/v1/invoices*")
    assert shop.sell("sale-1", "Café Nord", 12_50, today=ledger_clock.now.date())["status"] == "open"
    assert len(ledger.api.get("/v1/invoices").json()["data"]) == 1


def test_a_paid_sale_is_shipped_once_though_the_webhook_comes_twice(
    website: Shop, ledger: Ledger, ledger_clock: Clock, ledger_faults: Faults, ledger_inbox: Inbox
) -> None:
    ledger_faults.webhook("duplicate", type="invoice.paid", times=2)
    invoice = website.sell("sale-1", "Café Nord", 12_50, today=ledger_clock.now.date())
    ledger.make(f"/v1/invoices/{invoice['id']}/pay")
    ledger_inbox.wait_for("invoice.paid", count=2)
    ledger_clock.advance(0)  # returns when the server has sent all webhooks that are due
    assert website.shipped == ["sale-1"]
    assert website.takings() == 12_50


def test_a_forged_webhook_ships_nothing_and_the_real_one_follows(
    website: Shop, ledger: Ledger, ledger_clock: Clock, ledger_faults: Faults
) -> None:
    ledger_faults.webhook("corrupt", type="invoice.paid")
    invoice = website.sell("sale-1", "Café Nord", 12_50, today=ledger_clock.now.date())
    ledger.make(f"/v1/invoices/{invoice['id']}/pay")
    ledger_clock.advance(0)
    assert website.shipped == []
    ledger_clock.advance(6)  # the first retry comes after 5 seconds
    assert website.shipped == ["sale-1"]


def test_two_ways_on_from_the_same_sale(
    shop: Shop, ledger: Ledger, ledger_clock: Clock, ledger_snapshots: Snapshots
) -> None:
    invoice = shop.sell("sale-1", "Café Nord", 12_50, today=ledger_clock.now.date())
    ledger_snapshots.take("sold")
    ledger.make(f"/v1/invoices/{invoice['id']}/pay")
    ledger_clock.advance(timedelta(days=30))
    assert shop.overdue(ledger_clock.now.date()) == []
    ledger_snapshots.restore("sold")
    assert shop.takings() == 0
    ledger_clock.advance(timedelta(days=30))
    assert shop.overdue(ledger_clock.now.date()) == ["sale-1"]
