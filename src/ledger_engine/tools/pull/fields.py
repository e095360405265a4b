"""The fields of a record as another server has sent it, checked before anything of it is stored.

What the contract leaves out of a record is filled in: a time that is not shown is that of the pull.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ledger_engine.core.clock import DAY, parse_moment
from ledger_engine.core.errors import InvalidRequest
from ledger_engine.core.ids import is_id, moment_of
from ledger_engine.core.money import MAX_AMOUNT

_AHEAD_MAX = DAY  # of this machine's clock


class Unusable(Exception):
    """A record that a ledger of this program cannot hold; the text says why."""


class Fields:
    """The fields of one record. Each method raises Unusable for a value that is no such thing."""

    def __init__(self, kind: str, id: str, record: Mapping[str, Any], now: int) -> None:
        self.id = id
        self.record = record
        self._kind = kind
        self._now = now

    @property
    def created(self) -> int:
        """When the record was made, in milliseconds."""
        return self.time("created", self._now)

    def time(self, name: str, otherwise: int) -> int:
        """Return a time in milliseconds, `otherwise` where it is not shown."""
        found = self.time_or_none(name)
        return otherwise if found is None else found

    def time_or_none(self, name: str) -> int | None:
        text = self.text_or_none(name)
        try:
            return None if text is None else parse_moment(text, name)
        except InvalidRequest as error:
            raise self.wrong(name, "no time") from error

    def text(self, name: str, otherwise: str | None = None) -> str:
        found = self.text_or_none(name)
        if found is None:
            found = otherwise
        if found is None:
            raise self.wrong(name, "missing")
        return found

    def text_or_none(self, name: str) -> str | None:
        value = self.record.get(name)
        if value is not None and not isinstance(value, str):
            raise self.wrong(name, "no text")
        return value

    def one_of(self, name: str, values: tuple[str, ...], otherwise: str | None = None) -> str:
        found = self.text(name, otherwise)
        if found not in values:
            raise self.wrong(name, f"none of {', '.join(values)}")
        return found

    def amount(self, name: str, least: int = 0) -> int:
        value = self.record.get(name)
        if type(value) is not int or not least <= value <= MAX_AMOUNT:
            raise self.wrong(name, f"no integer from {least:,} to {MAX_AMOUNT:,}")
        return value

    def integer_or_none(self, name: str) -> int | None:
        value = self.record.get(name)
        if value is not None and type(value) is not int:
            raise self.wrong(name, "no integer")
        return value

    def texts(self, name: str) -> dict[str, str]:
        """Return an object whose values are texts, {} where it is not shown."""
        value = self.record.get(name) or {}
        if not isinstance(value, dict) or not all(isinstance(each, str) for each in value.values()):
            raise self.wrong(name, "no object of texts")
        return value

    def objects(self, name: str) -> list[dict[str, Any]] | None:
        value = self.record.get(name)
        if value is not None and not (
            isinstance(value, list) and all(isinstance(each, dict) for each in value)
        ):
            raise self.wrong(name, "no list of objects")
        return value

    def wrong(self, name: str, what: str) -> Unusable:
        """Return the error for a field; `what` completes the sentence."""
        return Unusable(f"{self._kind} {self.id}: its {name} is {what}")


def id_of(record: Mapping[str, Any], prefix: str, now: int) -> str:
    """Return the id of a record. Raises Unusable for one that this program could not have made.

    The order of ids must be that of time, as all lists of a copy are in the order of ids.
    """
    id = record.get("id")
    if not isinstance(id, str) or not is_id(id, prefix):
        raise Unusable(f"the id {str(id)[:64]!r} has not the form {prefix}_ and 26 letters and digits")
    if moment_of(id) > now + _AHEAD_MAX:
        raise Unusable(f"the id {id} is not in the order of time, or is from the future")
    return id


def total_of(items: list[dict[str, Any]]) -> int | None:
    """Return the sum of quantity × unit_amount as an order has it; None where there is none."""
    total = 0
    for item in items:
        quantity, amount = item.get("quantity", 1), item.get("unit_amount", 0)
        if type(quantity) is not int or type(amount) is not int:
            return None
        total += quantity * amount
    return total


def load(text: str) -> dict[str, Any]:
    """Return a record that was kept as text."""
    record: dict[str, Any] = json.loads(text)
    return record
