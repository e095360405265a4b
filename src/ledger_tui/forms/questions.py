"""The questions before a request is sent, for an action on an object and for a form."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from ledger_tui.client.names import AccountName, AccountNames
from ledger_tui.client.records import Record
from ledger_tui.client.session import Mode
from ledger_tui.formats.money import BadAmount, editable_amount, format_amount, parse_amount
from ledger_tui.formats.text import literal
from ledger_tui.resources.base import Field, Form, Resource, ResourceAction
from ledger_tui.resources.cells import currency_of
from ledger_tui.resources.invoices import load_lines, sum_as_typed
from ledger_tui.resources.webhooks import known_by, subject
from ledger_tui.resources.words import number_or_name

NO_WAY_BACK = "This cannot be undone."


def way_back_sentence(
    resource: Resource, action: ResourceAction, key_of: Callable[[str], str], missing_parts: Collection[str]
) -> str:
    """Return how the user can undo an action, or that nobody can undo it.

    Return "" for an action without a lasting effect, and if the server lacks the action that undoes it.
    `key_of` takes the id of a binding and returns the binding's key.
    """
    way_back = action.way_back
    if way_back is None:
        return NO_WAY_BACK if action.final else ""
    if way_back.part in missing_parts:
        return ""
    if way_back is action:
        return f"{key_of(f'act.{action.name}')} on the reversal undoes it."
    words = f"{way_back.label}s the {resource.singular}."
    if way_back in resource.actions:
        return f"{key_of(f'act.{way_back.name}')} {words}"
    return f"Until your next change {key_of('take_back')} {words}"


def question(
    resource: Resource, action: ResourceAction, record: Record, names: AccountNames, way_back: str = ""
) -> str:
    """Return a question such as `Pay INV-000202, 151.00 EUR from Market hall GmbH to Till?`.

    Below the question is the first of these texts that is not empty: the reason for caution, the effect of
    the action, the object's id. The sentence `way_back` stands on the line after this text.
    """
    asked, effect = _question_and_effect(resource, action, record, names)
    return f"{asked}?\n\n{effect}\n{way_back}".rstrip()


def _question_and_effect(
    resource: Resource, action: ResourceAction, record: Record, names: AccountNames
) -> tuple[str, str]:
    if record.get("reverses") is not None:
        reversal = named(replace(resource, singular="reversal"), record, names)
        return f"Undo {reversal}", _effect_of_reversal(record, names)
    if action.name == "reverse" and (moved := _moved_back(record, names)):
        return f"Reverse the transfer: {moved}", action.effect
    begins = action.asks or action.label.capitalize()
    effect = action.caution(record) or action.effect or literal(record.get("id"))
    return f"{begins} {named(resource, record, names)}", effect


def _effect_of_reversal(reversal: Record, names: AccountNames) -> str:
    """Return the effect of reversing `reversal`: the ledger posts the undone transaction again."""
    opposite = _opposite_of(reversal, names)
    if not opposite:
        return "This undoes the undo: the original amount is posted again."
    return f"This undoes the undo: it {opposite} again."


def _moved_back(transaction: Record, names: AccountNames) -> str:
    """Return what reversing a transfer does, such as `moves 5.00 EUR from Safe to Till (float)`.

    Return "" for a transaction that is no transfer or whose accounts are not known.
    """
    if names.get(transaction.get("destination")) is None:
        return ""
    description = transaction.get("description")
    about = f" ({literal(description)})" if isinstance(description, str) and description.strip() else ""
    moved = _opposite_of(transaction, names)
    return f"{moved}{about}" if moved else ""


def _opposite_of(transaction: Record, names: AccountNames) -> str:
    """Return what reversing a transaction does, such as `moves 5.00 EUR from Safe to Till`.

    Return "" if the account of the transaction is not known.
    """
    account, other = names.get(transaction.get("account")), names.get(transaction.get("destination"))
    amount, kind = transaction.get("amount"), "debit" if transaction.get("type") == "credit" else "credit"
    if account is None or not isinstance(amount, int):
        return ""
    if other is not None and kind == "credit":
        account, other = other, account
    text = Movement(account, kind, amount, other.name if other else None, None).in_words("", is_done=False)
    return f"{text[0].lower()}{text[1:]}"


def named(resource: Resource, record: Record, names: AccountNames) -> str:
    """Return the name by which people know an object, and its kind if the name does not show it."""
    about = subject(record) or record
    # An event has its type in the field `type`, and a delivery has the event's type in `event_type`.
    kind = record.get("type" if about is not record else "event_type")
    head = literal(kind) if isinstance(kind, str) else number_or_name(resource, record)
    if head is None:
        head = f"the {'draft' if record.get('status') == 'draft' else resource.singular}"
    facts = [*known_by(about, names), *_distinguishing_facts(record, names)]
    if isinstance(record.get("customer"), str):
        facts = _invoice_facts(record, names)
    return ", ".join([head, *(fact for fact in facts if not head.endswith(fact))])


def _invoice_facts(invoice: Record, names: AccountNames) -> list[str]:
    """Return `151.00 EUR from Market hall GmbH to Till`, then other facts such as a description."""
    account = names.get(invoice.get("account"))
    amount, *others = known_by({**invoice, "number": None, "customer": None}, names) or [""]
    to = f" to {literal(account.name)}" if account else ""
    return [f"{amount} from {literal(invoice['customer'])}{to}".lstrip(), *others]


def _distinguishing_facts(record: Record, names: AccountNames) -> Iterator[str]:
    """Yield the facts that distinguish an object from others: receiver, event, key, account and user."""
    if (url := names.url_of(record.get("endpoint"))) is not None:
        yield f"to {literal(url)}"
    if isinstance(record.get("event"), str):
        yield literal(record["event"])
    if isinstance(last := record.get("last4"), str):
        yield f"…{literal(last)}"
    if account := names.get(record.get("account")):
        yield literal(account.name)
    if user := names.user(record.get("user_id")):
        yield literal(user)


class Confirmation(NamedTuple):
    """The `text` that the user must type to confirm a final action, and the word that names this text."""

    text: str
    what: str


def confirmation_of(record: Record, names: AccountNames) -> Confirmation:
    """Return the text to type to confirm an action on an object: its number, amount, host, name or id.

    The question about the object shows this text.
    """
    if isinstance(number := record.get("number"), str):
        return Confirmation(literal(number), "number")
    currency = currency_of(record, names)
    for what in ("amount", "total"):
        if isinstance(amount := record.get(what), int):
            return Confirmation(editable_amount(amount, currency) if currency else str(amount), what)
    if isinstance(url := record.get("url"), str) and (host := urlsplit(url).netloc):
        return Confirmation(literal(host), "host")
    for field, what in (("last4", "end of the key"), ("email", "email"), ("name", "name")):
        if isinstance(text := record.get(field), str) and text.strip():
            return Confirmation(literal(text.strip()), what)
    return Confirmation(literal(record.get("id")), "id")


_NO_BALANCES: Mapping[str, int] = {}
# The types of accounts in which a positive balance is a credit (docs/export.md#types-of-accounts). If such a
# balance falls below zero, no money is missing: for example, a seller owes you money, or you have refunded
# more than you earned.
_CREDIT_TYPES = frozenset({"liability", "income", "equity"})
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
    balances: Mapping[str, int] = _NO_BALANCES,
) -> tuple[str, str | None] | None:
    """Return the question to ask before a form is sent, and the text that the user must type to confirm.

    In test mode only a form that moves money needs a question; for any other form, return None. `body` is the
    body to send, and `about` names the object that the form changes. If the form overdraws an account, or
    moves money outside test mode, the text is the amount. Otherwise the text is None, and the user confirms
    with `y`.
    """
    if mode is Mode.TEST and not form.moves_money:
        return None
    facts = [
        f"{field.label:{_LABEL_WIDTH}}{_shown_value(field, values, body, currency, names)}"
        for field in form.fields
        if body.get(field.name) is not None
    ]
    title = f"{form.title} {about}".rstrip()
    movement = _movement(form, values, names, balances)
    effect = movement.in_words("\n", is_done=False) if movement else ""
    first = f"{title}?" if mode is Mode.TEST else f"{title}, {_WHERE[mode]}?"
    text = "\n".join([first, "", *facts, *(["", effect] if effect else [])])
    overdraws = movement is not None and movement.overdraws
    types_amount = form.moves_money and (overdraws or mode is not Mode.TEST)
    return text, (editable_amount(body["amount"], str(currency)) if types_amount else None)


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


def movement_effect(
    form: Form, values: Mapping[str, str], names: AccountNames, balances: Mapping[str, int]
) -> str:
    """Return the effect of a form that moves money; "" for any other form, and while the form is incomplete.

    The first line is like `Moves 5.00 EUR from Till to Bank`. If `balances` contains the account's balance,
    a second line follows, like `Till is left with 7.50 EUR`.
    """
    movement = _movement(form, values, names, balances)
    return movement.in_words("\n", is_done=False) if movement else ""


def _movement(
    form: Form, values: Mapping[str, str], names: AccountNames, balances: Mapping[str, int]
) -> Movement | None:
    """Return the movement that a form makes; None if the form moves no money or is incomplete."""
    account = names.get(values.get("account", "").strip())
    kind = dict(form.sends).get("type", values.get("type"))
    other = names.get(values.get("destination", "").strip())
    if not form.moves_money or account is None or kind not in ("credit", "debit"):
        return None
    try:
        amount = parse_amount(values.get("amount", ""), account.currency)
    except BadAmount:
        return None
    if form.sends and (other is None or not other.is_partner_of(account)):
        return None
    before = balances.get(account.id)
    after = None if before is None else before + (amount if kind == "credit" else -amount)
    return Movement(account, kind, amount, other.name if other else None, after)


class Movement(NamedTuple):
    """Money that is credited to an account, debited from it, or moved from it to the account `other`.

    `after` is the balance of `account` after the movement; None if the balance is unknown.
    """

    account: AccountName
    kind: str
    amount: int
    other: str | None
    after: int | None

    @property
    def overdraws(self) -> bool:
        """Whether the movement takes `account` from zero or more to below zero.

        False for an account of a type in `_CREDIT_TYPES`.
        """
        if self.after is None or self.kind == "credit" or self.account.type in _CREDIT_TYPES:
            return False
        return self.after < 0 <= self.after + self.amount

    def in_words(self, separator: str, *, is_done: bool) -> str:
        """Return the movement in words, in the past tense if `is_done`.

        If the new balance is known, it follows after the separator.
        """
        name, currency = literal(self.account.name), literal(self.account.currency)
        sum_ = f"{format_amount(self.amount, self.account.currency)} {currency}"
        is_credit = self.kind == "credit"
        if self.other is not None:
            text = f"{'Moved' if is_done else 'Moves'} {sum_} from {name} to {literal(self.other)}"
        else:
            text = f"{'Credit' if is_credit else 'Debit'}{'ed' if is_done else 's'} {name} {sum_}"
        if self.after is None:
            return text
        holds = ("holds" if is_done else "then holds") if is_credit else "is left with"
        balance = f"{format_amount(self.after, self.account.currency)} {currency}"
        return f"{text}{separator}{name} {holds} {balance}{', overdrawn' * (self.after < 0)}"
