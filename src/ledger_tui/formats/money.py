"""Reads and writes amounts of money: the server counts 1250 cents, and the screen shows `12.50` EUR."""

from __future__ import annotations

import locale
import re
from decimal import Decimal
from functools import lru_cache

LARGEST_AMOUNT = 2**53 - 1
_AMOUNT = re.compile(r"\d+(?:\.\d*)?|\.\d+")
# An amount with the wrong decimal sign, such as 12,50. The pattern does not match 1,250: it may mean 1250.
_WRONG_SIGN = re.compile(r"[0-9]+,[0-9]{1,2}")
# A currency before or after an amount: 12.50 EUR, EUR12.50.
_CODE_BEFORE = re.compile(r"([A-Za-z]{3})\s*(?=[-.,\d])")
_CODE_AFTER = re.compile(r"(?<=[.,\d])\s*([A-Za-z]{3})$")
# A currency's sign before or after an amount: €12.50, 12.50 €. A minus can come before the sign.
_SIGN_BEFORE = re.compile(r"^(-?)([^\w\s])\s*(?=[-.,\d])")
_SIGN_AFTER = re.compile(r"(?<=[.,\d])(\s*)([^\w\s])$")
# The currencies that people write with each sign.
_CURRENCIES_OF_SIGN = {
    "$": "USD ARS AUD BBD BMD BND BSD BZD CAD CLP COP CUP DOP FJD GYD HKD JMD KYD LRD MXN NAD NZD SBD SGD SRD"
    " TTD TWD UYU XCD",
    "£": "GBP EGP FKP GIP LBP SDG SHP SSP SYP",
    "¥": "JPY CNY",
    "€": "EUR",
    "₦": "NGN",
    "₩": "KRW KPW",
    "₪": "ILS",
    "₫": "VND",
    "₱": "PHP",
    "₴": "UAH",
    "₹": "INR",
    "₺": "TRY",
    "₽": "RUB",
    "₿": "",
    "฿": "THB",
}
_SEPARATOR = re.compile(r"\d[,'’_\s]\d")  # a character that separates thousands in some countries
# An amount as the screen shows it, perhaps with thousands separators.
_GROUPED = re.compile(r"\d{1,3}(?:[, \u00a0\u202f]\d{3})+(?:\.\d*)?|\d+(?:\.\d*)?")
_SWAPPED = str.maketrans(",.", ".,")
MINUS = "−"  # U+2212, as wide as a plus


class BadAmount(ValueError):
    """The text is not an amount of its currency; the message is a sentence for the person who typed it."""


@lru_cache(maxsize=512)
def decimals(currency: str) -> int | None:
    """Return a currency's number of decimals (JPY 0, EUR 2, KWD 3); None if ISO 4217 does not list it."""
    import iso4217  # imported after the first paint, because iso4217 reads a table of 100 KB

    entry = iso4217.raw_table.get(currency.upper())
    units = str(entry["CcyMnrUnts"]) if entry else ""
    # for gold and similar units the table contains "N.A." instead of a number
    return int(units) if units.isdigit() else None


@lru_cache(maxsize=1)
def decimal_comma() -> bool:
    """Return whether the user's locale writes a comma before the decimals."""
    before = locale.setlocale(locale.LC_NUMERIC)
    try:
        locale.setlocale(locale.LC_NUMERIC, "")
        return locale.localeconv()["decimal_point"] == ","
    except locale.Error:  # the locale is not installed
        return False
    finally:
        locale.setlocale(locale.LC_NUMERIC, before)


def localised(text: str) -> str:
    """Return the text with commas and points swapped if the user's locale writes a decimal comma.

    The same swap converts from a decimal point to the locale's sign and back.
    """
    return text.translate(_SWAPPED) if decimal_comma() else text


def as_number(text: str) -> Decimal:
    """Return the number in an amount as the screen shows it. Raises InvalidOperation."""
    return Decimal(localised(text).replace(MINUS, "-").replace(",", "").rstrip("u"))


def format_amount(minor: int, currency: str | None, *, sign: bool = False) -> str:
    """Return `12.50` for `1250` EUR.

    If the currency is unknown, return the number of its smallest units, followed by `u`.
    """
    places = decimals(currency) if currency else None
    digits = str(abs(minor)).rjust((places or 0) + 1, "0")
    whole = digits[: len(digits) - places] if places else digits
    text = localised(f"{int(whole):,}" + (f".{digits[-places:]}" if places else ""))
    if places is None:
        text += "u"
    if minor < 0:
        return MINUS + text
    return "+" + text if sign else text


