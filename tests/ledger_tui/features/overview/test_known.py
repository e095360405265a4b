"""Figures of the past are read again only if an event has changed them."""

from __future__ import annotations

from ledger_tui.client.past import moment_text
from ledger_tui.client.records import Record
from ledger_tui.features.overview.known import EVENTS_READ, KnownFigures

NOON = 1_790_000_000_000 // 86_400_000 * 86_400_000 + 43_200_000


def events(*happened: tuple[int, str]) -> list[Record]:
    """Return events at so many milliseconds after noon, newest first."""
    return [
        {"id": f"evt_{at}", "type": kind, "created": moment_text(NOON + at)}
        for at, kind in reversed(happened)
    ]


STORY = ((1, "invoice.created"), (2, "invoice.paid"), (2, "transaction.created"), (3, "order.created"))


def read_at(ms: int, known: KnownFigures, *names: str) -> None:
    known.begin(ms)
    at = [each for each in STORY if NOON + each[0] <= ms]
    known.take("events", events(*at), 0.0)
    for name in names:
        known.take(name, object(), 0.0)


def test_a_step_over_an_order_reads_neither_invoices_nor_balances() -> None:
    known = KnownFigures()
    read_at(NOON + 3, known, "invoices", "orders", "balances", "requests", "log")
    read_at(NOON + 2, known)
    stays = {name for name in ("invoices", "orders", "balances", "requests", "log") if known.stays(name)}
    assert stays == {"invoices", "balances", "log"}


def test_a_figure_that_was_skipped_is_known_for_the_moment_it_was_skipped_at() -> None:
    known = KnownFigures()
    read_at(NOON + 3, known, "invoices")
    read_at(NOON + 2, known)
    assert known.stays("invoices")
    read_at(NOON + 1, known)
    assert not known.stays("invoices")  # it was paid between
    known.take("invoices", object(), 0.0)
    read_at(NOON + 2, known)
    assert not known.stays("invoices")  # forth again


def test_a_figure_that_was_never_read_or_could_not_be_is_read() -> None:
    known = KnownFigures()
    read_at(NOON + 3, known, "invoices")
    known.take("invoices", "an error", 0.0)
    read_at(NOON + 3, known)
    assert not known.stays("invoices")
    assert not known.stays("orders")


def test_a_leap_over_more_events_than_were_read_reads_everything() -> None:
    known = KnownFigures()
    known.begin(NOON + 1000)
    known.take("events", events(*((at, "user.created") for at in range(1000 - EVENTS_READ, 1000))), 0.0)
    known.take("invoices", object(), 0.0)
    known.begin(NOON + 1)
    known.take("events", events((1, "user.created")), 0.0)
    assert not known.stays("invoices")


def test_on_another_day_other_invoices_are_overdue() -> None:
    known = KnownFigures()
    read_at(NOON + 86_400_000, known, "invoices")
    read_at(NOON + 3, known)
    assert not known.stays("invoices")


def test_in_the_present_a_figure_stays_until_another_event_or_another_day_comes() -> None:
    known = KnownFigures()

    def stays(newest: str, now: float) -> bool:
        known.begin(None)
        known.take("events", [{"id": newest}], now)
        if known.stays("invoices"):
            return True
        known.take("invoices", object(), now)
        return False

    seen = [stays("evt_1", 0.0), stays("evt_1", 2.0), stays("evt_2", 4.0), stays("evt_2", 86_400.0)]
    assert seen == [False, True, False, False]
    known.begin(None)
    known.take("events", "an error", 86_401.0)
    assert not known.stays("invoices")


def test_a_figure_read_in_the_present_is_read_in_the_past_and_the_other_way_round() -> None:
    known = KnownFigures()
    known.begin(None)
    known.take("events", events(*STORY), 0.0)
    known.take("invoices", object(), 0.0)
    read_at(NOON + 3, known)
    assert not known.stays("invoices")
    known.take("invoices", object(), 0.0)
    known.begin(None)
    known.take("events", events(*STORY), 0.0)
    assert not known.stays("invoices")
