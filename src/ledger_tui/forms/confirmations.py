"""The questions before an action that cannot be undone, and in live mode before every change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ledger_tui.client.names import AccountNames
from ledger_tui.client.records import Record
from ledger_tui.client.session import Mode
from ledger_tui.formats.money import BadAmount, editable_amount, format_amount, parse_amount
from ledger_tui.formats.text import literal
from ledger_tui.resources.base import Action, Field, Form, Resource
from ledger_tui.resources.events import known_by, subject
from ledger_tui.resources.invoice_lines import load_lines, sum_as_typed


def question(resource: Resource, action: Action, record: Record, names: AccountNames) -> str:
    """Return `Void invoice inv_…?`, and under it what people know the object by."""
    begins = action.asks or action.label.capitalize()
    text = f"{begins} {resource.singular} {literal(record.get('id'))}?"
    facts = " · ".join([*known_by(subject(record) or record, names), *_beside(record, names)])
    return f"{text}\n\n{facts}" if facts else text


def _beside(record: Record, names: AccountNames) -> Iterator[str]:
    for name in ("url", "event"):
        if isinstance(record.get(name), str):
            yield literal(record[name])
    if isinstance(last := record.get("last4"), str):
        yield f"…{literal(last)}"
    if account := names.get(record.get("account")):
        yield literal(account.name)
    if user := names.user(record.get("user_id")):
        yield literal(user)


_LABEL_WIDTH = 15
_WHERE = {Mode.LIVE: "in LIVE mode", Mode.UNKNOWN: "in an unknown mode (the server does not say which)"}


def question_of_form(
    form: Form,
    typed: Mapping[str, str],
    body: Mapping[str, Any],
    currency: str | None,
    names: AccountNames,
    mode: Mode,
) -> tuple[str, str | None] | None:
    """Return what to ask before a form is sent, and what to type to confirm; None in test mode.

    `body` is what would be sent. A form that moves money asks for its amount; others for `y`.
    """
    if mode is Mode.TEST:
        return None
    facts = [
        f"{field.label_with(typed):{_LABEL_WIDTH}}{_shown_value(field, typed, body, currency, names)}"
        for field in form.fields
        if body.get(field.name) is not None
    ]
    text = "\n".join([f"{form.title}, {_WHERE[mode]}?", "", *facts])
    return text, (editable_amount(body["amount"], str(currency)) if form.moves_money else None)


def _shown_value(
    field: Field, typed: Mapping[str, str], body: Mapping[str, Any], currency: str | None, names: AccountNames
) -> str:
    value = typed.get(field.name, "").strip()
    if field.kind == "amount":
        return f"{format_amount(body[field.name], currency)} {literal(currency)}"
    if field.kind == "lines":
        return f"{len(body[field.name])}, {sum_as_typed(load_lines(value), currency)}"
    if field.kind == "choice":
        return dict(field.choices).get(value, value)
    known = {"account": names.get, "user": names.users.get}.get(field.kind, lambda _id: None)(value)
    return literal(known.name if known else value)


def what_moves(form: Form, typed: Mapping[str, str], names: AccountNames) -> str:
    """Return what a form that moves money would do: `Credits Till 12.50 EUR`; "" while it is incomplete."""
    account = names.get(typed.get("account", "").strip())
    kind = typed.get("type")
    if not form.moves_money or account is None or kind not in ("credit", "debit"):
        return ""
    try:
        amount = parse_amount(typed.get("amount", ""), account.currency)
    except BadAmount:
        return ""
    does, other_does = ("Credits", "debits") if kind == "credit" else ("Debits", "credits")
    text = f"{does} {literal(account.name)} {format_amount(amount, account.currency)} {account.currency}"
    other = names.get(typed.get("destination", "").strip())
    return f"{text}, {other_does} {literal(other.name)}" if other is not None else text
