"""From what was typed into a form to the body of a request. Pure; every refusal names its field."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ledger_tui.resources.base import Field, Form
from ledger_tui.state.money import BadAmount, parse_amount

_MOST_PAIRS = 20
_ITEM = re.compile(r"(?:(\d{1,9})(?:\s*[xX]\s+|\s*×\s*))?([^@;\s][^@;]*?)(?:\s*@\s*(\d{1,15}))?")
# `2xl shirt` may be a name, and `2,000 x Mug` is not one: neither is guessed at.
_LIKE_A_QUANTITY = re.compile(r"[-+]?\d[\d.,']*\s*[xX×*]")


class FieldErrors(ValueError):
    """What is wrong, by the field's name."""

    def __init__(self, errors: Mapping[str, str]) -> None:
        super().__init__("; ".join(errors.values()))
        self.errors = dict(errors)


def body_of(form: Form, typed: Mapping[str, str], currency: str | None = None) -> dict[str, Any]:
    """The body to send; empty optional fields are left out.

    `currency` is that of the form's account, for its amount. Raises FieldErrors.
    """
    body: dict[str, Any] = {}
    errors: dict[str, str] = {}
    for field in form.fields:
        text = typed.get(field.name, "").strip()
        if not text:
            if field.required:
                errors[field.name] = f"{field.label} is needed."
            continue
        try:
            body[field.name] = _value(field, text, currency)
        except ValueError as error:
            errors[field.name] = str(error)
    if errors:
        raise FieldErrors(errors)
    return body


def changes_of(
    form: Form, typed: Mapping[str, str], before: Mapping[str, str], currency: str | None = None
) -> dict[str, Any]:
    """The body of an edit: only the fields that say something else than before; an emptied optional one
    is null. Raises FieldErrors, also when nothing was changed."""
    changed = [f for f in form.fields if typed.get(f.name, "").strip() != before.get(f.name, "").strip()]
    if not changed:
        raise FieldErrors({"": "Nothing was changed."})
    if any(f.kind == "account" for f in changed):  # the same text says another amount in its currency
        changed = [f for f in form.fields if f in changed or f.kind == "amount"]
    body: dict[str, Any] = {f.name: None for f in changed if not f.required}
    return body | body_of(replace(form, fields=tuple(changed)), typed, currency)


def _value(field: Field, text: str, currency: str | None) -> Any:
    if field.kind == "amount":
        if currency is None:
            raise BadAmount("Choose an account first: its currency decides how the amount is read.")
        return parse_amount(text, currency)
    if field.kind == "currency":
        return text.upper()
    if field.kind == "metadata":
        return _pairs(text)
    if field.kind == "items":
        return _items(text)
    if field.kind == "words":
        return text.split()
    return text


def _pairs(text: str) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for part in filter(None, (piece.strip() for piece in text.split(";"))):
        key, equals, value = part.partition("=")
        if not equals or not key.strip():
            raise ValueError("Write pairs like team=north; region=eu.")
        if key.strip() in pairs:
            raise ValueError(f"{key.strip()} is there twice.")
        pairs[key.strip()] = value.strip()
    if len(pairs) > _MOST_PAIRS:
        raise ValueError(f"At most {_MOST_PAIRS} pairs.")
    return pairs


def _items(text: str) -> list[dict[str, Any]]:
    """`2 x Beans @ 1250; 3 × Mug; Filter` as an order's items; without a currency, prices are in the smallest
    unit."""
    items: list[dict[str, Any]] = []
    for part in filter(None, (piece.strip() for piece in text.split(";"))):
        found = _ITEM.fullmatch(part)
        if found is None:
            raise ValueError("Write items like 2 x Beans @ 1250; Filter.")
        quantity, name, unit_amount = found.groups()
        if quantity is None and _LIKE_A_QUANTITY.match(name):
            raise ValueError("Is that a quantity? Write 2 x Mug; for a name that begins so, 1 x 2xl Shirt.")
        item: dict[str, Any] = {"name": name, "quantity": int(quantity or 1)}
        items.append(item | ({"unit_amount": int(unit_amount)} if unit_amount else {}))
    return items
