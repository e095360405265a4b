"""Invoices in the engine: drafts, numbers, payments, and who wins when several act at once."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from ledger_engine.core.errors import Conflict, DuplicateIdempotencyKey
from ledger_engine.core.money import MAX_AMOUNT
from ledger_engine.core.records import as_json
from ledger_engine.core.tenant import Tenant
from ledger_engine.ledger import accounts, invoices, transactions
from ledger_engine.ledger.accounts import Account, NewAccount
from ledger_engine.ledger.invoices import Invoice, InvoiceLine, NewInvoice
from ledger_engine.ledger.transactions import NewTransaction
from ledger_engine.store.pages import PageRequest
from tests.ledger_engine.conftest import Run
from tests.ledger_engine.manual_clock import ManualClock
from tests.ledger_engine.refusals import read_through, refusal


def line(quantity: int = 1, unit_amount: int = 100, description: str = "Beans") -> InvoiceLine:
    return {"description": description, "quantity": quantity, "unit_amount": unit_amount}


@pytest.fixture
async def sales(write: Run) -> Account:
    return await write(accounts.create, NewAccount("Sales", "EUR", {}))


@pytest.fixture
async def dollars(write: Run) -> Account:
    return await write(accounts.create, NewAccount("Sales in dollars", "USD", {}))


@pytest.fixture
async def draft(write: Run, sales: Account) -> Invoice:
    return await write(invoices.create, NewInvoice(sales.id, "Café Nord", amount=900))


@pytest.fixture
async def opened(write: Run, draft: Invoice) -> Invoice:
    return await write(invoices.finalize, draft.id)


@pytest.fixture
def in_status(write: Run, sales: Account) -> Run:
    """Make an invoice in the status."""

    async def make(status: str) -> Invoice:
        invoice = await write(invoices.create, NewInvoice(sales.id, "Café Nord", amount=900))
        if status != "draft":
            invoice = await write(invoices.finalize, invoice.id)
        if status == "paid":
            invoice = await write(invoices.pay, invoice.id)
        if status == "void":
            invoice = await write(invoices.void, invoice.id)
        assert invoice.status == status
        return invoice

    return make


# Drafts


async def test_an_invoice_begins_as_a_draft_without_a_number(write: Run, read: Run, sales: Account) -> None:
    new = NewInvoice(sales.id, "Café Nord", 900, None, "2026-12-31", "October", {"order": "7"})
    draft = await write(invoices.create, new)
    assert (draft.status, draft.number, draft.transaction) == ("draft", None, None)
    assert (draft.opened_at, draft.paid_at, draft.voided_at) == (None, None, None)
    assert (draft.account, draft.currency, draft.amount, draft.lines) == (sales.id, "EUR", 900, None)
    assert (draft.due_date, draft.description, draft.metadata) == ("2026-12-31", "October", {"order": "7"})
    assert await read(invoices.get, draft.id) == draft


async def test_the_amount_is_the_sum_of_the_lines(write: Run, read: Run, sales: Account) -> None:
    lines = [line(3, 250), line(1, 0, "Sample"), line(10, 99)]
    draft = await write(invoices.create, NewInvoice(sales.id, "Café Nord", lines=lines))
    assert draft.amount == 3 * 250 + 990
    assert (await read(invoices.get, draft.id)).lines == lines


async def test_an_invoice_has_up_to_100_lines_and_the_largest_amount(write: Run, sales: Account) -> None:
    most = await write(invoices.create, NewInvoice(sales.id, "C", lines=[line()] * 100))
    assert most.amount == 10_000
    largest = await write(invoices.create, NewInvoice(sales.id, "C", lines=[line(1, MAX_AMOUNT)]))
    assert largest.amount == MAX_AMOUNT
    assert (await write(invoices.create, NewInvoice(sales.id, "C", amount=MAX_AMOUNT))).amount == MAX_AMOUNT


@pytest.mark.parametrize(
    ("wrong", "code", "param"),
    [
        ({"customer": ""}, "invalid_value", "customer"),
        ({"customer": "x" * 256}, "invalid_value", "customer"),
        ({"amount": None}, "missing_field", "amount"),
        ({"amount": 0}, "invalid_value", "amount"),
        ({"amount": -1}, "invalid_value", "amount"),
        ({"amount": MAX_AMOUNT + 1}, "invalid_value", "amount"),
        ({"lines": [line()]}, "invalid_value", "lines"),
        ({"amount": None, "lines": []}, "invalid_value", "lines"),
        ({"amount": None, "lines": [line()] * 101}, "invalid_value", "lines"),
        ({"amount": None, "lines": [line(1, 0)]}, "invalid_value", "lines"),
        ({"amount": None, "lines": [line(2, MAX_AMOUNT)]}, "invalid_value", "lines"),
        ({"amount": None, "lines": [line(), line(0)]}, "invalid_value", "lines.1.quantity"),
        ({"amount": None, "lines": [line(), line(1, -1)]}, "invalid_value", "lines.1.unit_amount"),
        ({"amount": None, "lines": [line(description="")]}, "invalid_value", "lines.0.description"),
        ({"amount": None, "lines": [line(description="x" * 501)]}, "invalid_value", "lines.0.description"),
        ({"due_date": "2026-02-30"}, "invalid_value", "due_date"),
        ({"due_date": "31.12.2026"}, "invalid_value", "due_date"),
        ({"due_date": "2026-12-31T00:00:00Z"}, "invalid_value", "due_date"),
        ({"description": "x" * 501}, "invalid_value", "description"),
        ({"metadata": {"k" * 65: ""}}, "invalid_value", "metadata"),
        ({"account": "acc_x"}, "not_found", "account"),
    ],
)
async def test_an_invoice_that_breaks_a_rule_is_refused(
    write: Run,
    read: Run,
    sales: Account,
    recorded: Run,
    stored_objects: Run,
    wrong: dict[str, Any],
    code: str,
    param: str,
) -> None:
    new = replace(NewInvoice(sales.id, "Café Nord", amount=900), **wrong)
    assert await refusal(write(invoices.create, new, "key-1")) == (code, param)
    assert (await read(invoices.page, PageRequest())).items == []
    assert await recorded("invoice.created") == []
    assert await stored_objects() == 1
    await write(invoices.create, NewInvoice(sales.id, "Café Nord", amount=900), "key-1")


async def test_another_projects_or_modes_account_cannot_be_invoiced(
    write: Run, sales: Account, stranger: Tenant
) -> None:
    new = NewInvoice(sales.id, "Café Nord", amount=900)
    assert await refusal(write(invoices.create, new, by=stranger)) == ("not_found", "account")


# Changes


async def test_only_the_fields_sent_are_changed(write: Run, read: Run, sales: Account) -> None:
    new = NewInvoice(sales.id, "Café Nord", 900, None, "2026-12-31", "October", {"order": "7"})
    draft = await write(invoices.create, new)
    changed = await write(invoices.update, draft.id, {"customer": "Café Süd"})
    assert changed == replace(draft, customer="Café Süd")
    assert await read(invoices.get, draft.id) == changed


@pytest.mark.parametrize(("field", "cleared"), [("due_date", None), ("description", None), ("metadata", {})])
async def test_an_optional_field_sent_as_null_is_cleared(
    write: Run, sales: Account, field: str, cleared: object
) -> None:
    new = NewInvoice(sales.id, "Café Nord", 900, None, "2026-12-31", "October", {"order": "7"})
    draft = await write(invoices.create, new)
    changed = await write(invoices.update, draft.id, {field: None})
    assert changed == replace(draft, **{field: cleared})


async def test_metadata_sent_replaces_the_old(write: Run, sales: Account) -> None:
    draft = await write(invoices.create, NewInvoice(sales.id, "C", 900, metadata={"a": "1", "b": "2"}))
    changed = await write(invoices.update, draft.id, {"metadata": {"b": "3"}})
    assert changed.metadata == {"b": "3"}


async def test_another_account_brings_its_currency(write: Run, draft: Invoice, dollars: Account) -> None:
    changed = await write(invoices.update, draft.id, {"account": dollars.id})
    assert (changed.account, changed.currency, changed.amount) == (dollars.id, "USD", 900)


async def test_an_amount_takes_the_place_of_lines_and_lines_that_of_an_amount(
    write: Run, draft: Invoice
) -> None:
    changed = await write(invoices.update, draft.id, {"lines": [line(2, 30)]})
    assert (changed.amount, changed.lines) == (60, [line(2, 30)])
    changed = await write(invoices.update, draft.id, {"amount": 5})
    assert (changed.amount, changed.lines) == (5, None)
    changed = await write(invoices.update, draft.id, {"amount": None, "lines": [line(2, 30)]})
    assert (changed.amount, changed.lines) == (60, [line(2, 30)])
    changed = await write(invoices.update, draft.id, {"amount": 7, "lines": None})
    assert (changed.amount, changed.lines) == (7, None)


@pytest.mark.parametrize(
    ("changes", "code", "param"),
    [
        ({"amount": 5, "lines": [line()]}, "invalid_value", "lines"),
        ({"amount": None}, "missing_field", "amount"),
        ({"amount": None, "lines": None}, "missing_field", "amount"),
        ({"amount": 0}, "invalid_value", "amount"),
        ({"lines": [line(0)]}, "invalid_value", "lines.0.quantity"),
        ({"customer": ""}, "invalid_value", "customer"),
        ({"account": "acc_x"}, "not_found", "account"),
        ({"due_date": "soon"}, "invalid_value", "due_date"),
        ({"description": "x" * 501}, "invalid_value", "description"),
        ({"metadata": {"": "x"}}, "invalid_value", "metadata"),
    ],
)
async def test_a_change_that_breaks_a_rule_changes_nothing(
    write: Run,
    read: Run,
    draft: Invoice,
    recorded: Run,
    changes: dict[str, Any],
    code: str,
    param: str,
) -> None:
    attempt = write(invoices.update, draft.id, {"customer": "New", **changes})
    assert await refusal(attempt) == (code, param)
    assert await read(invoices.get, draft.id) == draft
    assert await recorded("invoice.updated") == []


async def test_to_clear_what_the_sum_is_not_made_of_is_no_change(
    write: Run, read: Run, draft: Invoice, sales: Account, recorded: Run
) -> None:
    assert await write(invoices.update, draft.id, {"lines": None}) == draft
    of_lines = await write(invoices.create, NewInvoice(sales.id, "C", lines=[line(2, 30)]))
    assert await write(invoices.update, of_lines.id, {"amount": None}) == of_lines
    assert await recorded("invoice.updated") == []
    assert await refusal(write(invoices.update, of_lines.id, {"lines": None})) == ("missing_field", "amount")
    renamed = await write(invoices.update, of_lines.id, {"customer": "D", "amount": None})
    assert renamed == replace(of_lines, customer="D")


async def test_no_field_is_no_change_and_no_event(write: Run, draft: Invoice, recorded: Run) -> None:
    assert await write(invoices.update, draft.id, {}) == draft
    assert await recorded("invoice.updated") == []


@pytest.mark.parametrize("status", ["open", "paid", "void"])
@pytest.mark.parametrize("changes", [{}, {"customer": "New"}, {"account": "acc_x"}])
async def test_only_a_draft_can_be_edited(
    write: Run, read: Run, in_status: Run, status: str, changes: dict[str, Any]
) -> None:
    invoice = await in_status(status)
    assert (await refusal(write(invoices.update, invoice.id, changes)))[0] == "invoice_not_draft"
    assert await read(invoices.get, invoice.id) == invoice


# From state to state


async def test_finalizing_opens_a_draft_and_numbers_it(
    write: Run, draft: Invoice, clock: ManualClock
) -> None:
    clock.advance(5)
    opened = await write(invoices.finalize, draft.id)
    assert opened == replace(draft, status="open", number="INV-000001", opened_at=clock.now())


async def test_paying_credits_the_account_in_the_same_commit(
    write: Run, read: Run, opened: Invoice, clock: ManualClock, recorded: Run, stored_objects: Run
) -> None:
    clock.advance(5)
    before = await stored_objects()
    paid = await write(invoices.pay, opened.id)
    [payment] = (await read(transactions.page, PageRequest())).items
    assert paid == replace(opened, status="paid", transaction=payment.id, paid_at=clock.now())
    assert (payment.account, payment.amount, payment.type) == (opened.account, 900, "credit")
    assert payment.description == "Invoice INV-000001: Café Nord"
    assert (await read(accounts.get, opened.account)).balance == 900
    assert await stored_objects() == before + 1
    assert [event["type"] for event in (await recorded())[-2:]] == ["transaction.created", "invoice.paid"]


async def test_voiding_keeps_the_invoice_and_its_number(
    write: Run, read: Run, opened: Invoice, clock: ManualClock
) -> None:
    clock.advance(5)
    voided = await write(invoices.void, opened.id)
    assert voided == replace(opened, status="void", voided_at=clock.now())
    assert await read(invoices.get, opened.id) == voided


@pytest.mark.parametrize(
    ("action", "status", "code"),
    [
        (invoices.finalize, "open", "invoice_not_draft"),
        (invoices.finalize, "paid", "invoice_not_draft"),
        (invoices.finalize, "void", "invoice_not_draft"),
        (invoices.pay, "draft", "invoice_not_open"),
        (invoices.pay, "paid", "invoice_not_open"),
        (invoices.pay, "void", "invoice_not_open"),
        (invoices.void, "draft", "invoice_not_open"),
        (invoices.void, "paid", "invoice_not_open"),
        (invoices.void, "void", "invoice_not_open"),
    ],
)
async def test_a_move_its_state_forbids_is_a_conflict_and_changes_nothing(
    write: Run, read: Run, in_status: Run, recorded: Run, action: Any, status: str, code: str
) -> None:
    invoice = await in_status(status)
    before = await recorded()
    assert await refusal(write(action, invoice.id)) == (code, None)
    assert await read(invoices.get, invoice.id) == invoice
    assert await recorded() == before


@pytest.mark.parametrize("action", [invoices.get, invoices.finalize, invoices.pay, invoices.void])
async def test_another_projects_or_modes_invoice_does_not_exist(
    write: Run, read: Run, in_status: Run, stranger: Tenant, action: Any
) -> None:
    for status in ("draft", "open"):
        invoice = await in_status(status)
        assert await refusal(write(action, invoice.id, by=stranger)) == ("not_found", None)
        attempt = write(invoices.update, invoice.id, {"customer": "New"}, by=stranger)
        assert await refusal(attempt) == ("not_found", None)
        assert await read(invoices.get, invoice.id) == invoice
    assert (await read(invoices.page, PageRequest(), by=stranger)).items == []


async def test_numbers_have_no_gaps_whatever_was_refused_in_between(
    write: Run, in_status: Run, sales: Account
) -> None:
    first = await in_status("void")
    drafts = [await in_status("draft") for _ in range(2)]
    await refusal(write(invoices.finalize, first.id))
    await refusal(write(invoices.finalize, "inv_x"))
    await write(accounts.create, NewAccount("Other", "EUR", {}), "key-1")
    await refusal(write(invoices.finalize, drafts[0].id, "key-1"))
    opened = [await write(invoices.finalize, draft.id) for draft in drafts[::-1]]
    assert [invoice.number for invoice in (first, *opened)] == ["INV-000001", "INV-000002", "INV-000003"]


async def test_each_project_and_mode_counts_its_own_numbers(
    write: Run, opened: Invoice, stranger: Tenant
) -> None:
    account = await write(accounts.create, NewAccount("Sales", "EUR", {}), by=stranger)
    theirs = await write(invoices.create, NewInvoice(account.id, "C", amount=1), by=stranger)
    assert (await write(invoices.finalize, theirs.id, by=stranger)).number == opened.number == "INV-000001"


async def test_numbers_go_on_beyond_six_digits(
    write: Run, draft: Invoice, tenant: Tenant, engine: Any
) -> None:
    await engine.write(
        lambda unit: unit.execute(
            "UPDATE counters SET invoice_numbers = 999999 WHERE project = :project",
            {"project": tenant.project},
        )
    )
    assert (await write(invoices.finalize, draft.id)).number == "INV-1000000"


async def test_a_payment_keeps_to_the_rules_of_a_posting(
    write: Run, read: Run, opened: Invoice, tenant: Tenant, stored_objects: Run
) -> None:
    full = replace(tenant, quota=await stored_objects())
    assert (await refusal(write(invoices.pay, opened.id, "key-1", by=full)))[0] == "quota_exceeded"
    assert await read(invoices.get, opened.id) == opened
    await write(transactions.post, NewTransaction(opened.account, MAX_AMOUNT, "credit"))
    # The request has no amount that could be at fault.
    assert await refusal(write(invoices.pay, opened.id, "key-1")) == ("balance_out_of_range", None)
    assert await read(invoices.get, opened.id) == opened
    await write(transactions.post, NewTransaction(opened.account, MAX_AMOUNT, "debit"))
    assert (await write(invoices.pay, opened.id, "key-1")).status == "paid"


async def test_reversing_the_payment_leaves_the_invoice_paid(write: Run, read: Run, in_status: Run) -> None:
    paid = await in_status("paid")
    await write(transactions.reverse, paid.transaction)
    assert await read(invoices.get, paid.id) == paid


async def test_each_step_is_an_event_with_the_invoice_as_it_was(
    write: Run, draft: Invoice, in_status: Run, recorded: Run
) -> None:
    changed = await write(invoices.update, draft.id, {"customer": "Café Süd"})
    opened = await write(invoices.finalize, draft.id)
    paid = await write(invoices.pay, draft.id)
    steps = [event for event in await recorded() if event["type"].startswith("invoice.")]
    assert [event["type"].partition(".")[2] for event in steps] == ["created", "updated", "opened", "paid"]
    shown = [event["data"]["object"] for event in steps]
    assert shown == [as_json(invoice) for invoice in (draft, changed, opened, paid)]
    voided = await in_status("void")
    [event] = await recorded("invoice.voided")
    assert event["data"]["object"] == as_json(voided)


# Keys and races


async def test_a_key_stands_for_one_step_and_names_the_invoice(write: Run, draft: Invoice) -> None:
    await write(invoices.finalize, draft.id, "key-1")
    for attempt in (write(invoices.finalize, draft.id, "key-1"), write(invoices.pay, draft.id, "key-1")):
        with pytest.raises(DuplicateIdempotencyKey) as refused:
            await attempt
        assert refused.value.original == draft.id
    await write(invoices.pay, draft.id, "key-2")


async def test_a_step_that_was_refused_takes_no_key(write: Run, draft: Invoice) -> None:
    await refusal(write(invoices.pay, draft.id, "key-1"))
    await write(invoices.finalize, draft.id, "key-1")


async def test_twelve_payments_at_once_are_one(write: Run, read: Run, opened: Invoice, recorded: Run) -> None:
    attempt = (write(invoices.pay, opened.id, f"key-{number}") for number in range(12))
    answers = await asyncio.gather(*attempt, return_exceptions=True)
    assert Counter(type(answer) for answer in answers) == {Invoice: 1, Conflict: 11}
    assert {answer.code for answer in answers if isinstance(answer, Conflict)} == {"invoice_not_open"}
    assert (await read(accounts.get, opened.account)).balance == 900
    assert len(await recorded("invoice.paid")) == 1


async def test_of_a_payment_and_a_void_at_once_one_wins(write: Run, read: Run, in_status: Run) -> None:
    balance = 0
    for first, second in [(invoices.pay, invoices.void), (invoices.void, invoices.pay)] * 3:
        opened = await in_status("open")
        attempt = [write(first, opened.id), write(second, opened.id)]
        answers = await asyncio.gather(*attempt, return_exceptions=True)
        [won] = [answer for answer in answers if isinstance(answer, Invoice)]
        balance += 900 if won.status == "paid" else 0
        assert await read(invoices.get, opened.id) == won
        assert (await read(accounts.get, opened.account)).balance == balance


async def test_parallel_finalizes_give_each_invoice_one_number(write: Run, in_status: Run) -> None:
    drafts = [await in_status("draft") for _ in range(10)]
    attempt = (write(invoices.finalize, draft.id) for draft in drafts for _ in range(3))
    answers = await asyncio.gather(*attempt, return_exceptions=True)
    numbers = sorted(answer.number for answer in answers if isinstance(answer, Invoice))
    assert numbers == [f"INV-{number:06}" for number in range(1, 11)]
    assert Counter(type(answer) for answer in answers) == {Invoice: 10, Conflict: 20}


@pytest.mark.parametrize("edit_first", [True, False])
async def test_of_an_edit_and_a_finalize_at_once_the_order_decides(
    write: Run, read: Run, draft: Invoice, edit_first: bool
) -> None:
    edit, finalize = write(invoices.update, draft.id, {"amount": 5}), write(invoices.finalize, draft.id)
    attempt = (edit, finalize) if edit_first else (finalize, edit)
    answers = await asyncio.gather(*attempt, return_exceptions=True)
    kept = await read(invoices.get, draft.id)
    assert (kept.status, kept.amount) == ("open", 5 if edit_first else 900)
    assert [isinstance(answer, Conflict) for answer in answers] == [False, not edit_first]


# Lists


@pytest.mark.parametrize("status", [None, "draft", "open", "paid", "void"])
@pytest.mark.parametrize("own_account", [False, True])
async def test_invoices_are_listed_by_status_and_account(
    write: Run, read: Run, dollars: Account, in_status: Run, status: str | None, own_account: bool
) -> None:
    made = [await in_status(each) for each in ("draft", "open", "paid", "void", "draft", "open")]
    made.append(await write(invoices.create, NewInvoice(dollars.id, "C", amount=1)))
    account = made[0].account if own_account else None
    wanted = [i for i in made[::-1] if status in (None, i.status) and account in (None, i.account)]
    listed = partial(read, invoices.page, status=status, account=account)
    assert await read_through(listed) == wanted


async def test_a_bad_status_is_refused(read: Run) -> None:
    assert await refusal(read(invoices.page, PageRequest(), status="overdue")) == ("invalid_value", "status")
