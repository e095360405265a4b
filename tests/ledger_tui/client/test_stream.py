"""Listening to events over server-sent events, on a real socket."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from ledger_client.webhooks import sign
from ledger_tui.client.errors import ClientError, NotOffered, Unreachable
from ledger_tui.client.stream import EventLine, ReceivedEvent, repair
from tests.ledger_tui.client.test_api import client
from tests.ledger_tui.contract_server import ContractServer

SECRET = "whsec_0123456789abcdefghijABCDEFGHIJ01"


def message(kind: str, event_id: str, data: object) -> bytes:
    return f"id: {event_id}\nevent: {kind}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n".encode()


def event(number: int, secret: str = SECRET, name: str = "Till") -> bytes:
    body = json.dumps({"id": f"evt_{number}", "type": "account.created", "name": name}, ensure_ascii=False)
    return message("event", f"evt_{number}", {"body": body, "signature": sign(body.encode(), secret)})


@asynccontextmanager
async def speaker(*sessions: list[bytes]) -> AsyncIterator[tuple[str, list[bytes]]]:
    """Run a server that sends one list a connection and hangs up; yield its URL and the requests."""
    requests: list[bytes] = []
    left = list(sessions)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        requests.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")
        for part in left.pop(0):
            writer.write(part)
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", requests
    finally:
        server.close()


async def hear(line: EventLine) -> tuple[list[ReceivedEvent | None], ClientError]:
    """All that comes until the line breaks, and why it did."""
    received: list[ReceivedEvent | None] = []
    try:
        async for one in line.listen():
            received.append(one)
    except ClientError as error:
        return received, error
    raise AssertionError("a line never ends well")


async def test_each_event_is_checked_with_the_secret_of_its_session() -> None:
    session = message("session", "evt_0", {"secret": SECRET})
    async with (
        speaker([session, event(1), event(2, "whsec_other")]) as (url, _asked),
        client(url) as (api, _s, _t),
    ):
        received, error = await hear(EventLine(api))
    assert isinstance(error, Unreachable)
    assert received[0] is None
    assert [(one.event["id"], one.valid) for one in received if one] == [("evt_1", True), ("evt_2", False)]


async def test_a_line_separator_inside_of_a_body_cuts_nothing() -> None:
    said = event(1, name="a\u2028b\x85c\x1cd")
    session = message("session", "evt_0", {"secret": SECRET})
    async with speaker([session, said]) as (url, _asked), client(url) as (api, _session, _traffic):
        received, _error = await hear(EventLine(api))
    assert [(one.event["name"], one.valid) for one in received if one] == [("a\u2028b\x85c\x1cd", True)]


async def test_an_event_in_several_data_lines_and_any_line_ends_is_one() -> None:
    body = json.dumps({"id": "evt_1", "type": "account.created"})
    data = json.dumps({"body": body, "signature": sign(body.encode(), SECRET)}, indent=1)
    said = "".join(f"data:{line}\r\n" for line in data.splitlines())
    session = message("session", "evt_0", {"secret": SECRET})
    async with (
        speaker([session, f"event: event\r{said}id: evt_1\r\n\r\n: more\r\n\r\n".encode()]) as (url, _asked),
        client(url) as (api, _session, _traffic),
    ):
        received, _error = await hear(EventLine(api))
    assert [one.valid for one in received if one] == [True]


async def test_a_secret_and_an_id_that_no_ledger_gives_break_nothing() -> None:
    session = b'id: evt_\xc3\xa9\nevent: session\ndata: {"secret": "\\ud800"}\n\n'
    async with speaker([session, event(1)], []) as (url, requests), client(url) as (api, _session, _traffic):
        line = EventLine(api)
        received, _error = await hear(line)
        await hear(line)
    assert [one.valid for one in received if one] == [False]
    assert b"last-event-id: evt_1" in requests[1].lower()


async def test_another_kind_of_answer_is_said_to_be_one(server: ContractServer) -> None:
    server.refuse(200, {"hello": "world"})
    async with client(server.url) as (api, _session, _traffic):
        _heard, error = await hear(EventLine(api))
    assert str(error) == "the answer is not an event stream"


async def test_messages_that_come_in_pieces_are_put_together() -> None:
    whole = message("session", "evt_0", {"secret": SECRET}) + b": nothing happened\n\n" + event(1)
    pieces = [whole[n : n + 7] for n in range(0, len(whole), 7)]
    async with speaker(pieces) as (url, _asked), client(url) as (api, _session, _traffic):
        received, _error = await hear(EventLine(api))
    assert [one.valid for one in received if one] == [True]


async def test_a_message_of_a_kind_that_is_not_known_is_passed_over() -> None:
    session = message("session", "evt_0", {"secret": SECRET})
    said = [session, message("notice", "evt_5", {"body": "{}"}), event(7)]
    async with speaker(said) as (url, _asked), client(url) as (api, _session, _traffic):
        received, _error = await hear(EventLine(api))
    assert [one.event["id"] for one in received if one] == ["evt_7"]


async def test_the_next_session_resumes_after_the_last_event_received() -> None:
    session = message("session", "evt_0", {"secret": SECRET})
    async with (
        speaker([session, event(7)], [session]) as (url, requests),
        client(url) as (api, _session, _traffic),
    ):
        line = EventLine(api)
        await hear(line)
        await hear(line)
    assert b"last-event-id" not in requests[0].lower()
    assert b"last-event-id: evt_7" in requests[1].lower()


async def test_without_a_session_no_event_is_right() -> None:
    async with speaker([event(1)]) as (url, _asked), client(url) as (api, _session, _traffic):
        received, _error = await hear(EventLine(api))
    assert [one.valid for one in received if one] == [False]


@pytest.mark.parametrize("data", ["[]", "5", "{", '{"body": 5, "signature": null}', '{"body": "[]"}'])
async def test_nonsense_is_an_event_that_is_not_right_and_no_fault(data: str) -> None:
    said = f"id: evt_9\nevent: event\ndata: {data}\n\n".encode()
    session = message("session", "evt_0", {"secret": SECRET})
    async with speaker([session, said]) as (url, _asked), client(url) as (api, _session, _traffic):
        received, _error = await hear(EventLine(api))
    assert [(one.event["id"], one.valid) for one in received if one] == [("evt_9", False)]


async def test_a_server_without_a_stream_is_distinguished_from_a_broken_connection(
    server: ContractServer,
) -> None:
    async with client(server.url) as (api, session, _traffic):
        _heard, error = await hear(EventLine(api))
    assert isinstance(error, NotOffered)
    assert session.missing_parts == {"events.stream"}


async def test_a_receiver_that_knows_no_repair_is_said_to_be_out_of_reach(server: ContractServer) -> None:
    async with client(server.url) as (api, _session, _traffic):
        server.refuse(200, {"id": "whe_1", "url": f"{server.url}/hooks"})
        with pytest.raises(ClientError, match="/hooks cannot be repaired from here"):
            await repair(api, "whe_1")
    assert ("POST", "/hooks/repair", {}) in server.requests
