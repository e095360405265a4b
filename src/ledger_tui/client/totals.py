"""The figures of the overview, computed from lists of records. This module does no input or output."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime

from ledger_tui.client.records import Record

BUCKET_SECONDS = 5
_KEPT_BUCKETS = 1_000


@dataclass(frozen=True, slots=True)
class Sum:
    """The total of one currency: the amount in its smallest unit, and the number of objects."""

    currency: str
    amount: int
    count: int


@dataclass(frozen=True, slots=True)
class BalanceSums:
    """The sums of the balances by currency.

    `accounts` is the number of accounts that were read; `partial` is True if the ledger has more accounts.
    """

    sums: Sequence[Sum]
    accounts: int
    partial: bool


@dataclass(frozen=True, slots=True)
class Stage:
    """The number of objects in one state; `partial` is True if this state has more than `count` objects."""

    status: str
    count: int
    partial: bool = False
    sums: Sequence[Sum] = ()


@dataclass(frozen=True, slots=True)
class Stages:
    """The number of objects in each state, in the order in which an object passes through the states.

    `late` holds the numbers of objects that wait for somebody, by age. For invoices these are the open
    invoices past their due date, with one number for each of `OVERDUE_AGES`. For orders these are the orders
    that are not shipped, with one number for each of `WAITING_AGES`.
    """

    stages: Sequence[Stage]
    late: Sequence[int] = ()


# The age groups of overdue invoices, and of orders that are not shipped. Each group has a maximum number of
# days and a name. The days count from the due date of an invoice, or from the creation of an order.
Ages = Sequence[tuple[float, str]]
OVERDUE_AGES: Ages = ((7, "≤ 7 d"), (30, "≤ 30 d"), (float("inf"), "> 30 d"))
WAITING_AGES: Ages = ((1, "≤ 1 d"), (7, "≤ 7 d"), (float("inf"), "> 7 d"))


def sums_of(records: Iterable[Record], amount: str) -> list[Sum]:
    """Return the sums of the field `amount` by currency, the currency with the most objects first."""
    amounts, counts = Counter[str](), Counter[str]()
    for record in records:
        value, currency = record.get(amount), record.get("currency")
        if isinstance(value, int) and isinstance(currency, str):
            amounts[currency] += value
            counts[currency] += 1
    return [Sum(currency, amounts[currency], count) for currency, count in counts.most_common()]


def overdue_by_age(invoices: Iterable[Record], today: date) -> list[int]:
    """Return how many of these invoices are past their due date, one number for each of `OVERDUE_AGES`."""
    days = []
    for invoice in invoices:
        try:
            days.append((today - date.fromisoformat(str(invoice.get("due_date")))).days)
        except ValueError:
            continue
    return _by_age((each for each in days if each > 0), OVERDUE_AGES)


def waiting_by_age(orders: Iterable[Record], now: float) -> list[int]:
    """Return how many of these orders have each of the ages in `WAITING_AGES`.

    An order without a time does not count.
    """
    times = (moment(order.get("created")) for order in orders)
    return _by_age(((now - at) / 86_400 for at in times if at is not None), WAITING_AGES)


def _by_age(days: Iterable[float], ages: Ages) -> list[int]:
    counts = [0] * len(ages)
    for each in days:
        counts[next(n for n, (most, _name) in enumerate(ages) if each <= most)] += 1
    return counts


class PostingRate:
    """The number of transactions in each interval (bucket) of `BUCKET_SECONDS`.

    Times are the server's, in seconds. A transaction without a time counts at the time of the read that first
    returned the transaction. But if no transaction of the first read has a time, this class does not count
    the transactions of this read. If a read does not reach back to the newest transaction of the previous
    read, this class estimates the number of transactions that neither read returned.
    """

    def __init__(self) -> None:
        self.newest: str | None = None
        self.read_at: float | None = None  # the server's time of the last read
        self._counts = Counter[int]()
        # estimated numbers of transactions, for intervals that were not read completely
        self._guesses: dict[int, int] = {}
        self._complete_from: float | None = None  # the time from which on transactions are counted
        self._newest_at: float | None = None  # the time of the newest transaction read so far

    def take(self, rows: Sequence[Record], *, now: float, all_read: bool) -> None:
        """Count the transactions of a read, newest first.

        `all_read` is True if the read returned all transactions that exist.
        """
        self.read_at = now
        first = self.newest is None
        known_id = self.newest
        new: list[Record] = []
        for row in rows:
            if row.get("id") == known_id:
                all_read = True
                break
            new.append(row)
        times = [at for row in new if (at := moment(row.get("created"))) is not None]
        if new and not times and first:
            # Without times, counting can begin only with the transactions posted from now on.
            self._complete_from = now
        else:
            times += [now] * (len(new) - len(times))
            self._counts.update(int(at // BUCKET_SECONDS) for at in times)
            self._note_reach(times, now, all_read=all_read, first=first)
        if new:
            self.newest = str(new[0].get("id"))
            self._newest_at = max(times, default=now)
        oldest_bucket = int(now // BUCKET_SECONDS) - _KEPT_BUCKETS
        for counter in (self._counts, self._guesses):
            for bucket in [each for each in counter if each < oldest_bucket]:
                del counter[bucket]

    def _note_reach(self, times: Sequence[float], now: float, *, all_read: bool, first: bool) -> None:
        """Note from when on transactions are counted, or estimate how many transactions were missed.

        The first read decides from when on transactions are counted. A later read that does not reach back to
        the previous read leaves a gap, and this method estimates the number of transactions in the gap.
        """
        if first:
            self._complete_from = float("-inf") if all_read else min(times, default=now)
        elif not all_read and times and self._newest_at is not None:
            oldest, newest = min(times), max(times)
            # Transactions that all count at one moment, because they carry no times, give no rate.
            rate = len(times) / max(1.0, newest - oldest) if newest > oldest else 0.0
            # Limit the number of buckets: a transaction's time may be thousands of years away from `now`.
            present = int(now // BUCKET_SECONDS)
            start_bucket = max(int(self._newest_at // BUCKET_SECONDS), present - _KEPT_BUCKETS)
            end_bucket = min(int(oldest // BUCKET_SECONDS), present + _KEPT_BUCKETS)
            for bucket in range(start_bucket, end_bucket + 1):
                start, end = bucket * BUCKET_SECONDS, (bucket + 1) * BUCKET_SECONDS
                seconds = max(0.0, min(end, oldest) - max(start, self._newest_at))
                self._guesses[bucket] = self._guesses.get(bucket, 0) + round(seconds * rate)

    def per_minute(self, now: float, buckets: int) -> list[float | None]:
        """Return the transactions per minute in each of the last complete buckets, oldest first.

        None stands for a bucket whose transactions were not all read.
        """
        return [
            self._counts[bucket] * 60 / BUCKET_SECONDS
            if self._reaches(bucket) and bucket not in self._guesses
            else None
            for bucket in self._last_buckets(now, buckets)
        ]

    def last_minute(self, now: float) -> tuple[float, bool] | None:
        """Return the transactions per minute over the last minute, and whether this number is an estimate.

        Return None if no bucket of the last minute was counted.
        """
        buckets = [
            bucket for bucket in self._last_buckets(now, 60 // BUCKET_SECONDS) if self._reaches(bucket)
        ]
        if not buckets:
            return None
        count = sum(self._counts[bucket] + self._guesses.get(bucket, 0) for bucket in buckets)
        return count * 60 / BUCKET_SECONDS / len(buckets), any(each in self._guesses for each in buckets)

    @staticmethod
    def _last_buckets(now: float, buckets: int) -> range:
        last = int(now // BUCKET_SECONDS)
        return range(last - buckets, last)

    def _reaches(self, bucket: int) -> bool:
        """Return whether counting began before this bucket. The bucket's count may still be an estimate."""
        return self._complete_from is not None and bucket * BUCKET_SECONDS >= self._complete_from


def moment(time: object) -> float | None:
    """Return an ISO 8601 time as seconds since 1970; None if the value is not such a time."""
    if not isinstance(time, str):
        return None
    try:
        instant = datetime.fromisoformat(time)
    except ValueError:
        return None
    return instant.replace(tzinfo=instant.tzinfo or UTC).timestamp()
