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
    seen. `estimated` says that more came at once than was read, and the rest was filled in at their rate.
    """

    def __init__(self) -> None:
        self.newest: str | None = None
        self.estimated = False
        self._counts = Counter[int]()
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
        for bucket in sorted(self._counts)[:-_KEPT_BUCKETS]:
            del self._counts[bucket]

    def _note_reach(self, times: Sequence[float], now: float, *, reached: bool, first: bool) -> None:
        if first:
            self._complete_from = float("-inf") if reached else min(times, default=now)
        elif not reached and times and self._newest_at is not None:
            oldest, newest = min(times), max(times)
            rate = len(times) / max(0.001, newest - oldest)
            self.estimated = True
            for bucket in range(int(self._newest_at // BUCKET_SECONDS), int(oldest // BUCKET_SECONDS) + 1):
                start, end = bucket * BUCKET_SECONDS, (bucket + 1) * BUCKET_SECONDS
                seconds = max(0.0, min(end, oldest) - max(start, self._newest_at))
                self._counts[bucket] += round(seconds * rate)

    def per_minute(self, now: float, buckets: int) -> list[float | None]:
        """The rate in each of the last whole buckets, oldest first; None where it is not known."""
        last = int(now // BUCKET_SECONDS)
        known_from = self._complete_from
        return [
            None
            if known_from is None or bucket * BUCKET_SECONDS < known_from
            else self._counts[bucket] * 60 / BUCKET_SECONDS
            for bucket in range(last - buckets, last)
        ]


def moment(time: object) -> float | None:
    """An ISO 8601 time as seconds since 1970; None for what is none."""
    if not isinstance(time, str):
        return None
    try:
        parsed = datetime.fromisoformat(time)
    except ValueError:
        return None
    return parsed.replace(tzinfo=parsed.tzinfo or UTC).timestamp()
