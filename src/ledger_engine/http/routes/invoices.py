"""Routes of invoices."""

from __future__ import annotations

from typing import Annotated, Any, Literal, cast

from pydantic import Field

from ledger_engine.core.money import MAX_AMOUNT
from ledger_engine.http.bodies import Body, Metadata
from ledger_engine.http.lists import AccountField, LedgerList, LookingBack
from ledger_engine.http.operations import Call, Routes, StreamedAnswer
from ledger_engine.ledger import invoices, past
from ledger_engine.ledger.invoices import Invoice, InvoiceChanges
from ledger_engine.store.pages import Page

routes = Routes("invoices", "/v1")

Amount = Annotated[int, Field(ge=1, le=MAX_AMOUNT)]
Customer = Annotated[str, Field(min_length=1, max_length=invoices.CUSTOMER_MAX)]
Description = Annotated[str, Field(max_length=invoices.DESCRIPTION_MAX)]


class InvoiceLine(Body):
    description: Annotated[str, Field(min_length=1, max_length=invoices.DESCRIPTION_MAX)]
    quantity: Annotated[int, Field(ge=1, le=MAX_AMOUNT)]
    unit_amount: Annotated[int, Field(ge=0, le=MAX_AMOUNT)]


Lines = Annotated[list[InvoiceLine], Field(min_length=1, max_length=invoices.LINES_MAX)]


class OptionalFields(Body):
    amount: Amount | None = None
    lines: Lines | None = None
    due_date: Annotated[str, Field(json_schema_extra={"format": "date"})] | None = None
    description: Description | None = None
    metadata: Metadata | None = None


class CreateInvoice(OptionalFields):
    account: AccountField
    customer: Customer


class ChangeInvoice(OptionalFields):
    # With a default factory, a field may be left out but not be null. The default itself is never stored,
    # because `exclude_unset` leaves out a field that was not sent.
    account: AccountField = Field(default_factory=str)
    customer: Customer = Field(default_factory=str)


class ListInvoices(LedgerList, LookingBack):
    status: Literal["draft", "open", "paid", "void"] | None = None
    account: str | None = None


@routes.add("GET", "/invoices", tagged=True)
async def list_invoices(
    call: Call, query: ListInvoices
) -> Page[Invoice] | Page[dict[str, Any]] | StreamedAnswer:
    """List the invoices, newest first."""
    filters = {"status": query.status, "account": query.account}
    return await query.read_in_parts(call, invoices.page, past.invoice_page, query.page(), **filters)


@routes.add("POST", "/invoices", status=201, in_contract=True)
async def create_invoice(call: Call, body: CreateInvoice) -> Invoice:
    """Draft an invoice."""
    fields = body.model_dump(exclude_none=True)
    return await call.write(invoices.create, invoices.NewInvoice(**fields), call.idempotency_key)


@routes.add("GET", "/invoices/<id>", in_contract=True)
async def get_invoice(call: Call, id: str, query: LookingBack) -> Invoice | dict[str, Any]:
    """Get one invoice."""
    return await query.read_one(call, invoices.get, past.invoice, id)


@routes.add("PATCH", "/invoices/<id>", in_contract=True, changes=invoices.get)
async def change_invoice(call: Call, id: str, body: ChangeInvoice) -> Invoice:
    """Change fields of a draft."""
    changes = cast(InvoiceChanges, body.model_dump(exclude_unset=True))
    return await call.write(invoices.update, id, changes)


@routes.add("DELETE", "/invoices/<id>", in_contract=True, changes=invoices.get)
async def void_invoice(call: Call, id: str) -> Invoice:
    """Void an open invoice."""
    return await call.write(invoices.void, id)


@routes.add("POST", "/invoices/<id>/finalize", changes=invoices.get)
async def finalize_invoice(call: Call, id: str) -> Invoice:
    """Open a draft and assign its number."""
    return await call.write(invoices.finalize, id, call.idempotency_key)


@routes.add("POST", "/invoices/<id>/pay", changes=invoices.get)
async def pay_invoice(call: Call, id: str) -> Invoice:
    """Pay an open invoice, crediting its account."""
    return await call.write(invoices.pay, id, call.idempotency_key)
