"""One HTTP exchange: what is sent, and how little of a stranger's answer is trusted."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable
from typing import Any

import pytest

from ledger_engine.core.errors import InvalidRequest
from ledger_engine.events.webhooks import sending
from ledger_engine.events.webhooks.addresses import ParsedUrl, parse_url
from ledger_engine.events.webhooks.sending import (
    ANSWER_MAX,
    KEPT_MAX,
    Response,
    SendFailed,
    check_url,
    connect,
    look_up,
)
from tests.receivers import Received, answering, bomb, flood, receiving

BODY = '{"name":"Kaffeerösterei"}'.encode()


async def post(url: str, *, livemode: bool = False) -> Response:
    target = parse_url(url, livemode=livemode)
    connection = await connect(target, livemode=livemode)
    headers = [("Host", target.host_header), ("Content-Length", str(len(BODY))), ("Ledger-Attempt", "1")]
    try:
        return await connection.post(target.path, headers, BODY, lambda: None)
    finally:
        connection.close()


Names = Callable[[str, list[str]], None]


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Names:
    """Say what a name is looked up as; a name server is not at hand."""
    known: dict[str, list[str]] = {}
    real = socket.getaddrinfo

    def ask(host: str, port: Any, *arguments: Any, **more: Any) -> Any:
        if host in known:
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 0)) for address in known[host]]
        return real(host, port, *arguments, **more)

    monkeypatch.setattr(socket, "getaddrinfo", ask)
    return known.__setitem__


async def test_the_raw_body_is_posted_with_its_headers() -> None:
    async with receiving(answering(201, b"thanks", "X-Kind: good")) as receiver:
        response = await post(receiver.url + "?a=b")
        request = receiver.received[0]
    assert (request.method, request.path, request.body) == ("POST", "/hook?a=b", BODY)
    assert request.headers["host"] == f"127.0.0.1:{receiver.port}"
    assert request.headers["ledger-attempt"] == "1"
    assert (response.status, response.body) == (201, "thanks")
    assert ("x-kind", "good") in response.headers


@pytest.mark.parametrize("text", ["two\r\nlines", "two\rlines", "two\nlines"])
async def test_a_header_with_the_end_of_a_line_in_it_is_not_sent(text: str) -> None:
    async with receiving() as receiver:
        connection = await connect(parse_url(receiver.url, livemode=False), livemode=False)
        with pytest.raises(SendFailed, match="a header of the request contains a line break"):
            await connection.post("/", [("Host", "x"), ("Ledger-Event-Type", text)], b"", lambda: None)
        connection.close()
        assert receiver.received == []


async def test_one_connection_serves_one_exchange_after_the_other() -> None:
    async with receiving() as receiver:
        target = parse_url(receiver.url, livemode=False)
        connection = await connect(target, livemode=False)
        for _ in range(3):
            await connection.post("/", [("Host", "x"), ("Content-Length", "2")], b"{}", lambda: None)
            assert connection.make_ready()
        connection.close()
        assert (len(receiver.received), receiver.connections) == (3, 1)


async def test_a_connection_the_receiver_closes_is_not_used_again() -> None:
    async with receiving(answering(200, b"ok", "Connection: close")) as receiver:
        target = parse_url(receiver.url, livemode=False)
        connection = await connect(target, livemode=False)
        await connection.post("/", [("Host", "x"), ("Content-Length", "2")], b"{}", lambda: None)
        assert not connection.make_ready()
        connection.close()


async def test_a_packed_body_is_never_unpacked() -> None:
    async with receiving(bomb) as receiver:
        response = await post(receiver.url)
    assert response.status == 200
    assert ("content-encoding", "gzip, gzip") in response.headers
    assert len(response.body) <= KEPT_MAX


async def test_of_the_headers_so_much_is_kept_as_of_a_body() -> None:
    long, too_long = f"X-Long: {'x' * (KEPT_MAX // 2)}", f"X-Too-Long: {'x' * (KEPT_MAX // 2)}"
    async with receiving(answering(200, b"ok", long, too_long)) as receiver:
        response = await post(receiver.url)
    assert [name for name, _ in response.headers] == ["content-length", "x-long"]
    assert response.body == "ok"


async def test_of_an_answer_without_an_end_so_much_is_read_and_not_more() -> None:
    sent = 0

    async def count_flood(request: Received, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        try:
            await flood(request, writer)
        finally:
            sent = writer.transport.get_write_buffer_size()

    async with receiving(count_flood) as receiver:
        response = await post(receiver.url)
    assert response.status == 200
    assert response.body == "x" * KEPT_MAX
    assert sent < 100 * ANSWER_MAX


async def test_an_answer_that_is_not_http_is_not_repeated() -> None:
    async def shout(_: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(b"\x00" * 30_000 + b"\r\n\r\n")

    async with receiving(shout) as receiver:
        with pytest.raises(SendFailed) as failed:
            await post(receiver.url)
    assert str(failed.value).startswith("not a valid HTTP response: ")
    assert len(str(failed.value)) < 200


async def test_more_names_than_can_be_asked_for_at_a_time_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    silent = threading.Event()
    monkeypatch.setattr(sending, "LOOKUPS_MAX", 1)
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: silent.wait(60) and [])
    waiting = asyncio.ensure_future(look_up("one.example"))
    try:
        await asyncio.sleep(0)
        with pytest.raises(SendFailed, match="too many lookups"):
            await look_up("two.example")
    finally:
        silent.set()
        await waiting


async def test_an_answer_cut_off_is_no_answer() -> None:
    async def cut_off(_: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
        await writer.drain()
        writer.close()

    async with receiving(cut_off) as receiver:
        with pytest.raises(SendFailed, match="not a valid HTTP response"):
            await post(receiver.url)


async def test_bytes_that_are_no_text_are_shown_as_far_as_they_are() -> None:
    async with receiving(answering(200, b"caf\xc3\xa9 \xff\x00!")) as receiver:
        response = await post(receiver.url)
    assert response.body == "café \ufffd\ufffd!"


async def test_an_interim_answer_is_not_the_answer() -> None:
    async def interim(_: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n")

    async with receiving(interim) as receiver:
        assert (await post(receiver.url)).status == 204


@pytest.mark.parametrize("livemode", [False, True])
@pytest.mark.parametrize(
    "address", ["10.0.0.1", "169.254.169.254", "192.168.0.1", "::ffff:127.0.0.1", "64:ff9b::1"]
)
async def test_a_name_that_leads_inside_is_not_connected_to(
    names: Names, address: str, livemode: bool
) -> None:
    names("hooks.example", ["93.184.216.34", address])
    target = ParsedUrl("hooks.example", 443, True, "/")
    with pytest.raises(SendFailed, match="is not allowed"):
        await connect(target, livemode=livemode)


async def test_a_name_of_this_machine_is_connected_to_in_test_mode_alone(names: Names) -> None:
    names("hooks.example", ["127.0.0.1"])
    async with receiving() as receiver:
        target = ParsedUrl("hooks.example", receiver.port, False, "/")
        (await connect(target, livemode=False)).close()
        with pytest.raises(SendFailed, match="is not allowed"):
            await connect(target, livemode=True)


async def test_a_name_is_judged_by_the_address_that_is_connected_to(names: Names) -> None:
    """Rebinding: good when it was registered, and pointed at the inside afterwards."""
    names("hooks.example", ["93.184.216.34"])
    await check_url("https://hooks.example/", livemode=True)
    names("hooks.example", ["10.0.0.1"])
    with pytest.raises(SendFailed, match=r"10\.0\.0\.1 is not allowed"):
        await connect(parse_url("https://hooks.example/", livemode=True), livemode=True)


async def test_the_name_is_looked_up_once_for_a_connection(
    names: Names, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look-up that is judged and the connection there is no second one to be cheated in."""
    names("hooks.example", ["127.0.0.1"])
    lookups: list[str] = []
    answered = socket.getaddrinfo

    def count(host: str, *arguments: Any, **more: Any) -> Any:
        lookups.append(host)
        return answered(host, *arguments, **more)

    monkeypatch.setattr(socket, "getaddrinfo", count)
    async with receiving() as receiver:
        (await connect(ParsedUrl("hooks.example", receiver.port, False, "/"), livemode=False)).close()
    assert [host for host in lookups if host == "hooks.example"] == ["hooks.example"]


