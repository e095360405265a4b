"""Addresses and keys that can be used, and the others: never an exception but ClientError."""

import socket
import ssl

import httpx
import pytest

from ledger_client.event_stream import NotEvents
from ledger_tui.client.api import bearer
from ledger_tui.client.errors import ClientError, Unreachable
from ledger_tui.client.oauth import OAuthApp, SignInFailed, ask_for_tokens
from ledger_tui.client.transport import decoded, is_address, transport_errors
from tests.ledger_tui.client.test_api import client
from tests.ledger_tui.contract_server import ContractServer

UNUSABLE = [
    "http://é..x", "http://xn--zz.example", "http://256.1.1.1", "http://127.0.0.1:99999", "http://[::1",
    "http://[v1.x]", "http://h\u00ad", "http://h\ue000", "http://\u3002", "http://" + "x" * 70_000 + "9",
]  # fmt: skip


def test_without_a_credential_a_request_has_none() -> None:
    for credential, header in ((None, None), ("", None), ("sk_test_x", "Bearer sk_test_x")):
        request = bearer(credential)(httpx.Request("GET", "http://h"))
        assert request.headers.get("Authorization") == header


@pytest.mark.parametrize(
    "url",
    [
        "http://h",
        "https://h:8700/v1",
        "http://[::1]:1",
        "http://192.168.0.7:1/x",
        "https://bücher.example",
        "https://xn--bcher-kva.example",
    ],
)
def test_an_address_is_http(url: str) -> None:
    assert is_address(url)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "h",
        "file:///x",
        "http://",
        "http://h:x",
        "http://h:0",
        "http://h h",
        "http://a@h",
        "http://h?x",
        "http://h#x",
        *UNUSABLE,
    ],
)
def test_anything_else_is_no_address(url: str) -> None:
    assert not is_address(url)


@pytest.mark.parametrize("url", UNUSABLE)
async def test_a_call_to_an_address_that_cannot_be_used_is_a_client_error(url: str) -> None:
    with pytest.raises(ClientError):
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


@pytest.mark.parametrize(
    ("error", "cause", "words"),
    [
        (httpx.ReadTimeout(""), None, "no answer in time"),
        (httpx.UnsupportedProtocol(""), None, "not an http(s) address"),
        (NotEvents("the answer is not an event stream"), None, "the answer is not an event stream"),
        (httpx.ConnectError(""), ConnectionRefusedError(), "connection refused"),
        (httpx.ConnectError(""), socket.gaierror(), "no such host"),
        (httpx.ConnectError(""), ssl.SSLCertVerificationError(), "no trusted TLS connection"),
        (httpx.ConnectError(""), OSError(), "cannot connect"),
        (
            httpx.ConnectError(""),
            ExceptionGroup("each address", [OSError(), ConnectionRefusedError()]),
            "connection refused",
        ),
        (httpx.ReadError(""), None, "connection lost"),
    ],
)
def test_why_no_answer_came_is_said_in_a_few_words(
    error: Exception, cause: Exception | None, words: str
) -> None:
    with pytest.raises(Unreachable) as lost, transport_errors():
        raise error from cause
    assert str(lost.value) == words


async def test_a_sign_in_at_an_address_that_cannot_be_used_has_failed() -> None:
    with pytest.raises(SignInFailed):
        await ask_for_tokens(OAuthApp("https://xn--zz.example", "app_1", "read:users"), {})


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
