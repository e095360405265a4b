"""Amounts and currencies: integers in the smallest unit of an active ISO 4217 currency."""

from __future__ import annotations

from typing import Annotated

from iso4217 import Currency

from ledger_engine.core.errors import InvalidRequest
from ledger_engine.core.records import Pattern

CurrencyCode = Annotated[str, Pattern("^[A-Z]{3}$")]

# the largest integer that every JSON reader keeps exact (docs/decisions.md#transactions-amount)
MAX_AMOUNT = 2**53 - 1

# Codes without a minor unit (gold, test and "no currency" codes) lack a smallest unit to count in.
DECIMALS = {currency.code: currency.exponent for currency in Currency if currency.exponent is not None}


def parse_currency(text: str) -> str:
    """Return the upper-case code; raises InvalidRequest unless it is an active ISO 4217 currency."""
    code = text.upper() if text.isascii() else text
    if code not in DECIMALS:
        raise InvalidRequest(
            "invalid_value", "currency must be an active ISO 4217 code, like EUR.", "currency"
        )
    return code
