"""Invoices: from draft over open to paid or void."""

from __future__ import annotations

from collections.abc import Mapping

from ledger_tui.resources.base import (
    Action,
    Cell,
    Column,
    Detail,
    Fact,
    Field,
    Filter,
    Form,
    Link,
    Resource,
    Section,
    Tone,
    mode_of,
    status_of,
    text_of,
    time_of,
)
from ledger_tui.resources.filtering import one_of
from ledger_tui.state.money import format_amount
from ledger_tui.state.names import AccountNames
from ledger_tui.state.text import literal
from ledger_tui.state.window import Record

_LOOKS: Mapping[str, tuple[str, Tone]] = {
    "draft": ("○", "dim"),
    "open": ("◐", "accent"),
    "paid": ("●", "plus"),
    "void": ("✕", "minus"),
}


def _currency(record: Record, names: AccountNames) -> str | None:
    own = record.get("currency")
    return own if isinstance(own, str) else names.currency(record.get("account"))


def _amount(record: Record, names: AccountNames) -> Cell:
    amount = record.get("amount")
    if not isinstance(amount, int):
        return text_of(record, "amount")
    return Cell(format_amount(amount, _currency(record, names)))


def _lifecycle(record: Record) -> Cell:
    """The way it has gone and may go: `○ draft → ◐ open → ● paid`, the state it is in between brackets."""
    status = record.get("status")
    way = ("draft", "open", "void") if status == "void" else ("draft", "open", "paid")
    steps = [f"[{_LOOKS[s][0]} {s}]" if s == status else f"{_LOOKS[s][0]} {s}" for s in way]
    return Cell(" → ".join(steps))


def _lines(record: Record, names: AccountNames) -> tuple[Fact, ...]:
    lines = record.get("lines")
    facts = []
    for line in lines if isinstance(lines, list) else ():
        if isinstance(line, dict):
            unit, quantity = line.get("unit_amount"), literal(line.get("quantity", ""))
            price = format_amount(unit, _currency(record, names)) if isinstance(unit, int) else literal(unit)
            facts.append(Fact(literal(line.get("description", "")), Cell(f"{quantity} × {price}")))
    return tuple(facts)


def _detail(record: Record, names: AccountNames) -> Detail:
    currency = literal(_currency(record, names) or "")
    known = names.get(record.get("account"))
    facts = [
        Fact("", _lifecycle(record)),
        Fact("number", text_of(record, "number")),
        Fact("customer", text_of(record, "customer")),
        Fact("description", text_of(record, "description")),
        Fact("due", text_of(record, "due_date")),
        Fact("account", Cell(literal(known.name)) if known else text_of(record, "account", "dim")),
        *(Fact(name.removesuffix("_at"), time_of(record, name)) for name in _TIMES if record.get(name)),
        Fact("mode", mode_of(record)),
        Fact("id", text_of(record, "id", "dim")),
    ]
    links = [Link("Its account", "accounts", record_id=str(record.get("account")))]
    if isinstance(paid_with := record.get("transaction"), str):
        links.append(Link("Its payment", "transactions", record_id=paid_with))
    return Detail(
        headline=Cell(f"{_amount(record, names).text} {currency}", "strong"),
        sections=(Section("", tuple(facts)), Section("lines", _lines(record, names))),
        links=tuple(links),
    )


_TIMES = ("created", "opened_at", "paid_at", "voided_at")

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
        Column("cur", 3, lambda r, n: Cell(literal(_currency(r, n) or "?"), "dim")),
        Column("customer", 12, lambda r, _n: text_of(r, "customer"), grow=1),
        Column("due", 10, lambda r, _n: text_of(r, "due_date", "dim"), rank=2),
        Column("created (UTC)", 19, lambda r, _n: time_of(r, "created"), rank=3),
        Column("id", 30, lambda r, _n: text_of(r, "id", "dim"), rank=4),
    ),
    detail=_detail,
    filters=(
        Filter("status", "status", "open", lambda value: one_of(value, *_LOOKS)),
        Filter("account", "account", "acc_…"),
    ),
    form=Form(
        title="New invoice",
        verb="Create",
        done="Drafted",
        path="/v1/invoices",
        fields=(
            Field("account", "Account", "account", hint="credited when it is paid"),
            Field("customer", "Customer", hint="who is to pay"),
            Field("amount", "Amount", "amount", hint="12.50"),
            Field("due_date", "Due", required=False, hint="2026-12-31"),
            Field("description", "Description", required=False),
        ),
    ),
    actions=(
        Action("finalize", "o", "open", "Opened", lambda r: r.get("status") == "draft", suffix="/finalize"),
        Action("pay", "p", "pay", "Paid", lambda r: r.get("status") == "open", suffix="/pay", creates=True),
        Action(
            "void", "v", "void", "Voided", lambda r: r.get("status") == "open", "DELETE", destructive=True
        ),
    ),
    changes=True,
    part="invoices.list",
    empty="No invoices here. Press n to draft one.",
    account_ids=lambda record: (record.get("account"),),
)
