"""The ledger at an earlier moment: how requests name the moment, and which parts of an answer may be shown.

A moment is the end of a millisecond (docs/decisions.md#looking-back). Requests to a server that can look back
carry `at`. Any other server shows only the present, and the dashboard says so.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from ledger_tui.client.records import Record

if TYPE_CHECKING:
    from ledger_tui.client.session import Session

PART = "looking back"  # the name of this part of the interface, which the contract does not require
NOT_OFFERED = "This server does not show earlier moments."

# the paths whose requests accept the parameter `at`; a request for a statement gets the parameter `to`
# instead
_TAKES_AT = re.compile(
    r"/v1/(?:(?:accounts|invoices)(?:/[^/]+)?|transactions|events|requests)|/api/(?:users|orders)(?:/[^/]+)?"
)
_STATEMENT = re.compile(r"/v1/accounts/[^/]+/statement")

# The choice of `at_moment`: a tuple with the moment, or a tuple with None for the present. Without a choice,
# the variable itself is None.
_moment_choice: ContextVar[tuple[int | None] | None] = ContextVar("_moment_choice", default=None)


@contextmanager
def at_moment(ms: int | None) -> Iterator[None]:
    """Within this context, requests read the moment `ms`, not the moment on screen; None is the present."""
    token = _moment_choice.set((ms,))
    try:
        yield
    finally:
        _moment_choice.reset(token)


def the_present() -> AbstractContextManager[None]:
    """Within this context requests read the present, not the moment on screen."""
    return at_moment(None)


def moment_text(ms: int) -> str:
    """Return a moment as the interface writes times."""
    at = datetime.fromtimestamp(ms / 1000, UTC)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def moment_ms(text: object) -> int | None:
    """Return the milliseconds of a time of the interface; None for any other text."""
    try:
        return round(datetime.fromisoformat(str(text).replace("Z", "+00:00")).timestamp() * 1000)
    except (ValueError, OverflowError):
        return None


def shown_moment(session: Session) -> int | None:
    """Return the moment, in milliseconds, that a request must read if it is sent now; None is the present."""
    choice = _moment_choice.get()
    return session.moment_ms if choice is None else choice[0]


def params_at(path: str, params: Mapping[str, str] | None, ms: int) -> dict[str, str]:
    """Return the query parameters that read this path at the moment `ms`."""
    query, at = dict(params or {}), moment_text(ms)
    if _TAKES_AT.fullmatch(path):
        query.setdefault("at", at)
    elif _STATEMENT.fullmatch(path):
        query["to"] = min(query.get("to", at), at)
    return query


def body_at(body: Any, ms: int) -> Any:
    """Return an answer without the parts that are newer than the moment `ms`."""
    if not isinstance(body, dict):
        return body
    if not isinstance(rows := body.get("data"), list):
        return _record_at(body, moment_text(ms))
    return {**body, "data": rows_at([row for row in rows if isinstance(row, dict)], ms)}


def rows_at(rows: Iterable[Record], ms: int) -> list[Record]:
    """Return the rows of a list that existed at the moment `ms`, as they were then."""
    at = moment_text(ms)
    return [_record_at(row, at) for row in rows if not _is_later(row, at)]


def _is_later(row: Record, at: str) -> bool:
    created = row.get("created")
    return isinstance(created, str) and created > at


def _record_at(record: Record, at: str) -> Record:
    """Return a record as it was at `at`: a delivery without later attempts, a key without a later revocation.

    If a delivery has later attempts, it was pending at `at`, and the first later attempt was its next
    attempt.
    """
    if str(record.get("revoked_at") or "") > at:
        record = {**record, "revoked_at": None}
    attempts = record.get("attempts")
    if not isinstance(attempts, list):
        return record
    earlier = [each for each in attempts if isinstance(each, dict) and str(each.get("attempted_at")) <= at]
    if len(earlier) == len(attempts):
        return record
    following = next(each for each in attempts if each not in earlier)
    due = following.get("attempted_at") if isinstance(following, dict) else None
    return {**record, "attempts": earlier, "status": "pending", "next_attempt_at": due}


# ---------------------------------------------------------------------- what happened, in order of time


@dataclass(frozen=True)
class Happening:
    """An event at its time; `about` contains its type and the name of its object."""

    ms: int
    id: str
    about: str


def happenings(rows: Sequence[Record]) -> list[Happening]:
    """Turn a list of events, newest first, into happenings, oldest first."""
    result = []
    for row in reversed(rows):
        ms = moment_ms(row.get("created"))
        if ms is not None:
            result.append(Happening(ms, str(row.get("id")), _about(row)))
    return result


def _about(row: Record) -> str:
    """Return an event in a few words: its type, and the number or name by which people know its object."""
    data = row.get("data")
    subject = data.get("object") if isinstance(data, dict) else None
    if not isinstance(subject, dict):
        subject = {}
    names = (subject.get(name) for name in ("number", "name", "description", "customer", "email"))
    name = next((each for each in names if isinstance(each, str) and each), subject.get("id", ""))
    return f"{row.get('type')} {name}".rstrip()


# ---------------------------------------------------------------------- what changed between two moments

_NAMES = ("number", "name", "customer", "email")


def difference_row(change: Record, start: str, end: str) -> Record:
    """Return a change as a row: an account's two balances, or the two states of any other object."""
    was, is_ = (each if isinstance(each := change.get(name), dict) else None for name in ("before", "after"))
    state = is_ or was or {}
    row = {
        "id": change.get("id"),
        "object": "change",
        "kind": change.get("kind"),
        "name": next((state[name] for name in _NAMES if state.get(name)), change.get("id")),
        "currency": state.get("currency"),
        "from": start,
        "to": end,
        "was": was,
        "is": is_,
    }
    if change.get("kind") != "account":
        return row | {"before": (was or {}).get("status"), "after": (is_ or {}).get("status")}
    before, after = (0 if each is None else each.get("balance") for each in (was, is_))
    row |= {"before": before, "after": after, "postings": change.get("postings")}
    if isinstance(before, int) and isinstance(after, int):
        row["difference"] = after - before
    return row


