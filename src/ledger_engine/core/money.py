"""Amounts and currencies: integers in the smallest unit of an active ISO 4217 currency."""

from __future__ import annotations

from typing import Annotated

from iso4217 import Currency

from ledger_engine.core.errors import InvalidRequest
from ledger_engine.core.records import Pattern

CurrencyCode = Annotated[str, Pattern("^[A-Z]{3}$")]

# The largest integer that every JSON reader represents exactly (docs/decisions.md#transactions-amount).
MAX_AMOUNT = 2**53 - 1

# Codes without a minor unit (gold, test and "no currency" codes) are left out, because they have no smallest
# unit.
DECIMALS = {currency.code: currency.exponent for currency in Currency if currency.exponent is not None}
# Matches the texts that `parse_currency` accepts. A pattern of JSON Schema has no flag to ignore the case.
ANY_CASE_PATTERN = f"^({'|'.join(''.join(f'[{c}{c.lower()}]' for c in code) for code in sorted(DECIMALS))})$"


def parse_currency(text: str) -> str:
    """Return the upper-case code. Raises InvalidRequest unless it is an active ISO 4217 currency."""
    code = text.upper() if text.isascii() else text
    if code not in DECIMALS:
        raise InvalidRequest(
            "invalid_value", "currency must be an active ISO 4217 code, like EUR.", "currency"
        )
    return code
