"""A difference is explanation_of by kind, and the explanation is proven to add up."""

from __future__ import annotations

from typing import Any

import pytest

from ledger_tui.client.names import AccountNames
from ledger_tui.client.past import difference_row
from ledger_tui.resources.difference import DIFFERENCE, explanation_of, kind_of

AT, LATER = "2026-11-20T10:00:00.000Z", "2026-11-20T11:00:00.000Z"


def posting(amount: int, kind: str = "credit", **fields: Any) -> dict[str, Any]:
    return {"amount": amount, "type": kind, "description": None, "transfer": None, "reverses": None, **fields}


@pytest.mark.parametrize(
    ("transaction", "kind"),
    [
        (posting(1), "takings"),
        (posting(1, "debit"), "payments out"),
        (posting(1, description="Invoice INV-000001: Ada"), "invoices paid"),
        (posting(1, transfer="tra_1"), "transfers in"),
        (posting(1, "debit", transfer="tra_1"), "transfers out"),
        (posting(1, reverses="txn_1"), "reversals"),
    ],
)
def test_a_posting_is_of_a_kind(transaction: dict[str, Any], kind: str) -> None:
    assert kind_of(transaction) == kind


def account(before: int, after: int) -> dict[str, Any]:
    states = ({"name": "Till", "currency": "EUR", "balance": balance} for balance in (before, after))
    then, now = states
    change = {"id": "acc_1", "kind": "account", "before": then, "after": now, "postings": 3}
    return difference_row(change, AT, LATER)


def explanation(row: dict[str, Any], *transactions: dict[str, Any]) -> dict[str, str]:
    assert DIFFERENCE.more is not None
    section = DIFFERENCE.more.sections(row, explanation_of(transactions), AccountNames())[0]
    return {fact.label: fact.value.text for fact in section.facts}


def test_the_sums_of_an_explanation_are_proven_to_be_the_difference() -> None:
    postings = (posting(500), posting(250), posting(100, "debit"))
    assert explanation(account(1000, 1650), *postings) == {
        "takings": "+7.50  2×",
        "payments out": "−1.00  1×",
        "sum": "+6.50  ✓ the difference",
    }
    assert "✕ does not explain the whole difference" in explanation(account(1000, 1651), *postings)["sum"]


def test_a_changed_account_leads_to_its_postings_between_the_two_moments() -> None:
    row = account(1000, 1650)
    detail = DIFFERENCE.detail(row, AccountNames())
    assert detail.links[0].filters == {"account": "acc_1", "created_after": AT, "at": LATER}
    cells = {column.name: column.cell(row, AccountNames()).text for column in DIFFERENCE.columns}
    assert (cells["before"], cells["after"], cells["difference"]) == ("10.00", "16.50", "+6.50 EUR")


def test_a_changed_invoice_shows_its_states_and_what_else_changed() -> None:
    was = {"number": None, "customer": "Ada", "status": "draft", "due_date": None}
    change = {
        "id": "inv_1",
        "kind": "invoice",
        "before": was,
        "after": {**was, "status": "open", "due_date": "x"},
    }
    row = difference_row(change, AT, LATER)
    detail = DIFFERENCE.detail(row, AccountNames())
    facts = {fact.label: fact.value.text for section in detail.sections for fact in section.facts}
    assert (facts["before"], facts["after"], facts["due_date"]) == ("draft", "open", "None → x")
    assert detail.links[0].resource == "invoices"
