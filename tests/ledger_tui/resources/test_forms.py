import pytest

from ledger_tui.resources.accounts import ACCOUNTS
from ledger_tui.resources.forms import FieldErrors, body_of
from ledger_tui.resources.transactions import TRANSACTIONS

assert ACCOUNTS.form
assert TRANSACTIONS.form
ACCOUNT, TRANSACTION = ACCOUNTS.form, TRANSACTIONS.form


def test_a_transaction_is_written_in_the_smallest_unit() -> None:
    typed = {"account": "acc_1", "type": "debit", "amount": "1.5", "description": "  "}
    assert body_of(TRANSACTION, typed, "KWD") == {"account": "acc_1", "type": "debit", "amount": 1500}


def test_every_field_at_fault_is_named() -> None:
    with pytest.raises(FieldErrors) as refused:
        body_of(TRANSACTION, {"type": "credit", "amount": "12.505", "account": "acc_1"}, "EUR")
    assert refused.value.errors == {"amount": "EUR has 2 decimals."}
    with pytest.raises(FieldErrors) as refused:
        body_of(TRANSACTION, {"type": "credit"})
    assert refused.value.errors == {"account": "Account is needed.", "amount": "Amount is needed."}


def test_metadata_are_pairs() -> None:
    typed = {"name": "Till", "currency": "eur", "metadata": "team = north; note=a=b;"}
    expected = {"name": "Till", "currency": "EUR", "metadata": {"team": "north", "note": "a=b"}}
    assert body_of(ACCOUNT, typed) == expected


@pytest.mark.parametrize("typed", ["north", "=x", "a=1; a=2", "; ".join(f"k{n}=1" for n in range(21))])
def test_metadata_that_are_no_pairs_are_refused(typed: str) -> None:
    with pytest.raises(FieldErrors) as refused:
        body_of(ACCOUNT, {"name": "Till", "currency": "EUR", "metadata": typed})
    assert [*refused.value.errors] == ["metadata"]
