from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger_tui.formats import money
from ledger_tui.formats.money import (
    LARGEST_AMOUNT,
    BadAmount,
    as_number,
    decimals,
    editable_amount,
    format_amount,
    is_same_amount,
    parse_amount,
)


@pytest.mark.parametrize(
    ("minor", "currency", "shown"),
    [
        (1250, "EUR", "12.50"),
        (5, "EUR", "0.05"),
        (1250, "JPY", "1,250"),
        (1250, "KWD", "1.250"),
        (123456789, "USD", "1,234,567.89"),
        (-1250, "EUR", "−12.50"),
        (0, "KWD", "0.000"),
        (1250, None, "1,250u"),
        (1250, "XAU", "1,250u"),
    ],
)
def test_an_amount_is_shown_with_the_decimals_of_its_currency(
    minor: int, currency: str | None, shown: str
) -> None:
    assert format_amount(minor, currency) == shown


@pytest.mark.parametrize(
    ("typed", "currency", "minor"),
    [
        ("12.50", "EUR", 1250),
        ("12.5", "EUR", 1250),
        ("12", "EUR", 1200),
        (".5", "EUR", 50),
        ("7.", "EUR", 700),
        ("1250", "JPY", 1250),
        ("1.25", "KWD", 1250),
        (" 0.01 ", "EUR", 1),
        ("25 EUR", "EUR", 2500),
        ("25.5eur", "EUR", 2550),
        (" EUR 25", "EUR", 2500),
        ("JPY1250", "JPY", 1250),
    ],
)
def test_an_amount_is_read_in_major_units(typed: str, currency: str, minor: int) -> None:
    assert parse_amount(typed, currency) == minor


@pytest.mark.parametrize(
    ("typed", "currency", "minor"),
    [
        ("1,250.00", "EUR", 125000),
        ("€1,250.00", "EUR", 125000),
        ("1,234,567.8", "USD", 123456780),
        ("1,250", "JPY", 1250),
    ],
)
def test_an_amount_may_have_thousands_separators_that_cannot_be_decimal_signs(
    typed: str, currency: str, minor: int
) -> None:
    assert parse_amount(typed, currency) == minor


@pytest.mark.parametrize(
    ("typed", "currency", "minor"),
    [
        ("€25", "EUR", 2500),
        ("25€", "EUR", 2500),
        ("25.50 €", "EUR", 2550),
        ("€ .5", "EUR", 50),
        ("EUR 25", "EUR", 2500),
        ("€25 EUR", "EUR", 2500),
        ("$5", "USD", 500),
        ("$5", "CAD", 500),
        ("¥1250", "JPY", 1250),
        ("£5", "GBP", 500),
    ],
)
def test_an_amount_may_have_the_sign_or_the_code_of_its_currency(
    typed: str, currency: str, minor: int
) -> None:
    assert parse_amount(typed, currency) == minor


@pytest.mark.parametrize(
    ("typed", "currency", "sentence"),
    [
        ("12.505", "EUR", "EUR has 2 decimals: write an amount like 12.50."),
        ("12.5", "JPY", "JPY has no decimals: write an amount like 1250."),
        ("12", "XAU", "The number of decimals of XAU is not known."),
        ("0", "EUR", "The amount must be more than zero."),
        ("-5", "EUR", "The amount must be more than zero."),
        ("-x", "EUR", "Write an amount like 12.50."),
        ("1e3", "EUR", "Write an amount like 12.50."),
        ("25,50", "EUR", "Write 25.50: a decimal point, not a comma."),
        ("12,50.00", "EUR", "Write an amount like 12.50, without thousands separators."),
        ("1,250.005", "EUR", "EUR has 2 decimals: write an amount like 12.50."),
        ("1,250", "KWD", "Write an amount like 12.500, without thousands separators."),
        ("12,50", "JPY", "Write an amount like 1250, without thousands separators."),
        ("0,250", "JPY", "Write an amount like 1250, without thousands separators."),
        ("١٢", "EUR", "Write an amount like 12.50."),
        ("1 250", "EUR", "Write an amount like 12.50, without thousands separators."),
        ("NaN", "EUR", "Write an amount like 12.50."),
        ("EUR", "EUR", "Write an amount like 12.50."),
        ("25 abc", "EUR", "Write an amount like 12.50."),
        ("25 EUR EUR", "EUR", "Write an amount like 12.50."),
        ("25 usd", "EUR", "The amount is in USD, but the account is in EUR."),
        ("JPY 25", "EUR", "The amount is in JPY, but the account is in EUR."),
        ("$5", "EUR", "The amount is in $, but the account is in EUR."),
        ("5 £", "USD", "The amount is in £, but the account is in USD."),
        ("₿1", "EUR", "The amount is in ₿, but the account is in EUR."),
        ("-€5", "EUR", "The amount must be more than zero."),
        ("€€5", "EUR", "Write an amount like 12.50."),
        ("€", "EUR", "Write an amount like 12.50."),
        ("€25,50", "EUR", "Write 25.50: a decimal point, not a comma."),
        ("€1,25.00", "EUR", "Write an amount like 12.50, without thousands separators."),
        ("%5", "EUR", "Write an amount like 12.50."),
        ("25,50 EUR", "EUR", "Write 25.50: a decimal point, not a comma."),
        ("-5 EUR", "EUR", "The amount must be more than zero."),
        ("90071992547409.92", "EUR", "The largest amount is 90,071,992,547,409.91."),
    ],
)
def test_a_text_that_is_no_amount_is_refused_with_a_sentence(
    typed: str, currency: str, sentence: str
) -> None:
    with pytest.raises(BadAmount) as refused:
        parse_amount(typed, currency)
    assert str(refused.value) == sentence


@given(st.integers(1, LARGEST_AMOUNT), st.sampled_from(["EUR", "JPY", "KWD", "CLF", "USD"]))
def test_a_shown_amount_reads_back_exactly(minor: int, currency: str) -> None:
    assert decimals(currency) in (0, 2, 3, 4)
    assert parse_amount(format_amount(minor, currency).replace(",", ""), currency) == minor


def test_where_the_locale_has_a_comma_amounts_are_written_and_typed_with_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(money, "decimal_comma", lambda: True)
    assert format_amount(-123450, "EUR") == "−1.234,50"
    assert parse_amount("12,5", "EUR") == 1250
    assert editable_amount(123450, "EUR") == "1234,50"
    assert as_number("−1.234,50") == Decimal("-1234.5")
    with pytest.raises(BadAmount, match="Write 12,5: a decimal comma, not a point"):
        parse_amount("12.5", "EUR")


@pytest.mark.parametrize(
    ("typed", "amount", "is_same"),
    [
        ("999,999,999", "999999999.00", True),
        ("999,999,999.00", "999999999.00", True),
        ("999 999 999", "999999999.00", True),
        ("12.5", "12.50", True),
        ("12", "12.50", False),
        ("12,50", "1250.00", False),
        ("1,250", "1250", True),
        ("1,250", "1.250", False),
        ("", "12.50", False),
        ("y", "12.50", False),
        ("-12.50", "12.50", False),
    ],
)
def test_an_amount_that_confirms_may_be_typed_as_it_is_shown(typed: str, amount: str, is_same: bool) -> None:
    assert is_same_amount(typed, amount) is is_same
