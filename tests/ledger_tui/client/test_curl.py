import shlex

from ledger_tui.client.curl import as_curl
from ledger_tui.client.traffic import Exchange


def exchange(method: str, url: str, body: str | None = None, key: str | None = None) -> Exchange:
    return Exchange(method, url, body, key, 200, 1.0, None)


def test_a_read_is_one_url_and_the_key_from_the_environment() -> None:
    assert as_curl(exchange("GET", "http://h/v1/accounts")) == (
        'curl http://h/v1/accounts -H "Authorization: Bearer $LEDGER_API_KEY"'
    )


def test_what_a_shell_would_obey_is_quoted() -> None:
    command = as_curl(exchange("POST", "http://h/v1/accounts?x=$(id)&y", '{"name": "it\'s `id`"}', "k'1"))
    assert shlex.split(command) == [
        "curl", "-X", "POST", "http://h/v1/accounts?x=$(id)&y",
        "-H", "Authorization: Bearer $LEDGER_API_KEY",
        "-H", "Idempotency-Key: k'1",
        "-H", "Content-Type: application/json",
        "-d", '{"name": "it\'s `id`"}',
    ]  # fmt: skip
