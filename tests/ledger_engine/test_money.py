"""Currencies of ISO 4217 and amounts in their smallest unit."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger_engine.errors import InvalidRequest
from ledger_engine.money import DECIMALS, MAX_AMOUNT, in_major_units, parse_currency


@pytest.mark.parametrize(("text", "code"), [("EUR", "EUR"), ("eur", "EUR"), ("Jpy", "JPY"), ("kwd", "KWD")])
def test_a_currency_is_taken_in_any_case_and_kept_in_upper_case(text: str, code: str) -> None:
    assert parse_currency(text) == code


@pytest.mark.parametrize(
    "text",
    [
        "",
        "EU",
        "EURO",
        "ABC",
        " EUR",
        "EUR ",
        "DEM",  # replaced long ago
        "XAU",  # gold has no smallest unit
        "XXX",
        "XTS",
        "uſd",  # ſ becomes S in upper case
        "ＥＵＲ",
        "978",
    ],
)
def test_what_is_no_active_currency_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        parse_currency(text)
    assert (refused.value.code, refused.value.param) == ("invalid_value", "currency")


def test_amounts_stay_within_what_every_json_reader_holds_exactly() -> None:
    assert MAX_AMOUNT == 2**53 - 1
    assert int(float(MAX_AMOUNT)) == MAX_AMOUNT


@pytest.mark.parametrize(
    ("amount", "currency", "text"),
    [
        (1250, "EUR", "12.50"),
        (5, "EUR", "0.05"),
        (0, "EUR", "0.00"),
        (-5, "EUR", "-0.05"),
        (-1250, "EUR", "-12.50"),
        (1250, "JPY", "1250"),
        (-1, "JPY", "-1"),
        (1250, "KWD", "1.250"),
        (7, "KWD", "0.007"),
        (MAX_AMOUNT, "EUR", "90071992547409.91"),
    ],
)
def test_an_amount_is_shown_in_the_currencys_own_decimals(amount: int, currency: str, text: str) -> None:
    assert in_major_units(amount, currency) == text


@given(st.integers(min_value=-MAX_AMOUNT, max_value=MAX_AMOUNT), st.sampled_from(sorted(DECIMALS)))
def test_no_cent_is_lost_in_showing(amount: int, currency: str) -> None:
    shown = Decimal(in_major_units(amount, currency))
    assert shown.scaleb(DECIMALS[currency]) == amount
