"""The `[notify]` table of the config file: what the user is notified of, and how."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

DELIVERY_KINDS = ("delivery.failed", "delivery.retrying")
WAYS = ("bell", "osc9")
_KIND = re.compile(r"\*|[a-z_]+\.(?:[a-z_]+|\*)")


@dataclass(frozen=True, slots=True)
class Notify:
    """`on` has types of events, such as `invoice.paid` or `invoice.*`, and DELIVERY_KINDS; `by` has WAYS."""

    on: tuple[str, ...] = ()
    by: tuple[str, ...] = WAYS


def parse_notify(table: Any, bad: Callable[[str, str], Exception]) -> Notify:
    """Return what the table says. Raises what `bad` makes of an entry and a reason."""
    if not isinstance(table, dict):
        raise bad("notify", "must be a table")
    for entry, value in table.items():
        if entry not in ("on", "by"):
            raise bad(f"notify.{entry}", "is not an entry of it; the entries are on and by")
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise bad(f"notify.{entry}", "must be a list of texts in quotes")
        for each in value:
            if entry == "by" and each not in WAYS:
                raise bad("notify.by", f"has only {' and '.join(WAYS)}")
            if entry == "on" and not _KIND.fullmatch(each):
                reason = 'has types of events, like "invoice.paid" or "invoice.*", and ' + " and ".join(
                    f'"{kind}"' for kind in DELIVERY_KINDS
                )
                raise bad("notify.on", reason)
    return Notify(tuple(table.get("on", ())), tuple(table.get("by", WAYS)))
