"""Currencies of ISO 4217 and amounts in their smallest unit."""

from __future__ import annotations

import pytest

from ledger_engine.core.errors import InvalidRequest
from ledger_engine.core.money import MAX_AMOUNT, parse_currency


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
def test_a_code_that_is_no_active_currency_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        parse_currency(text)
    assert (refused.value.code, refused.value.param) == ("invalid_value", "currency")


def test_amounts_stay_within_what_every_json_reader_holds_exactly() -> None:
    assert MAX_AMOUNT == 2**53 - 1
    assert int(float(MAX_AMOUNT)) == MAX_AMOUNT
