"""Invoices: an invoice asks for one payment, and goes from draft to open to paid or void.

See docs/decisions.md#invoices.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, TypedDict

from ledger_engine.access import idempotency, quotas
from ledger_engine.core.clock import parse_date
from ledger_engine.core.errors import Conflict, InvalidRequest
from ledger_engine.core.ids import AccountId, InvoiceId, TransactionId
from ledger_engine.core.money import MAX_AMOUNT, CurrencyCode
from ledger_engine.core.records import Format, Moment, OneOf, Pattern, dumps
from ledger_engine.core.tenant import Tenant
from ledger_engine.events import outbox
from ledger_engine.ledger import accounts, transactions
from ledger_engine.ledger.accounts import parse_metadata
from ledger_engine.store import Row, Unit, Value, in_one_book, pages
from ledger_engine.store.pages import Listing, Page, PageRequest
from ledger_engine.store.rows import reader, short, update_row

STATUSES = ("draft", "open", "paid", "void")
CUSTOMER_MAX = 255
DESCRIPTION_MAX = 500
LINES_MAX = 100


class InvoiceLine(TypedDict):
    """One line of an invoice: `quantity` times `unit_amount`, in the smallest currency unit."""

    description: str
    quantity: int
    unit_amount: int


@dataclass(slots=True)
class Invoice:
    """An invoice for one payment.

    `account` is credited when the invoice is paid, and the invoice is in the account's `currency`. `amount`
    is the sum of `lines`; `lines` is None for an invoice that was made with an amount. `number` is assigned
    when the invoice is finalized; `transaction` is the payment.
    """

    OBJECT: ClassVar[str] = "invoice"

    id: InvoiceId
    account: AccountId
    customer: str
    currency: CurrencyCode
    amount: int
    lines: list[InvoiceLine] | None
    due_date: Annotated[str, Format("date")] | None
    description: str | None
    metadata: dict[str, str]
    status: Annotated[str, OneOf(*STATUSES)]
    number: Annotated[str, Pattern("^INV-[0-9]{6,}$")] | None
    transaction: TransactionId | None
    opened_at: Moment | None
    paid_at: Moment | None
    voided_at: Moment | None
    created: Moment
    livemode: bool


@dataclass(slots=True)
class NewInvoice:
    """The fields of a new draft. Exactly one of `amount` and `lines` must be set."""

    account: str
    customer: str
    amount: int | None = None
    lines: Sequence[InvoiceLine] | None = None
    due_date: str | None = None
    description: str | None = None
    metadata: dict[str, str] = field(default_factory=dict)


class InvoiceChanges(TypedDict, total=False):
    """The fields of a draft to change, with their new values.

    None clears `due_date`, `description` or `metadata`. An amount replaces the draft's lines, and lines
    replace its amount. `amount` may be None only if the draft has lines, or gets lines here. `lines`
    may be None only if the draft has no lines, or gets an amount here.
    """

    account: str
    customer: str
    amount: int | None
    lines: Sequence[InvoiceLine] | None
    due_date: str | None
    description: str | None
    metadata: dict[str, str] | None


@in_one_book
def create(unit: Unit, tenant: Tenant, new: NewInvoice, key: str | None = None) -> Invoice:
    """Create an invoice as a draft, and return it."""
    id = unit.new_id("inv")
    idempotency.take(unit, tenant, key, id)
    fields = InvoiceChanges(
        account=new.account,
        customer=new.customer,
        amount=new.amount,
        lines=new.lines,
        due_date=new.due_date,
        description=new.description,
        metadata=new.metadata,
    )
    columns = _columns(unit, tenant, fields)
    quotas.count_stored(unit, tenant)
    row = unit.first(
        "INSERT INTO invoices (id, project, livemode, account, customer, currency, amount, lines, due_date,"
        " description, metadata, created)"
        " VALUES (:id, :project, :livemode, :account, :customer, :currency, :amount, :lines, :due_date,"
        " :description, :metadata, :created) RETURNING *",
        tenant.bind(id=id, created=unit.now, **columns),
    )
    return _record_change(unit, tenant, "invoice.created", row)


def get(unit: Unit, tenant: Tenant, id: str) -> Invoice:
    """Return the invoice. Raises NotFound."""
    return _LISTING.get(unit, tenant, id)


def page(
    unit: Unit,
    tenant: Tenant,
    request: PageRequest,
    *,
    status: str | None = None,
    account: str | None = None,
) -> Page[Invoice]:
    """Return a page of the invoices, newest first."""
    if status is not None and status not in STATUSES:
        raise InvalidRequest("invalid_value", f"status must be one of {', '.join(STATUSES)}.", "status")
    return _LISTING.page(unit, tenant, request, {"status": status, "account": account})


@in_one_book
def update(unit: Unit, tenant: Tenant, id: str, changes: InvoiceChanges) -> Invoice:
    """Change the given fields of a draft. If no field is given, nothing changes and no event is recorded.

    If the account changes, the invoice gets the currency of the new account. Raises Conflict
    `invoice_not_draft`.
    """
    invoice = get(unit, tenant, id)
    if invoice.status != "draft":
        raise _not_draft(invoice)
    new_values = changes.copy()
    if not _changes_amount(invoice, changes):
        new_values.pop("amount", None)
        new_values.pop("lines", None)
    if not new_values:
        return invoice
    columns = _columns(unit, tenant, new_values)
    row = update_row(unit, tenant, "invoices", id, "status = 'draft'", **columns)
    return _record_change(unit, tenant, "invoice.updated", row)


@in_one_book
def finalize(unit: Unit, tenant: Tenant, id: str, key: str | None = None) -> Invoice:
    """Open a draft and assign the next number. Raises Conflict `invoice_not_draft`."""
    idempotency.take(unit, tenant, key, id)
    # If the invoice turns out not to be a draft, the rollback of the work also undoes this change of the
    # counter.
    counter = unit.first(
        "INSERT INTO counters (project, livemode, invoice_numbers) VALUES (:project, :livemode, 1)"
        " ON CONFLICT (project, livemode) DO UPDATE SET invoice_numbers = counters.invoice_numbers + 1"
        " RETURNING invoice_numbers",
        tenant.bind(),
    )
    assert counter is not None
    number = f"INV-{counter['invoice_numbers']:06}"
    row = update_row(
        unit, tenant, "invoices", id, "status = 'draft'", status="open", number=number, opened_at=unit.now
    )
    if row is None:
        raise _not_draft(get(unit, tenant, id))
    return _record_change(unit, tenant, "invoice.opened", row)


@in_one_book
def pay(unit: Unit, tenant: Tenant, id: str, key: str | None = None) -> Invoice:
    """Pay an open invoice, and credit its account in the same commit.

    Raises Conflict `invoice_not_open`, and the errors of posting a transaction.
    """
    idempotency.take(unit, tenant, key, id)
    paid_row = update_row(unit, tenant, "invoices", id, "status = 'open'", status="paid", paid_at=unit.now)
    if paid_row is None:
        raise _not_open(get(unit, tenant, id))
    invoice = read(paid_row)
    payment = transactions.post_due(
        unit,
        tenant,
        transactions.NewTransaction(
            account=invoice.account,
            amount=invoice.amount,
            type="credit",
            description=f"Invoice {invoice.number}: {invoice.customer}",
        ),
    )
    idempotency.store_ids(unit, tenant, key, [id, payment.id])
    row = update_row(unit, tenant, "invoices", id, payment=payment.id)
    return _record_change(unit, tenant, "invoice.paid", row)


@in_one_book
def void(unit: Unit, tenant: Tenant, id: str) -> Invoice:
    """Void an open invoice; the invoice stays stored. Raises Conflict `invoice_not_open`."""
    row = update_row(unit, tenant, "invoices", id, "status = 'open'", status="void", voided_at=unit.now)
    if row is None:
        raise _not_open(get(unit, tenant, id))
    return _record_change(unit, tenant, "invoice.voided", row)


def _columns(unit: Unit, tenant: Tenant, fields: InvoiceChanges) -> dict[str, Value]:
    """Return the columns that store the given fields, with their values.

    Raises InvalidRequest for the first field that breaks a rule.
    """
    columns: dict[str, Value] = {}
    if "account" in fields:
        account = accounts.get(unit, tenant, fields["account"], "account")
        columns |= {"account": account.id, "currency": account.currency}
    if "customer" in fields:
        columns["customer"] = customer = fields["customer"]
        if not 1 <= len(customer) <= CUSTOMER_MAX:
            raise InvalidRequest(
                "invalid_value", f"customer must have 1 to {CUSTOMER_MAX} characters.", "customer"
            )
    if "amount" in fields or "lines" in fields:
        columns |= _amount_columns(fields.get("amount"), fields.get("lines"))
    if "due_date" in fields:
        due_date = fields["due_date"]
        columns["due_date"] = None if due_date is None else parse_date(due_date, "due_date")
    if "description" in fields:
        columns["description"] = description = fields["description"]
        if description is not None and len(description) > DESCRIPTION_MAX:
            raise InvalidRequest(
                "invalid_value", f"description has at most {DESCRIPTION_MAX} characters.", "description"
            )
    if "metadata" in fields:
        columns["metadata"] = dumps(parse_metadata(fields["metadata"] or {}))
    return columns


def _changes_amount(invoice: Invoice, changes: InvoiceChanges) -> bool:
    """Return whether the changes concern the amount that is due.

    A caller makes an invoice with either `amount` or `lines`. A change that sets the other field to None has
    no effect, so it does not count as a change of the amount.
    """
    names = [name for name in ("amount", "lines") if name in changes]
    made_of_lines = invoice.lines is not None
    return any(changes.get(name) is not None or (name == "lines") is made_of_lines for name in names)


def _amount_columns(amount: int | None, lines: Sequence[InvoiceLine] | None) -> dict[str, Value]:
    """Return the columns that store the amount and the lines, with their values.

    Raises InvalidRequest for a total of 0 too, because such an invoice could not be paid.
    """
    if amount is not None and lines is not None:
        raise InvalidRequest("invalid_value", "Give amount or lines, not both.", "lines")
    if lines is not None:
        return {"amount": _sum(lines), "lines": dumps(list(lines))}
    if amount is None:
        raise InvalidRequest("missing_field", "Give amount or lines.", "amount")
    if not 1 <= amount <= MAX_AMOUNT:
        raise InvalidRequest("invalid_value", f"amount must be 1 to {MAX_AMOUNT}.", "amount")
    return {"amount": amount, "lines": None}


def _sum(lines: Sequence[InvoiceLine]) -> int:
    """Return the total of the lines. Raises InvalidRequest for a line or a total that breaks a rule."""
    if not 1 <= len(lines) <= LINES_MAX:
        raise InvalidRequest("invalid_value", f"lines must have 1 to {LINES_MAX} items.", "lines")
    for number, line in enumerate(lines):
        prefix = f"lines.{number}."
        if not 1 <= len(line["description"]) <= DESCRIPTION_MAX:
            raise InvalidRequest(
                "invalid_value",
                f"description must have 1 to {DESCRIPTION_MAX} characters.",
                prefix + "description",
            )
        if line["quantity"] < 1:
            raise InvalidRequest("invalid_value", "quantity must be at least 1.", prefix + "quantity")
        if line["unit_amount"] < 0:
            raise InvalidRequest("invalid_value", "unit_amount must be at least 0.", prefix + "unit_amount")
    total = sum(line["quantity"] * line["unit_amount"] for line in lines)
    if not 1 <= total <= MAX_AMOUNT:
        raise InvalidRequest(
            "invalid_value", f"The total of the lines must be from 1 to {MAX_AMOUNT}.", "lines"
        )
    return total


def _not_draft(invoice: Invoice) -> Conflict:
    return Conflict(
        "invoice_not_draft", f"Only a draft can be edited or finalized; {invoice.id} is {invoice.status}."
    )


def _not_open(invoice: Invoice) -> Conflict:
    return Conflict(
        "invoice_not_open", f"Only an open invoice can be paid or voided; {invoice.id} is {invoice.status}."
    )


def _record_change(unit: Unit, tenant: Tenant, kind: str, row: Row | None) -> Invoice:
    """Record the event of a change, and return the changed invoice."""
    assert row is not None, "the work has checked the invoice before the statement"
    invoice = read(row)
    outbox.record(unit, tenant, kind, invoice)
    return invoice


read = reader(Invoice, transaction="payment")
LONG = ("lines", "metadata")
SHORT_COLUMNS = (
    f"id, account, customer, currency, amount, {short('lines', pages.SHORT_MAX)} AS lines, due_date,"
    f" description, {short('metadata', pages.SHORT_MAX)} AS metadata, status, number, payment, opened_at,"
    " paid_at, voided_at, created, livemode"
)
_LISTING: Listing[Invoice] = Listing("invoices", "invoice", read, long=LONG, short_columns=SHORT_COLUMNS)
