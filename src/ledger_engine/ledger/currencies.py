"""The currencies that an account may have (docs/decisions.md#accounts-currencies)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Literal

import iso4217

from ledger_engine.core.errors import InvalidRequest
from ledger_engine.core.money import DECIMALS, CurrencyCode
from ledger_engine.store.pages import Page, PageRequest


@dataclass(slots=True)
class Currency:
    """A currency. An amount of 1 is one unit of the last decimal: 0.01 if `decimals` is 2."""

    object: Literal["currency"]
    code: CurrencyCode
    name: str
    decimals: int


@cache
def _currencies() -> list[Currency]:
    return [
        Currency("currency", code, iso4217.Currency(code).currency_name, decimals)
        for code, decimals in sorted(DECIMALS.items())
    ]


def page(request: PageRequest) -> Page[Currency]:
    """Return a page of the currencies, in the order of their codes.

    The cursor is a code. Raises InvalidRequest `invalid_cursor`.
    """
    if request.after is not None and request.after not in DECIMALS:
        raise InvalidRequest(
            "invalid_cursor", f"{request.cursor} must be the code of a currency of this list.", request.cursor
        )
    rest = [currency for currency in _currencies() if request.after is None or currency.code > request.after]
    items, has_more = rest[: request.limit], len(rest) > request.limit
    return Page(items, has_more, items[-1].code if has_more else None)