def with_shares(rows: list[Record]) -> list[Record]:
    """Return the rows; a row with a difference gets `share`, a number from -1 to 1.

    The share is the difference of the row, divided by the largest absolute difference of the rows with the
    same currency.
    """
    largest: dict[str, int] = {}
    for row in rows:
        currency = row.get("currency")
        largest[str(currency)] = max(largest.get(str(currency), 0), abs(row.get("difference", 0)))
    return [
        {**row, "share": row["difference"] / largest[str(row.get("currency"))]}
        if row.get("difference")
        else row
        for row in rows
    ]


def changed_keys(keys: Iterable[Record], start: str, end: str) -> list[Record]:
    """Return a change for each API key that was created or revoked between two moments."""

    def state_at(key: Record, at: str) -> Record | None:
        revocation = key.get("revoked_at")
        status = "revoked" if isinstance(revocation, str) and revocation <= at else "active"
        return None if _is_later(key, at) else {**key, "status": status}

    changes = (
        {"id": k.get("id"), "kind": "key", "before": state_at(k, start), "after": state_at(k, end)}
        for k in keys
    )
    return [change for change in changes if change["before"] != change["after"]]


def balance_change(transaction: Record) -> int:
    """Return by how much a transaction changes the balance of its account."""
    amount = transaction.get("amount")
    if not isinstance(amount, int):
        return 0
    return amount if transaction.get("type") == "credit" else -amount


def balances(account: Record, newest_first: Sequence[Record]) -> list[int]:
    """Return the balance after each of an account's newest transactions, then the balance before all of them.

    Each balance is the transaction's `balance_after`. Without this field, the balance is computed: the
    function begins with the account's balance, and takes back one transaction after the other.
    """
    balance = account.get("balance")
    running = balance if isinstance(balance, int) else 0
    results = []
    for transaction in newest_first:
        # Prefer `balance_after`: the transactions were read at another time than the account's balance, so
        # the balance may contain a posting that the list lacks, or lack a posting of the list.
        after = transaction.get("balance_after")
        running = after if isinstance(after, int) else running
        results.append(running)
        running -= balance_change(transaction)
    return [*results, running]
