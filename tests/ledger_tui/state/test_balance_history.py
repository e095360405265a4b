"""Earlier sums follow from the present one and what was posted since."""

from datetime import UTC, datetime
from typing import Any

from ledger_tui.state.balance_history import BalanceHistory
from ledger_tui.state.figures import Sum

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
        [posting(3, 5, 7), posting(2, 15, 20, "debit"), posting(1, 35, 3)], reached=True, currency=euro
    )
    assert earlier(history) == [110, 113, 113, 93, 100]


def test_what_comes_later_is_added_once() -> None:
    history = BalanceHistory()
    first = [posting(1, 35, 3)]
    history.take(first, reached=True, currency=euro)
    history.take([posting(2, 5, 7), *first], reached=False, currency=euro)
    assert earlier(history) == [90, 93, 93, 93, 100]


def test_before_the_oldest_posting_read_nothing_is_claimed() -> None:
    history = BalanceHistory()
    history.take([posting(2, 5, 7), posting(1, 15, 3)], reached=False, currency=euro)
    assert earlier(history) == [93, 100]


def test_after_a_gap_what_was_before_it_is_forgotten() -> None:
    history = BalanceHistory()
    history.take([posting(1, 35, 3)], reached=True, currency=euro)
    history.take([posting(9, 5, 7)], reached=False, currency=euro)
    assert earlier(history) == [100]


def test_without_times_or_postings_there_is_no_course() -> None:
    history = BalanceHistory()
    assert earlier(history) == []
    history.take(
        [{"id": "txn_1", "account": "acc_1", "amount": 5, "type": "credit"}], reached=True, currency=euro
    )
    assert earlier(history) == []
