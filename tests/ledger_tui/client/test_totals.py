from datetime import UTC, date, datetime

from ledger_tui.client.totals import (
    _KEPT_BUCKETS,
    BUCKET_SECONDS,
    PostingRate,
    Sum,
    moment,
    overdue_by_age,
    sums_of,
)

S = BUCKET_SECONDS
ONE = 60 / BUCKET_SECONDS  # a minute's rate for one posting in a stretch
MINUTE = 1_795_000_200.0  # a whole minute


def posting(number: int, at: float | None = None) -> dict[str, object]:
    created = None if at is None else datetime.fromtimestamp(at, UTC).isoformat()
    return {"id": f"txn_{number}", "created": created}


def test_sums_are_by_currency_the_commonest_first() -> None:
    records = [
        {"balance": 5, "currency": "USD"},
        {"balance": 1, "currency": "EUR"},
        {"balance": -3, "currency": "EUR"},
    ]
    assert sums_of(records, "balance") == [Sum("EUR", -2, 2), Sum("USD", 5, 1)]


def test_records_without_an_amount_are_left_out() -> None:
    assert sums_of([{"balance": "5", "currency": "USD"}, {"balance": 5}, {}], "balance") == []


def test_an_invoice_is_overdue_from_the_day_after_its_date_and_counted_by_age() -> None:
    dues = ("2026-11-20", "2026-11-19", "2026-11-13", "2026-11-12", "2026-10-01", "soon", None)
    invoices: list[dict[str, object]] = [*({"due_date": due} for due in dues), {}]
    assert overdue_by_age(invoices, date(2026, 11, 20)) == [2, 1, 1]


def test_postings_count_in_the_stretch_they_happened() -> None:
    rate = PostingRate()
    rows = [posting(3, MINUTE + S + 2), posting(2, MINUTE + S + 1), posting(1, MINUTE + 1)]
    rate.take(rows, now=MINUTE + 2 * S, all_read=True)
    assert rate.per_minute(MINUTE + 2 * S, 3) == [0, ONE, 2 * ONE]


def test_a_posting_is_counted_once_however_often_it_is_read() -> None:
    rate = PostingRate()
    first = [posting(1, MINUTE + 1)]
    rate.take(first, now=MINUTE + 2, all_read=True)
    rate.take(first, now=MINUTE + 4, all_read=True)
    rate.take([posting(2, MINUTE + 3), *first], now=MINUTE + 4, all_read=True)
    assert rate.per_minute(MINUTE + S, 1) == [2 * ONE]


def test_before_what_was_read_nothing_is_claimed() -> None:
    rate = PostingRate()
    rate.take([posting(2, MINUTE + 2 * S + 1), posting(1, MINUTE + S)], now=MINUTE + 3 * S, all_read=False)
    assert rate.per_minute(MINUTE + 3 * S, 3) == [None, ONE, ONE]


def test_postings_without_a_time_count_from_the_first_look_when_they_are_seen() -> None:
    rate = PostingRate()
    rate.take([posting(1)], now=MINUTE, all_read=True)
    rate.take([posting(3), posting(2), posting(1)], now=MINUTE + 2, all_read=True)
    assert rate.per_minute(MINUTE + S, 2) == [None, 2 * ONE]


def test_more_than_was_read_is_a_gap_and_the_minutes_figure_a_guess() -> None:
    rate = PostingRate()
    rate.take([posting(0, MINUTE)], now=MINUTE, all_read=True)
    rows = [posting(1000 - n, MINUTE + 30 - n / 10) for n in range(101)]  # ten a second, of the last ten
    rate.take(rows, now=MINUTE + 30, all_read=False)
    assert rate.per_minute(MINUTE + 20, 4) == [None] * 4
    assert rate.per_minute(MINUTE + 30, 1) == [600]
    minute = rate.last_minute(MINUTE + 30)
    assert minute is not None
    came, guessed = minute
    assert guessed
    assert 290 <= came <= 330  # ten a second for half of it


def test_a_minute_that_was_watched_in_full_is_no_guess_any_more() -> None:
    rate = PostingRate()
    rate.take([posting(0, MINUTE)], now=MINUTE, all_read=True)
    rate.take([posting(9, MINUTE + 30)], now=MINUTE + 30, all_read=False)
    rate.take([posting(10, MINUTE + 90), posting(9, MINUTE + 30)], now=MINUTE + 95, all_read=True)
    watched_in_part = rate.last_minute(MINUTE + 60)
    assert watched_in_part is not None
    assert watched_in_part[1]
    assert rate.last_minute(MINUTE + 95) == (1, False)


def test_of_what_came_without_times_no_rate_is_guessed() -> None:
    rate = PostingRate()
    rate.take([posting(0)], now=MINUTE, all_read=True)
    rate.take([posting(number) for number in range(100, 0, -1)], now=MINUTE + 30, all_read=False)
    minute = rate.last_minute(MINUTE + 60)
    assert minute is not None
    came, guessed = minute
    assert guessed
    assert came <= 100


def test_before_anything_was_read_no_minute_is_claimed() -> None:
    assert PostingRate().last_minute(MINUTE) is None


def test_dates_in_a_far_year_are_counted_at_once() -> None:
    rate = PostingRate()
    rate.take([posting(1, MINUTE)], now=MINUTE, all_read=True)
    far = [
        {"id": "txn_3", "created": "9999-01-01T00:00:00Z"},
        {"id": "txn_2", "created": "9998-01-01T00:00:00Z"},
    ]
    rate.take(far, now=MINUTE + S, all_read=False)
    assert len(rate._guesses) <= 2 * _KEPT_BUCKETS


def test_a_time_without_an_offset_is_utc_and_nonsense_is_no_time() -> None:
    assert moment("2026-11-20T04:31:00") == moment("2026-11-20T04:31:00.000Z")
    assert [moment(value) for value in (None, 5, "yesterday", "", "2026-13-01T00:00:00Z")] == [None] * 5


def test_postings_before_the_drawn_time_are_forgotten() -> None:
    rate = PostingRate()
    rate.take([posting(1, MINUTE + 1)], now=MINUTE + 2, all_read=True)
    later = MINUTE + _KEPT_BUCKETS * S
    rate.take([posting(2, later + 1), posting(1, MINUTE + 1)], now=later + 2, all_read=True)
    assert rate.per_minute(MINUTE + S, 1) == [ONE]
    much_later = later + S
    rate.take([posting(2, later + 1)], now=much_later + 2, all_read=True)
    assert rate.per_minute(MINUTE + S, 1) == [0]
    assert rate.per_minute(much_later, 1) == [ONE]
