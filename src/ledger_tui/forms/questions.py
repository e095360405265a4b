"""The questions before a request is sent, for an action on an object and for a form in live mode."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from ledger_tui.client.names import AccountNames
from ledger_tui.client.records import Record
from ledger_tui.client.session import Mode
from ledger_tui.formats.money import BadAmount, editable_amount, format_amount, parse_amount
from ledger_tui.formats.text import literal
from ledger_tui.resources.base import Field, Form, Resource, ResourceAction, currency_of
from ledger_tui.resources.invoices import load_lines, sum_as_typed
from ledger_tui.resources.webhooks import known_by, subject


def question(resource: Resource, action: ResourceAction, record: Record, names: AccountNames) -> str:
    """Return `Pay INV-000202, 151.00 EUR from Market hall GmbH to Till?`, and the consequence below.

    For an action without a lasting consequence, the id is below.
    """
    begins = action.asks or action.label.capitalize()
    return f"{begins} {named(resource, record, names)}?\n\n{action.effect or literal(record.get('id'))}"


def called(resource: Resource, record: Record) -> str | None:
    """Return an object's number, or its kind with its URL or name; None for an object without number, URL
    and name.
    """
    if isinstance(number := record.get("number"), str):
        return literal(number)
    texts = (record.get(field) for field in ("url", "name"))
    text = next((text for text in texts if isinstance(text, str)), None)
    return None if text is None else f"{resource.singular} {literal(text)}"


def named(resource: Resource, record: Record, names: AccountNames) -> str:
    """Return the name by which people know an object, and its kind if the name does not show it."""
    about = subject(record) or record
    kind = record.get("type" if about is not record else "event_type")  # the type of an event or a delivery
    head = literal(kind) if isinstance(kind, str) else called(resource, record)
    if head is None:
        head = f"the {'draft' if record.get('status') == 'draft' else resource.singular}"
    facts = [*known_by(about, names), *_beside(record, names)]
    if isinstance(record.get("customer"), str):
        facts = _owed(record, names)
    return ", ".join([head, *(fact for fact in facts if not head.endswith(fact))])


def _owed(invoice: Record, names: AccountNames) -> list[str]:
    """Return `151.00 EUR from Market hall GmbH to Till`, and a description."""
    account = names.get(invoice.get("account"))
    amount, *others = known_by({**invoice, "number": None, "customer": None}, names) or [""]
    to = f" to {literal(account.name)}" if account else ""
    return [f"{amount} from {literal(invoice['customer'])}{to}".lstrip(), *others]


def _beside(record: Record, names: AccountNames) -> Iterator[str]:
    if isinstance(record.get("event"), str):
        yield literal(record["event"])
    if isinstance(last := record.get("last4"), str):
        yield f"…{literal(last)}"
    if account := names.get(record.get("account")):
        yield literal(account.name)
    if user := names.user(record.get("user_id")):
        yield literal(user)


class TypedProof(NamedTuple):
    """A text to type before something final is done, and the word for it."""

    text: str
    what: str


def proof_of(record: Record, names: AccountNames) -> TypedProof:
    """Return a text that the question about an object shows: its number, its amount, or part of its name."""
    if isinstance(number := record.get("number"), str):
        return TypedProof(literal(number), "number")
    currency = currency_of(record, names)
    for what in ("amount", "total"):
        if isinstance(amount := record.get(what), int):
            return TypedProof(editable_amount(amount, currency) if currency else str(amount), what)
    if isinstance(url := record.get("url"), str) and (host := urlsplit(url).netloc):
        return TypedProof(literal(host), "host")
    for field, what in (("last4", "end of the key"), ("email", "email"), ("name", "name")):
        if isinstance(text := record.get(field), str) and text.strip():
            return TypedProof(literal(text.strip()), what)
    return TypedProof(literal(record.get("id")), "id")


_LABEL_WIDTH = 15
_WHERE = {Mode.LIVE: "in LIVE mode", Mode.UNKNOWN: "in an unknown mode (the server does not say which)"}


def question_of_form(
    form: Form,
    values: Mapping[str, str],
    body: Mapping[str, Any],
    currency: str | None,
    names: AccountNames,
    mode: Mode,
    about: str = "",
) -> tuple[str, str | None] | None:
    """Return the question before a form is sent, and the text to type as confirmation; None in test mode.

    `body` is the body to send, and `about` names the object that the form changes. To confirm, the user types
    the amount if the form moves money, otherwise `y`.
    """
    if mode is Mode.TEST:
        return None
    facts = [
        f"{field.label:{_LABEL_WIDTH}}{_shown_value(field, values, body, currency, names)}"
        for field in form.fields
        if body.get(field.name) is not None
    ]
    title = f"{form.title} {about}".rstrip()
    effect = what_moves(form, values, names)
    text = "\n".join([f"{title}, {_WHERE[mode]}?", "", *facts, *(["", f"{effect}."] if effect else [])])
    return text, (editable_amount(body["amount"], str(currency)) if form.moves_money else None)


def _shown_value(
    field: Field,
    values: Mapping[str, str],
    body: Mapping[str, Any],
    currency: str | None,
    names: AccountNames,
) -> str:
    value = values.get(field.name, "").strip()
    if field.kind == "amount":
        return f"{format_amount(body[field.name], currency)} {literal(currency)}"
    if field.kind == "lines":
        return f"{len(body[field.name])}, {sum_as_typed(load_lines(value), currency)}"
    if field.kind == "choice":
        return dict(field.choices).get(value, value)
    find_name = {"account": names.get, "user": names.users.get}.get(field.kind, lambda _id: None)(value)
    return literal(find_name.name if find_name else value)


def what_moves(form: Form, values: Mapping[str, str], names: AccountNames) -> str:
    """Return the effect of a form that moves money: `Credits Till 12.50 EUR`; "" while it is incomplete."""
    account = names.get(values.get("account", "").strip())
    kind = dict(form.sends).get("type", values.get("type"))
    if not form.moves_money or account is None or kind not in ("credit", "debit"):
        return ""
    try:
        amount = parse_amount(values.get("amount", ""), account.currency)
    except BadAmount:
        return ""
    sum_ = f"{format_amount(amount, account.currency)} {account.currency}"
    if not form.sends:
        return f"{'Credits' if kind == 'credit' else 'Debits'} {literal(account.name)} {sum_}"
    other = names.get(values.get("destination", "").strip())
    return f"Moves {sum_} from {literal(account.name)} to {literal(other.name)}" if other else ""
