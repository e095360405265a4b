"""Building a request's body from what was typed into a form. Pure; every error names its field."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ledger_tui.formats.money import BadAmount, parse_amount
from ledger_tui.resources.base import Field, Form
from ledger_tui.resources.invoices import parse_lines

_MOST_PAIRS = 20
_ITEM = re.compile(r"(?:(\d{1,9})(?:\s*[xX]\s+|\s*×\s*))?([^@;\s][^@;]*?)(?:\s*@\s*(\d{1,15}))?")
# `2xl shirt` may be a name, and `2,000 x Mug` cannot be read with certainty: neither is guessed at.
_LIKE_A_QUANTITY = re.compile(r"[-+]?\d[\d.,']*\s*[xX×*]")


class FieldErrors(ValueError):
    """The errors of a form, by the field's name."""

    def __init__(self, errors: Mapping[str, str]) -> None:
        super().__init__("; ".join(errors.values()))
        self.errors = dict(errors)


def body_of(form: Form, typed: Mapping[str, str], currency: str | None = None) -> dict[str, Any]:
    """Return the body to send; empty optional fields are left out.

    `currency` is that of the form's account, for its amount. Raises FieldErrors.
    """
    body: dict[str, Any] = {}
    errors: dict[str, str] = {}
    for field in form.fields:
        text = typed.get(field.name, "").strip()
        if not text:
            if field.required and not _given_otherwise(field, form, typed):
                errors[field.name] = _missing(field, form, typed)
            continue
        try:
            body[field.name] = _value(field, text, currency)
        except ValueError as error:
            errors[field.name] = str(error)
    if errors:
        raise FieldErrors(errors)
    return body


def _given_otherwise(field: Field, form: Form, typed: Mapping[str, str]) -> bool:
    """Return whether another field was given in place of this one."""
    return field.name in form.either and any(typed.get(name, "").strip() for name in form.either)


def _missing(field: Field, form: Form, typed: Mapping[str, str]) -> str:
    if field.name in form.either:
        return f"Give {' or '.join(form.either)}."
    return f"{field.label_with(typed)} is required."


def changes_of(
    form: Form, typed: Mapping[str, str], before: Mapping[str, str], currency: str | None = None
) -> dict[str, Any]:
    """Return the body of an edit: only the fields that changed; an emptied optional one is null.

    Raises FieldErrors, also when nothing was changed.
    """
    changed = [f for f in form.fields if typed.get(f.name, "").strip() != before.get(f.name, "").strip()]
    if not changed:
        raise FieldErrors({"": "Nothing was changed."})
    if any(f.kind == "account" for f in changed):  # in its currency the same text is another amount
        changed = [f for f in form.fields if f in changed or f.kind in ("amount", "lines")]
    body: dict[str, Any] = {f.name: None for f in changed if not f.required and f.name not in form.either}
    return body | body_of(replace(form, fields=tuple(changed)), typed, currency)


def _value(field: Field, text: str, currency: str | None) -> Any:
    if field.kind in ("amount", "lines"):
        if currency is None:
            raise BadAmount("Choose an account first: its currency decides how the amount is read.")
        return parse_amount(text, currency) if field.kind == "amount" else parse_lines(text, currency)
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
            raise ValueError(f"{key.strip()} is given twice.")
        pairs[key.strip()] = value.strip()
    if len(pairs) > _MOST_PAIRS:
        raise ValueError(f"At most {_MOST_PAIRS} pairs.")
    return pairs


def _items(text: str) -> list[dict[str, Any]]:
    """Return an order's items for `2 x Beans @ 1250; 3 × Mug; Filter`.

    An order has no currency, so prices are in the smallest unit.
    """
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
