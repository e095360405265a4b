"""The figures of the overview, counted from what lists hold. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from ledger_tui.state.window import Record

BUCKET_SECONDS = 5
_KEPT_BUCKETS = 1_000


@dataclass(frozen=True, slots=True)
class Sum:
    """What there is of one currency: the amount in its smallest unit, and in how many objects."""

    currency: str
    amount: int
    count: int


@dataclass(frozen=True, slots=True)
class Balances:
    """Sums of accounts by currency, of `accounts` in all; `partial` when there are more than were read."""

    sums: Sequence[Sum]
    accounts: int
    partial: bool


@dataclass(frozen=True, slots=True)
class OpenInvoices:
    sums: Sequence[Sum]
    count: int
    overdue: int
    partial: bool


@dataclass(frozen=True, slots=True)
class Health:
    """How the newest deliveries of each endpoint stand."""

    endpoints: int
    disabled: int
    by_status: Mapping[str, int] = field(default_factory=dict)
    last_error: str | None = None


def sums_of(records: Iterable[Record], amount: str) -> list[Sum]:
    """Sums by currency, the currency with the most objects first."""
    amounts, counts = Counter[str](), Counter[str]()
    for record in records:
        value, currency = record.get(amount), record.get("currency")
        if isinstance(value, int) and isinstance(currency, str):
            amounts[currency] += value
            counts[currency] += 1
    return [Sum(currency, amounts[currency], count) for currency, count in counts.most_common()]


def overdue(invoices: Iterable[Record], today: str) -> int:
    """How many are due before a date, `2026-11-20`."""
    dues = (record.get("due_date") for record in invoices)
    return sum(1 for due in dues if isinstance(due, str) and due < today)


class PostingRate:
    """How many postings there were in each stretch of `BUCKET_SECONDS`.

    Times are the server's, in seconds. Where its records have no time, a posting counts when it was first
    seen. Where more came at once than was read there is a gap; how many came in it is a guess.
    """

    def __init__(self) -> None:
        self.newest: str | None = None
        self._counts = Counter[int]()
        self._guesses: dict[int, int] = {}  # in stretches that were not read in full: what is missing
        self._complete_from: float | None = None
        self._newest_at: float | None = None

    def take(self, rows: Sequence[Record], *, now: float, reached: bool) -> None:
        """Postings newest first. `reached`: behind the last of them nothing is missing."""
        first = self.newest is None
        known = self.newest
        new: list[Record] = []
        for row in rows:
            if row.get("id") == known:
                reached = True
                break
            new.append(row)
        times = [at for row in new if (at := moment(row.get("created"))) is not None]
        if new and not times and first:
            self._complete_from = now  # without a time only what comes from now on can be counted
        else:
            times += [now] * (len(new) - len(times))
            self._counts.update(int(at // BUCKET_SECONDS) for at in times)
            self._note_reach(times, now, reached=reached, first=first)
        if new:
            self.newest = str(new[0].get("id"))
            self._newest_at = max(times, default=now)
        forgotten = int(now // BUCKET_SECONDS) - _KEPT_BUCKETS
        for kept in (self._counts, self._guesses):
            for bucket in [each for each in kept if each < forgotten]:
                del kept[bucket]

    def _note_reach(self, times: Sequence[float], now: float, *, reached: bool, first: bool) -> None:
        if first:
            self._complete_from = float("-inf") if reached else min(times, default=now)
        elif not reached and times and self._newest_at is not None:
            oldest, newest = min(times), max(times)
            # What was seen all at once, as where no times are told, tells of no rate.
            rate = len(times) / max(1.0, newest - oldest) if newest > oldest else 0.0
            for bucket in range(int(self._newest_at // BUCKET_SECONDS), int(oldest // BUCKET_SECONDS) + 1):
                start, end = bucket * BUCKET_SECONDS, (bucket + 1) * BUCKET_SECONDS
                seconds = max(0.0, min(end, oldest) - max(start, self._newest_at))
                self._guesses[bucket] = self._guesses.get(bucket, 0) + round(seconds * rate)

    def per_minute(self, now: float, buckets: int) -> list[float | None]:
        """The rate in each of the last whole buckets, oldest first; None where not all was read."""
        return [
            self._counts[bucket] * 60 / BUCKET_SECONDS
            if self._reaches(bucket) and bucket not in self._guesses
            else None
            for bucket in self._last(now, buckets)
        ]

    def last_minute(self, now: float) -> tuple[float, bool] | None:
        """The rate over the last minute's whole buckets, and whether some of it is a guess."""
        buckets = [bucket for bucket in self._last(now, 60 // BUCKET_SECONDS) if self._reaches(bucket)]
        if not buckets:
            return None
        came = sum(self._counts[bucket] + self._guesses.get(bucket, 0) for bucket in buckets)
        return came * 60 / BUCKET_SECONDS / len(buckets), any(each in self._guesses for each in buckets)

    @staticmethod
    def _last(now: float, buckets: int) -> range:
        last = int(now // BUCKET_SECONDS)
        return range(last - buckets, last)

    def _reaches(self, bucket: int) -> bool:
        """Whether it is after the beginning of what was read."""
        return self._complete_from is not None and bucket * BUCKET_SECONDS >= self._complete_from


def moment(time: object) -> float | None:
    """An ISO 8601 time as seconds since 1970; None for what is none."""
    if not isinstance(time, str):
        return None
    try:
        parsed = datetime.fromisoformat(time)
    except ValueError:
        return None
    return parsed.replace(tzinfo=parsed.tzinfo or UTC).timestamp()
