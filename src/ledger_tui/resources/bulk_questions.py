"""The question before an action on several objects."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ledger_tui.resources.base import Action, Resource, currency_of
from ledger_tui.resources.events import known_by
from ledger_tui.state.money import format_amount
from ledger_tui.state.names import AccountNames
from ledger_tui.state.text import literal
from ledger_tui.state.trace import subject
from ledger_tui.state.window import Record

_NAMED = 5


def bulk_question(
    resource: Resource, action: Action, records: Sequence[Record], left_out: int, names: AccountNames
) -> str:
    """Return `Void 3 invoices?`, their sums by currency, and the first of them.

    `left_out` is how many more are marked, in whose state the action is not possible.
    """
    begins = action.asks or action.label.capitalize()
    lines = [f"{begins} {_counted(len(records), resource)}?"]
    sums: Counter[str] = Counter()
    for record in records:
        currency = currency_of(record, names)
        if isinstance(record.get("amount"), int) and currency is not None:
            sums[currency] += record["amount"]
    if sums:
        lines.append("in all " + ", ".join(f"{format_amount(s, c)} {literal(c)}" for c, s in sums.items()))
    lines.append("")
    for record in records[:_NAMED]:
        facts = " · ".join(known_by(subject(record) or record, names))
        lines.append(facts or literal(record.get("id")))
    if len(records) > _NAMED:
        lines.append(f"and {len(records) - _NAMED:,} more")
    if left_out:
        lines += ["", f"{left_out:,} more marked cannot be: their state does not allow it."]
    return "\n".join(lines)


def _counted(number: int, resource: Resource) -> str:
    """Return `1 invoice`, `3 invoices`, `2 deliveries`."""
    singular = resource.singular
    plural = (
        f"{singular[:-1]}ies" if singular.endswith("y") and singular[-2] not in "aeiou" else f"{singular}s"
    )
    return f"{number:,} {singular if number == 1 else plural}"
