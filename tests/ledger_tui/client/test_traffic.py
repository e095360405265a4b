"""The traffic log recognises the dashboard's own requests, and writes requests as curl."""

import shlex

import pytest

from ledger_tui.client import traffic
from ledger_tui.client.traffic import SentRequest, Traffic, as_curl


def exchange(request_id: str | None) -> SentRequest:
    return SentRequest("GET", "http://127.0.0.1:8700/v1/accounts", None, None, 200, 1.0, request_id)


def test_of_its_own_requests_the_latest_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traffic, "IDS_KEPT", 2)
    seen = Traffic()
    for request_id in ("req_1", "req_2", None, "req_2", "req_3"):
        seen.add(exchange(request_id))
    assert [seen.is_own(f"req_{number}") for number in (1, 2, 3, 4)] == [False, True, True, False]
    assert seen.count == 5


def sent(method: str, url: str, body: str | None = None, key: str | None = None) -> SentRequest:
    return SentRequest(method, url, body, key, 200, 1.0, None)


def test_a_read_is_one_url_and_the_key_from_the_environment() -> None:
    assert as_curl(sent("GET", "http://h/v1/accounts")) == (
        'curl http://h/v1/accounts -H "Authorization: Bearer $LEDGER_API_KEY"'
    )


def test_a_character_that_a_shell_would_obey_is_quoted() -> None:
    command = as_curl(sent("POST", "http://h/v1/accounts?x=$(id)&y", '{"name": "it\'s `id`"}', "k'1"))
    assert shlex.split(command) == [
        "curl", "-X", "POST", "http://h/v1/accounts?x=$(id)&y",
        "-H", "Authorization: Bearer $LEDGER_API_KEY",
        "-H", "Idempotency-Key: k'1",
        "-H", "Content-Type: application/json",
        "-d", '{"name": "it\'s `id`"}',
    ]  # fmt: skip
