"""Which requests were this dashboard's own."""

import pytest

from ledger_tui.client import traffic
from ledger_tui.client.traffic import Exchange, Traffic


def exchange(request_id: str | None) -> Exchange:
    return Exchange("GET", "http://127.0.0.1:8700/v1/accounts", None, None, 200, 1.0, request_id)


def test_of_its_own_requests_the_latest_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traffic, "IDS_KEPT", 2)
    seen = Traffic()
    for request_id in ("req_1", "req_2", None, "req_2", "req_3"):
        seen.add(exchange(request_id))
    assert [seen.is_own(f"req_{number}") for number in (1, 2, 3, 4)] == [False, True, True, False]
    assert seen.count == 5
