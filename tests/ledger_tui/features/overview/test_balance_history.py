"""Earlier sums are computed from the present sum and the later postings."""

from datetime import UTC, datetime
from typing import Any

import pytest

from ledger_tui.client.totals import Sum
from ledger_tui.features.overview.balance_history import BalanceHistory

NOW = 1_795_000_000.0


def posting(number: int, ago: float, amount: int, kind: str = "credit") -> dict[str, Any]:
    created = datetime.fromtimestamp(NOW - ago, UTC).isoformat()
    return {"id": f"txn_{number}", "account": "acc_1", "amount": amount, "type": kind, "created": created}


def euro(_account: object) -> str:
    return "EUR"


def earlier(history: BalanceHistory, now: float = 100) -> list[int]:
    return [
        *history.earlier([Sum("EUR", now, 1)], NOW, 40, 5).get("EUR", ())
    ]  # at 40, 30, 20, 10 and 0 s ago


def test_a_sum_was_as_much_less_as_was_posted_since() -> None:
    history = BalanceHistory()
    history.take(
        [posting(3, 5, 7), posting(2, 15, 20, "debit"), posting(1, 35, 3)], all_read=True, currency=euro
    )
    assert earlier(history) == [110, 113, 113, 93, 100]


def test_later_transactions_are_added_once() -> None:
    history = BalanceHistory()
    first = [posting(1, 35, 3)]
    history.take(first, all_read=True, currency=euro)
    history.take([posting(2, 5, 7), *first], all_read=False, currency=euro)
    assert earlier(history) == [90, 93, 93, 93, 100]


def test_before_the_oldest_posting_read_nothing_is_claimed() -> None:
    history = BalanceHistory()
    history.take([posting(2, 5, 7), posting(1, 15, 3)], all_read=False, currency=euro)
    assert earlier(history) == [93, 100]


def test_after_a_gap_what_was_before_it_is_forgotten() -> None:
    history = BalanceHistory()
    history.take([posting(1, 35, 3)], all_read=True, currency=euro)
    history.take([posting(9, 5, 7)], all_read=False, currency=euro)
    assert earlier(history) == [100]


def test_without_times_or_postings_there_is_no_course() -> None:
    history = BalanceHistory()
    assert earlier(history) == []
    history.take(
        [{"id": "txn_1", "account": "acc_1", "amount": 5, "type": "credit"}], all_read=True, currency=euro
    )
    assert earlier(history) == []


def test_a_posting_without_an_amount_changes_no_sum_and_neither_does_one_of_an_unknown_account() -> None:
    def known(account: object) -> str | None:
        return "EUR" if account == "acc_1" else None

    history = BalanceHistory()
    rows = [posting(4, 5, 7), posting(3, 6, 9) | {"amount": None}, posting(2, 7, 9) | {"account": "acc_9"}]
    history.take([*rows, posting(1, 35, 3)], all_read=True, currency=known)
    assert earlier(history) == [90, 93, 93, 93, 100]


def test_however_much_is_posted_nothing_is_claimed_before_what_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ledger_tui.features.overview.balance_history._POSTED_KEPT", 2)
    history = BalanceHistory()
    rows = [posting(3, 5, 7), posting(2, 15, 20), posting(1, 35, 3)]
    history.take(rows, all_read=True, currency=euro)
    assert earlier(history) == [73, 73, 93, 100]


def test_a_thousand_postings_are_all_kept() -> None:
    history = BalanceHistory()
    rows = [posting(1_000 - number, 35 * number / 1_000, 1) for number in range(1_000)]
    history.take(rows, all_read=True, currency=euro)
    assert earlier(history, 1_000) == [1, 143, 429, 715, 1_000]
