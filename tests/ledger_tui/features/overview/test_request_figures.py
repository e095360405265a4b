"""Requests are counted once, by status, without the dashboard's own."""

from typing import Any

from ledger_tui.features.overview.request_figures import RequestFigures, RequestOutcome


def row(number: int, status: int = 200, key: str = "key_shop", took: float = 1.0) -> dict[str, Any]:
    return {"id": f"req_{number}", "status": status, "credential_id": key, "duration_ms": took}


def test_each_request_is_counted_once_however_often_it_is_read() -> None:
    figures = RequestFigures()
    figures.take([row(2, 404), row(1)], set().__contains__)
    figures.take([row(3, 404), row(2, 404), row(1)], set().__contains__)
    figures.take([row(3, 404), row(2, 404), row(1)], set().__contains__)  # nothing is new
    figures.take([], set().__contains__)
    figures.take([row(4), row(3, 404)], set().__contains__)
    assert figures.by_status() == [(200, 2), (404, 2)]


def test_the_dashboards_own_are_left_out_and_not_those_of_others_with_its_key() -> None:
    figures = RequestFigures()
    figures.take([row(3, key="key_own"), row(2, 201, key="key_own"), row(1)], {"req_3"}.__contains__)
    assert figures.by_status() == [(200, 1), (201, 1)]


def test_the_percentiles_are_durations_that_were_measured() -> None:
    figures = RequestFigures()
    assert figures.percentile_ms(50) is None
    figures.take([row(number, took=float(number)) for number in range(20, 0, -1)], set().__contains__)
    assert (figures.percentile_ms(50), figures.percentile_ms(95), figures.percentile_ms(100)) == (10, 19, 20)


def test_without_a_log_its_own_requests_stand_in_and_none_counts_as_no_answer() -> None:
    figures = RequestFigures()
    figures.replace([RequestOutcome(200, 2.0), RequestOutcome(None, 900.0)])
    assert figures.own
    assert figures.by_status() == [(200, 1), (None, 1)]
    assert figures.percentile_ms(95) == 2.0
