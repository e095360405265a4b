"""Usable addresses and keys are accepted; for all others the only exception is LedgerError."""

import pytest

from ledger_client.errors import LedgerError
from ledger_tui.client.oauth import OAuthApp, SignInFailed, exchange_grant
from ledger_tui.client.transport import decoded
from tests.ledger_client.test_addresses import UNUSABLE
from tests.ledger_tui.client.test_api import client
from tests.ledger_tui.contract_server import ContractServer


@pytest.mark.parametrize("url", UNUSABLE)
async def test_a_call_to_an_address_that_cannot_be_used_is_a_client_error(url: str) -> None:
    with pytest.raises(LedgerError):
        async with client(url) as (api, _session, _traffic):
            await api.call("GET", "/v1/accounts")


async def test_a_proxy_of_the_environment_is_not_asked_for_this_machine(
    server: ContractServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    for url in (server.url, server.url.replace("127.0.0.1", "localhost")):
        async with client(url) as (api, _session, _traffic):
            assert (await api.call("GET", "/v1/accounts")).status == 200


async def test_a_sign_in_at_an_address_that_cannot_be_used_has_failed() -> None:
    with pytest.raises(SignInFailed):
        await exchange_grant(OAuthApp("https://xn--zz.example", "app_1", "read:users"), refresh_token="rt_1")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("9007199254740991", 2**53 - 1),
        ("-1.5", -1.5),
        ("1e400", "1e400"),
        ("-1e300", "-1e300"),
        ("NaN", "NaN"),
        ("Infinity", "Infinity"),
        ("9" * 5000, "9" * 5000),
    ],
)
def test_a_number_that_no_amount_or_time_can_have_is_read_as_text(text: str, value: object) -> None:
    assert decoded(f'{{"amount": {text}}}') == {"amount": value}
