"""The screen of invoices, from draft to open to paid or void."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote

from ledger_tui.client.names import AccountNames
from ledger_tui.client.records import Record
from ledger_tui.formats.money import editable_amount, format_amount
from ledger_tui.formats.text import literal
from ledger_tui.resources.base import (
    Action,
    Cell,
    Column,
    Detail,
    Fact,
    Field,
    Filter,
    Filters,
    Form,
    Link,
    Resource,
    Section,
    Tone,
    currency_of,
    mode_of,
    status_of,
    text_of,
    time_of,
)
from ledger_tui.resources.filtering import one_of
from ledger_tui.resources.invoice_lines import lines_as_typed
from ledger_tui.resources.lifecycle import lifecycle
from ledger_tui.resources.links import to_events

_LOOKS: Mapping[str, tuple[str, Tone]] = {
    "draft": ("○", "dim"),
    "open": ("◐", "accent"),
    "paid": ("●", "plus"),
    "void": ("✕", "minus"),
}


def _amount(record: Record, names: AccountNames) -> Cell:
    amount = record.get("amount")
    if not isinstance(amount, int):
        return text_of(record, "amount")
    return Cell(format_amount(amount, currency_of(record, names)))


_STATE_TIMES = {"draft": "created", "open": "opened_at", "paid": "paid_at", "void": "voided_at"}


def _lines(record: Record, names: AccountNames) -> tuple[Fact, ...]:
    """Return `11 × 22.00    Espresso, kg`: the figures come first, because a description may be long."""
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


def _detail(record: Record, names: AccountNames) -> Detail:
    currency = literal(currency_of(record, names) or "")
    known = names.get(record.get("account"))
    times = _STATE_TIMES.values()
    facts = [
        Fact("number", text_of(record, "number")),
        Fact("customer", text_of(record, "customer")),
        Fact("description", text_of(record, "description")),
        Fact("due", text_of(record, "due_date")),
        Fact("account", Cell(literal(known.name)) if known else text_of(record, "account", "dim")),
        *(Fact(name.removesuffix("_at"), time_of(record, name)) for name in times if record.get(name)),
        Fact("mode", mode_of(record)),
        Fact("id", text_of(record, "id", "dim")),
    ]
    links = [Link("Its account", "accounts", record_id=str(record.get("account")))]
    if isinstance(paid_with := record.get("transaction"), str):
        links.append(Link("Its payment", "transactions", record_id=paid_with))
    return Detail(
        headline=Cell(f"{_amount(record, names).text} {currency}", "strong"),
        sections=(
            lifecycle(record, _LOOKS, _STATE_TIMES, aside="void"),
            Section("", tuple(facts)),
            Section("lines", _lines(record, names)),
        ),
        links=(*links, *to_events(record)),
    )


def _edit(record: Record, names: AccountNames) -> Form | None:
    """Return the form to edit a draft, else None (docs/interface.md#invoice-patch-draft-only)."""
    if record.get("status") != "draft":
        return None
    sums = _sums_as_typed(record, currency_of(record, names))
    # Without a currency the amount cannot be written.
    fields = [field for field in _FIELDS if field.name not in _SUMS or sums is not None]

    def prefill(_record: Record | None, _filters: Filters) -> Mapping[str, str]:
        values = {field.name: record.get(field.name) for field in fields if field.name not in _SUMS}
        return {name: value for name, value in values.items() if isinstance(value, str)} | (sums or {})

    return Form(
        title="Edit the draft",
        verb="Save",
        done="Changed",
        path=f"/v1/invoices/{quote(str(record.get('id')), safe='')}",
        fields=tuple(fields),
        prefill=prefill,
        method="PATCH",
        either=_SUMS if sums is not None else (),
    )


def _sums_as_typed(record: Record, currency: str | None) -> dict[str, str] | None:
    """Return the amount as its fields show it: the lines, or the sum where there are none.

    None when neither can be written.
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
    Field("account", "Account", "account", hint="credited when it is paid"),
    Field("customer", "Customer", hint="who is to pay"),
    Field("amount", "Amount", "amount", hint="12.50"),
    Field("lines", "Lines", "lines", required=False, hint="instead of an amount: ^n adds a line"),
    Field("due_date", "Due", required=False, hint="2026-12-31"),
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
        Column("status", 7, lambda r, _n: status_of(r, _LOOKS)),
        Column("amount", 10, _amount, align="right"),
        Column("cur", 3, lambda r, n: Cell(literal(currency_of(r, n) or "?"), "dim")),
        Column("customer", 12, lambda r, _n: text_of(r, "customer"), grow=1),
        Column("due", 10, lambda r, _n: text_of(r, "due_date", "dim"), rank=2),
        Column("created (UTC)", 19, lambda r, _n: time_of(r, "created"), by="created", rank=3),
        Column("id", 30, lambda r, _n: text_of(r, "id", "dim"), rank=4),
    ),
    detail=_detail,
    filters=(
        Filter("status", "status", "open", lambda value: one_of(value, *_LOOKS), suggests=lambda: [*_LOOKS]),
        Filter("account", "account", "acc_…", account=True),
    ),
    form=Form(
        title="New invoice",
        verb="Create",
        done="Drafted",
        path="/v1/invoices",
        fields=_FIELDS,
        either=_SUMS,
    ),
    edit=_edit,
    edits=True,
    actions=(
        Action(
            "finalize",
            "F",
            "finalize",
            "Finalized",
            lambda r: r.get("status") == "draft",
            suffix="/finalize",
            final=True,
            part="invoices.finalize",
        ),
        Action(
            "pay",
            "p",
            "pay",
            "Paid",
            lambda r: r.get("status") == "open",
            suffix="/pay",
            final=True,
            creates=True,
            part="invoices.pay",
        ),
        Action("void", "v", "void", "Voided", lambda r: r.get("status") == "open", "DELETE", final=True),
    ),
    changes=True,
    part="invoices.list",
    empty="No invoices here.",
    invites="Press n to draft one.",
    account_ids=lambda record: (record.get("account"),),
)
