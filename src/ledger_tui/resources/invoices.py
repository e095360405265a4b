"""The screen of invoices, from draft to open to paid or void, and the lines that a user types in a form.

The values of a form are text, so the form keeps an invoice's lines as JSON, exactly as the user typed them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple
from urllib.parse import quote

from ledger_tui.client.names import AccountNames
from ledger_tui.client.records import Record
from ledger_tui.client.totals import overdue_by_age
from ledger_tui.formats.money import LARGEST_AMOUNT, BadAmount, editable_amount, format_amount, parse_amount
from ledger_tui.formats.text import literal
from ledger_tui.resources.base import (
    Cell,
    Column,
    Detail,
    Fact,
    Field,
    Filter,
    FilterContext,
    Filters,
    Form,
    Link,
    Resource,
    ResourceAction,
    Section,
    Tone,
    in_state,
)
from ledger_tui.resources.cells import currency_of, facts_of, money_of, status_of, text_of, time_of
from ledger_tui.resources.drawings import lifecycle
from ledger_tui.resources.filtering import choice
from ledger_tui.resources.links import to_events

LINES_MAX = 100


class TypedLine(NamedTuple):
    """One line of an invoice, as the user types it in the form. A new line has the quantity 1."""

    description: str = ""
    quantity: str = "1"
    unit_amount: str = ""

    @property
    def blank(self) -> bool:
        return not (self.description.strip() or self.unit_amount.strip())


def dump_lines(rows: Iterable[TypedLine]) -> str:
    """Return the rows as one text, without the blank rows at the end; "" if all rows are blank.

    Blank rows between other rows are kept, so that an error names the number of the row on the screen.
    """
    texts, filled = [], 0
    for row in rows:
        texts.append([part.strip() for part in row])
        filled = filled if row.blank else len(texts)
    return json.dumps(texts[:filled], ensure_ascii=False) if filled else ""


# The text of one blank row. `dump_lines` cannot return this text, because its last row is never blank.
ONE_BLANK_LINE = json.dumps([["", "", ""]])


def load_lines(text: str) -> list[TypedLine]:
    """Return the rows from a text that `dump_lines` returned."""
    return [TypedLine(*row) for row in json.loads(text)] if text else []


def lines_as_typed(lines: object, currency: str) -> str | None:
    """Return a draft's lines as the text that `dump_lines` returns for them.

    Return "" if the draft has no lines, and None if the form cannot show its lines.
    """
    if lines is None or lines == []:
        return ""
    rows = []
    for line in lines if isinstance(lines, list) else [None]:
        if not isinstance(line, dict):
            return None
        description, quantity, unit = (line.get(name) for name in ("description", "quantity", "unit_amount"))
        if not (isinstance(description, str) and isinstance(quantity, int) and isinstance(unit, int)):
            return None
        rows.append(TypedLine(description, str(quantity), editable_amount(unit, currency)))
    return dump_lines(rows)


def parse_lines(text: str, currency: str) -> list[dict[str, Any]]:
    """Return the lines to send. Raises ValueError with a sentence that names the wrong line."""
    rows = load_lines(text)
    are_blank = all(row.blank for row in rows)
    if sum(not row.blank for row in rows) > LINES_MAX:
        raise ValueError(f"An invoice has at most {LINES_MAX} lines.")
    lines = []
    for number, row in enumerate(rows, 1):
        if row.blank and not are_blank:
            continue
        try:
            lines.append(_line_to_send(row, currency))
        except ValueError as error:
            raise ValueError(f"Line {number}: {error}") from None
    total = _sum(lines)
    if total < 1:
        raise ValueError("The sum of the lines must be more than zero.")
    if total > LARGEST_AMOUNT:
        raise ValueError(f"The largest sum is {format_amount(LARGEST_AMOUNT, currency)}.")
    return lines


def sum_as_typed(rows: Iterable[TypedLine], currency: str | None) -> str:
    """Return the sum of the rows typed so far, or why there is no sum, as a text to show below the rows."""
    filled_rows = [row for row in rows if not row.blank]
    if currency is None:
        return "choose an account first: its currency decides how amounts are read"
    lines = []
    for row in filled_rows:
        try:
            lines.append(_line_to_send(row._replace(description="-"), currency))
        except ValueError:
            continue
    total = _sum(lines)
    if total > LARGEST_AMOUNT:
        return (
            f"the sum is more than the largest amount, {format_amount(LARGEST_AMOUNT, currency)} {currency}"
        )
    missing = "" if len(lines) == len(filled_rows) else f" + {len(filled_rows) - len(lines)} not complete"
    return f"sum {format_amount(total, currency)} {currency}{missing}"


def _line_to_send(row: TypedLine, currency: str) -> dict[str, Any]:
    """Return the row as a line to send. Raises ValueError."""
    description, quantity = row.description.strip(), row.quantity.strip()
    if not description:
        raise ValueError("A description is required.")
    if not (quantity.isascii() and quantity.isdigit() and 1 <= int(quantity[:17]) <= LARGEST_AMOUNT):
        raise ValueError("The quantity must be a whole number, at least 1.")
    if not row.unit_amount.strip():
        raise BadAmount("A unit amount is required.")
    unit = parse_amount(row.unit_amount, currency, least=0)
    return {"description": description, "quantity": int(quantity), "unit_amount": unit}


def column_at_fault(row: TypedLine, currency: str) -> int | None:
    """Return the number of the first column of `TypedLine` with a wrong value; None if all are right."""
    return next((column for column in range(len(row)) if fault_of_column(row, column, currency)), None)


def fault_of_column(row: TypedLine, column: int, currency: str) -> str:
    """Return why the value in a column of `TypedLine` is wrong; "" if the value is right."""
    good = TypedLine("-", "1", "0")
    try:
        _line_to_send(TypedLine(*(*good[:column], row[column], *good[column + 1 :])), currency)
    except ValueError as error:
        return str(error)
    return ""


def _sum(lines: Iterable[dict[str, Any]]) -> int:
    return sum(line["quantity"] * line["unit_amount"] for line in lines)


INVOICE_LOOKS: Mapping[str, tuple[str, Tone]] = {
    "draft": ("○", "dim"),
    "open": ("◐", "accent"),
    "paid": ("●", "plus"),
    "void": ("✕", "minus"),
}


_STATE_TIMES = {"draft": "created", "open": "opened_at", "paid": "paid_at", "void": "voided_at"}


def _lines(record: Record, names: AccountNames) -> tuple[Fact, ...]:
    """Return each line of an invoice like `11 × 22.00 Espresso, kg`.

    The figures come first, because a description can be long.
    """
    lines = record.get("lines")
    facts = []
    for line in lines if isinstance(lines, list) else ():
        if isinstance(line, dict):
            unit, quantity = line.get("unit_amount"), literal(line.get("quantity", ""))
            price = (
                format_amount(unit, currency_of(record, names)) if isinstance(unit, int) else literal(unit)
            )
            facts.append(Fact(f"{quantity} × {price}", Cell(literal(line.get("description", "")))))
    return tuple(facts)


def _is_overdue(record: Record, value: str, context: FilterContext) -> bool:
    """Return whether an invoice is overdue; for the value `no`, return whether it is not overdue."""
    is_late = any(overdue_by_age([record], context.today))
    return (is_late and record.get("status") == "open") == (value == "yes")


def _detail(record: Record, names: AccountNames) -> Detail:
    currency = literal(currency_of(record, names) or "")
    name = names.get(record.get("account"))
    facts = [
        *facts_of(record, "number", "customer", "description"),
        Fact("due", text_of(record, "due_date")),
        Fact("account", Cell(literal(name.name)) if name else text_of(record, "account", "dim")),
        *facts_of(record, *filter(record.get, _STATE_TIMES.values())),
    ]
    links = [Link("Its account", "accounts", record_id=str(record.get("account")))]
    if isinstance(paid_with := record.get("transaction"), str):
        links.append(Link("Its payment", "transactions", record_id=paid_with))
    return Detail(
        headline=Cell(f"{money_of(record, 'amount', names).text} {currency}", "strong"),
        sections=(
            lifecycle(record, INVOICE_LOOKS, _STATE_TIMES, aside="void"),
            Section("", tuple(facts)),
            Section("lines", _lines(record, names)),
        ),
        links=(*links, *to_events(record)),
    )


def _edit(record: Record, names: AccountNames) -> Form | None:
    """Return the form to edit a draft; None for any other invoice.

    The server refuses to edit an invoice that is not a draft (docs/interface.md#invoice-patch-draft-only).
    """
    if record.get("status") != "draft":
        return None
    sums = _sums_as_typed(record, currency_of(record, names))
    # The form leaves out the fields of the amount if it cannot show the amount, for example because the
    # currency is unknown.
    fields = [field for field in _FIELDS if field.name not in _SUMS or sums is not None]

    def prefill(_record: Record | None, _filters: Filters) -> Mapping[str, str]:
        values = {field.name: record.get(field.name) for field in fields if field.name not in _SUMS}
        return {name: value for name, value in values.items() if isinstance(value, str)} | (sums or {})

    return Form(
        title="Edit the draft",
        done="is changed",
        path=f"/v1/invoices/{quote(str(record.get('id')), safe='')}",
        fields=tuple(fields),
        prefill=prefill,
        method="PATCH",
        either=_SUMS if sums is not None else (),
    )


def _sums_as_typed(record: Record, currency: str | None) -> dict[str, str] | None:
    """Return the draft's lines as the form's text or, if the draft has no lines, its amount.

    Return None if the form cannot show the lines or the amount.
    """
    amount = record.get("amount")
    if currency is None or not isinstance(amount, int):
        return None
    lines = lines_as_typed(record.get("lines"), currency)
    if lines is None:
        return None
    return {"lines": lines} if lines else {"amount": editable_amount(amount, currency)}


_SUMS = ("amount", "lines")
_FIELDS = (
    Field("account", "Account", "account", hint="↓ or part of a name; credited when it is paid"),
    Field("customer", "Customer", hint="who pays it"),
    Field("amount", "Amount", "amount", hint="in the currency of the account"),
    Field("lines", "Lines", "lines", required=False, hint="instead of an amount: ^n adds a line"),
    Field("due_date", "Due", "date", required=False, hint="a date such as 2026-12-31, or nothing"),
    Field("description", "Description", required=False),
)

INVOICES = Resource(
    kind="invoices",
    key="3",
    title="Invoices",
    short="Invs",
    singular="invoice",
    path="/v1/invoices",
    id_prefix="inv_",
    columns=(
        Column("number", 10, lambda r, _n: text_of(r, "number")),
        Column("status", 7, lambda r, _n: status_of(r, INVOICE_LOOKS)),
        Column("amount", 10, lambda r, n: money_of(r, "amount", n), align="right"),
        Column("cur", 3, lambda r, n: Cell(literal(currency_of(r, n) or "?"), "dim")),
        Column("customer", 12, lambda r, _n: text_of(r, "customer"), grow=1),
        Column("due", 10, lambda r, _n: text_of(r, "due_date", "dim"), rank=2),
        Column("created (UTC)", 19, lambda r, _n: time_of(r, "created"), by="created", rank=3),
        Column("id", 30, lambda r, _n: text_of(r, "id", "dim"), rank=4),
    ),
    detail=_detail,
    filters=(
        choice("status", [*INVOICE_LOOKS], "open"),
        Filter("account", "account", "acc_…", account=True),
        choice("overdue", ("yes", "no"), "yes", matches=_is_overdue),
    ),
    form=Form(title="New invoice", done="is drafted", fields=_FIELDS, either=_SUMS),
    edit=_edit,
    edits="a draft",
    actions=(
        ResourceAction(
            "finalize",
            "finalize",
            "Finalized",
            in_state("draft"),
            final=True,
            effect="It gets its number and can be paid. Nobody can edit it any more.",
            part="invoices.finalize",
        ),
        ResourceAction(
            "pay",
            "pay",
            "Paid",
            in_state("open"),
            after="finalize",
            final=True,
            moves_money=True,
            effect="The account is credited at once, and the invoice stays paid.",
            creates=True,
            part="invoices.pay",
        ),
        ResourceAction(
            "void",
            "void",
            "Voided",
            in_state("open"),
            "DELETE",
            after="finalize",
            final=True,
            effect="It keeps its number, and nobody can pay it any more.",
        ),
    ),
    changes=True,
    part="invoices.list",
    empty="No invoices here.",
    invites="Press n to draft one.",
    account_ids=lambda record: (record.get("account"),),
)