async def test_a_dead_address_gives_way_to_the_next(names: Names, monkeypatch: pytest.MonkeyPatch) -> None:
    names("hooks.example", ["127.0.0.2", "127.0.0.1"])
    monkeypatch.setattr(sending, "CONNECT_S", 0.2)
    async with receiving() as receiver:
        (await connect(ParsedUrl("hooks.example", receiver.port, False, "/"), livemode=False)).close()


async def test_an_invalid_host_name_fails_with_a_reason() -> None:
    with pytest.raises(SendFailed, match="cannot be looked up"):
        await look_up("no-such-name.invalid")


async def test_those_who_want_the_same_name_ask_for_it_once(monkeypatch: pytest.MonkeyPatch) -> None:
    lookups = []

    def ask(host: str, *_: object, **__: object) -> list[tuple[object, ...]]:
        lookups.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 0))]

    monkeypatch.setattr(socket, "getaddrinfo", ask)
    assert await asyncio.gather(*(look_up("hooks.example") for _ in range(20))) == [["127.0.0.1"]] * 20
    assert lookups == ["hooks.example"]


async def test_registering_a_name_that_leads_inside_is_refused(names: Names) -> None:
    names("hooks.example", ["10.0.0.1"])
    with pytest.raises(InvalidRequest) as refused:
        await check_url("https://hooks.example/hook", livemode=False)
    assert refused.value.param == "url"


async def test_registering_does_not_wait_for_a_name_server_that_is_silent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waiting = asyncio.Event()
    monkeypatch.setattr(sending, "LOOK_UP_S", 0.05)

    async def never(_: str) -> list[str]:
        await waiting.wait()
        return []

    monkeypatch.setattr(sending, "look_up", never)
    await check_url("https://hooks.example/hook", livemode=True)
    with pytest.raises(InvalidRequest):
        await check_url("http://hooks.example/hook", livemode=False)