# An amount with separated thousands, as `format_amount` writes it.
_THOUSANDS = re.compile(r"[1-9][0-9]{0,2}(?:,[0-9]{3})+(\.[0-9]+)?")
_TOO_SMALL = "The amount must be more than zero."


def parse_amount(text: str, currency: str, *, least: int = 1) -> int:
    """Return `1250` for `12.50`, `12.50 EUR` or `€12.50`, exactly. The text must use the decimal sign of the
    user's locale. It may have thousands separators if these cannot be decimal signs, as in `1,250.00`.

    Raises BadAmount for a text that is not an amount of this currency, and for an amount below `least`.
    """
    places = decimals(currency)
    if places is None:
        raise BadAmount(f"The number of decimals of {currency} is not known.")
    text_written = localised(_without_sign(_without_currency(text.strip(), currency), currency))
    grouped = _THOUSANDS.fullmatch(text_written)
    # `1,250` alone could mean 1.25, unless the currency has no decimals.
    if grouped and bool(grouped[1]) == bool(places):
        text_written = text_written.replace(",", "")
    if _WRONG_SIGN.fullmatch(text_written) and places:
        signs = ("comma", "point") if decimal_comma() else ("point", "comma")
        example = localised(text_written.replace(",", "."))
        raise BadAmount(f"Write {example}: a decimal {signs[0]}, not a {signs[1]}.")
    if _AMOUNT.fullmatch(text_written.removeprefix("-")) and text_written.startswith("-"):
        raise BadAmount(_TOO_SMALL)
    if not _AMOUNT.fullmatch(text_written) or not text_written.isascii():
        rest = ", without thousands separators" if _SEPARATOR.search(text_written) else ""
        raise BadAmount(f"Write an amount like {localised(_example(places))}{rest}.")
    if len(text_written.partition(".")[2]) > places:
        example = localised(_example(places))
        raise BadAmount(f"{currency} has {_decimals_in_words(places)}: write an amount like {example}.")
    minor = int(Decimal(text_written).scaleb(places))
    if minor < least:
        raise BadAmount(_TOO_SMALL)
    if minor > LARGEST_AMOUNT:
        raise BadAmount(f"The largest amount is {format_amount(LARGEST_AMOUNT, currency)}.")
    return minor


def _without_currency(text: str, currency: str) -> str:
    """Return an amount without the code of its currency.

    Raises BadAmount for the code of another currency.
    """
    match = _CODE_BEFORE.match(text) or _CODE_AFTER.search(text)
    if match is None:
        return text
    code = match[1].upper()
    if code == currency.upper():
        return text[: match.start()] + text[match.end() :]
    if decimals(code) is None:
        return text
    raise BadAmount(f"The amount is in {code}, but the account is in {currency}.")


def _without_sign(text: str, currency: str) -> str:
    """Return an amount without the sign of its currency, such as `€`.

    Raises BadAmount for the sign of other currencies.
    """
    match = _SIGN_BEFORE.match(text) or _SIGN_AFTER.search(text)
    if match is None or (currencies := _CURRENCIES_OF_SIGN.get(match[2])) is None:
        return text
    if currency.upper() in currencies.split():
        return text[: match.start()] + match[1].strip() + text[match.end() :]
    raise BadAmount(f"The amount is in {match[2]}, but the account is in {currency}.")


def editable_amount(minor: int, currency: str) -> str:
    """Return `1234.50` for `123450` EUR: the amount as a user types it, for `parse_amount`."""
    return format_amount(minor, currency).replace("." if decimal_comma() else ",", "")


def is_same_amount(typed: str, amount: str) -> bool:
    """Return whether a typed text is an amount that `editable_amount` returned.

    The text may have thousands separators, and may leave out decimals that are zero.
    """
    text, number = localised(typed.strip()), localised(amount)
    if not _GROUPED.fullmatch(text) or not _AMOUNT.fullmatch(number):
        return typed.strip() == amount
    return Decimal(re.sub("[, \u00a0\u202f]", "", text)) == Decimal(number)


def amount_hint(currency: str) -> str:
    """Return an example of an amount as a user types it, such as `12.50, in EUR`.

    Return "" if the currency's number of decimals is unknown.
    """
    places = decimals(currency)
    return "" if places is None else f"{localised(_example(places))}, in {currency}"


def _example(places: int) -> str:
    return "1250" if places == 0 else "12." + "50000"[:places]


def _decimals_in_words(places: int) -> str:
    return {0: "no decimals", 1: "one decimal"}.get(places, f"{places} decimals")
