"""Addresses that can be used and others, and why no answer came from one."""

import socket
import ssl

import httpx
import pytest

from ledger_client import answers
from ledger_client.addresses import is_address, root_of
from ledger_client.errors import NotConnected
from ledger_client.event_stream import NotEvents

UNUSABLE = [
    "http://é..x", "http://xn--zz.example", "http://256.1.1.1", "http://127.0.0.1:99999", "http://[::1",
    "http://[v1.x]", "http://h\u00ad", "http://h\ue000", "http://\u3002", "http://" + "x" * 70_000 + "9",
]  # fmt: skip


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


@pytest.mark.parametrize(
    ("given", "root"),
    [
        ("http://h:8700", "http://h:8700"),
        ("http://h:8700/", "http://h:8700"),
        ("https://h/v1", "https://h"),
        ("https://h/prefix/v1/", "https://h/prefix"),
    ],
)
def test_the_ledgers_base_address_and_the_servers_root_are_both_taken(given: str, root: str) -> None:
    assert root_of(given) == root


@pytest.mark.parametrize(
    ("error", "cause", "words"),
    [
        (httpx.ReadTimeout(""), None, "no answer in time"),
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
    try:
        raise error from cause
    except httpx.HTTPError as raised:
        lost = answers.no_answer(raised)
    assert isinstance(lost, NotConnected)
    assert str(lost) == words
