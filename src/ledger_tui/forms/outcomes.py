"""The sentences after a change: the new state, or why the state is unknown."""

from __future__ import annotations

import re
from dataclasses import KW_ONLY, dataclass

from textual.message import Message

from ledger_client.errors import ApiError, LedgerError, NotConnected, Unreadable
from ledger_tui.client.names import AccountNames
from ledger_tui.client.records import Record
from ledger_tui.formats.text import fit, literal, sentence
from ledger_tui.forms.questions import Movement
from ledger_tui.resources.api_keys import scopes_of
from ledger_tui.resources.base import Form, Resource, ResourceAction
from ledger_tui.resources.endpoints import events_of
from ledger_tui.resources.webhooks import amount_of, items_of
from ledger_tui.resources.words import words_for

_CONFLICT = 409
_NAMED_IDS = re.compile(r"\b(?:acc|usr)_[0-9a-z]+")
_FACT_CELLS = 40  # the maximum width of each name or fact in a sentence


@dataclass
class Created(Message):
    """A form has created or changed an object."""

    record: Record | None  # None if an earlier request created the object, and the form cannot read it
    sentence: str
    secret: str | None = None  # to show once
    _: KW_ONLY
    edited: bool = False  # whether the form has changed an object instead of creating one


def outcome(
    resource: Resource, action: ResourceAction, record: Record, answer: Record, names: AccountNames
) -> str:
    """Return the result of an action, such as `INV-000202 is open: 151.00 EUR`.

    `record` is the object before the action, `answer` the server's answer.
    """
    answered_id = answer.get("id")
    if action.result is not None:
        return action.result(answer, words_for(resource, record, names))
    is_same = answered_id == record.get("id")
    state, now = action.done.lower(), record
    if is_same:
        now = answer
        status = answer.get("status")
        if isinstance(status, str) and status != record.get("status"):
            state = literal(status)
    is_new = not is_same and str(answered_id).startswith(resource.id_prefix)
    about = answer if is_new else now
    sums = [*amount_of(about, names), *items_of(about)]
    if is_new and isinstance(last := answer.get("last4"), str):
        sums.append(f"…{literal(last)}")
    facts = ", ".join(sums)
    return sentence(words_for(resource, now, names)) + f" is {state}" + (f": {facts}" if facts else "")


def outcome_of_form(form: Form, resource: Resource, record: Record, names: AccountNames) -> str:
    """Return the result of a form, such as `Account Till exists: EUR`, from the created or changed object."""
    if form.moves_money and (moved := _movement_sentence(record, names)):
        return moved
    status = record.get("status")
    state = form.done
    if isinstance(status, str):
        state = "is a draft" if status == "draft" else f"is {literal(status)}"
    facts = [*amount_of(record, names), *items_of(record)]
    facts += [literal(record[name]) for name in ("role", "email") if isinstance(record.get(name), str)]
    if not facts and isinstance(currency := record.get("currency"), str):
        facts.append(literal(currency))
    if "scopes" in record:
        facts.append("all scopes" if record["scopes"] is None else scopes_of(record).text)
    if "events" in record:
        facts.append("all events" if record["events"] == ["*"] else events_of(record).text)
    head, *facts = (fit(text, _FACT_CELLS).rstrip() for text in (words_for(resource, record, names), *facts))
    return f"{sentence(head)} {state}" + (f": {', '.join(facts)}" if facts else "")


def _movement_sentence(record: Record, names: AccountNames) -> str:
    """Return a sentence about a new transaction, if the account's name and the amount are known, else "".

    The sentence is like `Moved 5.00 EUR from Till to Bank; Till is left with 7.50 EUR`.
    """
    account, amount, other = (record.get(name) for name in ("account", "amount", "destination"))
    named = names.get(account)
    if named is None or not isinstance(amount, int):
        return ""
    named = named._replace(name=fit(named.name, _FACT_CELLS).rstrip())
    to = fit(names.name(other), _FACT_CELLS).rstrip() if isinstance(other, str) else None
    after = record.get("balance_after")
    moved = Movement(named, str(record.get("type")), amount, to, after if isinstance(after, int) else None)
    return moved.in_words("; ", is_done=True)


def in_words(error: LedgerError, names: AccountNames, object_id: object = None, words: str = "") -> str:
    """Return the message of a refusal, with names instead of ids.

    A refusal with status 409 is about the state of an object. In its message, `words` replace `object_id`,
    the id of this object.
    """
    text = literal(error)
    if error.status == _CONFLICT and isinstance(object_id, str) and words:
        text = text.replace(literal(object_id), words)
    text = _NAMED_IDS.sub(lambda match: literal(names.user(match[0]) or names.name(match[0])), text)
    return text if text == literal(error) else sentence(text)


def uncertain(error: LedgerError) -> str:
    """Return a warning that the change may have been made.

    Return "" if the server refused the change, or if the error's own message says whether it was made.
    """
    if isinstance(error, NotConnected):
        answer = "No usable answer" if isinstance(error, Unreadable) else "No answer"
        return f"{answer} ({literal(error).rstrip('.')}); the change may still have been made."
    # If the ledger cannot reach its storage, the message of the error says whether the change was made.
    if isinstance(error, ApiError) and error.code != "storage_unavailable":
        request = f", request {literal(error.request_id)}" if error.request_id else ""
        return f"The server failed; the change may still have been made. Status {error.status}{request}."
    return ""
