"""Listening to events over server-sent events, on a real socket."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from ledger_client.errors import LedgerError, NotConnected
from ledger_client.webhooks import sign
from ledger_tui.client.errors import NotOffered
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


async def hear(line: EventLine) -> tuple[list[ReceivedEvent | None], LedgerError]:
    """Return all messages until the connection breaks, and the reason for its end."""
    received: list[ReceivedEvent | None] = []
    try:
        async for one in line.listen():
            received.append(one)
    except LedgerError as error:
        return received, error
    raise AssertionError("a line never ends well")


async def test_each_event_is_checked_with_the_secret_of_its_session() -> None:
    session = message("session", "evt_0", {"secret": SECRET})
    async with (
        speaker([session, event(1), event(2, "whsec_other")]) as (url, _asked),
        client(url) as (api, _s, _t),
    ):
        received, error = await hear(EventLine(api))
    assert isinstance(error, NotConnected)
    assert received[0] is None
    assert [(one.event["id"], one.valid) for one in received if one] == [("evt_1", True), ("evt_2", False)]


async def test_another_kind_of_answer_is_said_to_be_one(server: ContractServer) -> None:
    server.refuse(200, {"hello": "world"})
    async with client(server.url) as (api, _session, _traffic):
        _heard, error = await hear(EventLine(api))
    assert str(error) == "the answer is not an event stream"


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


async def test_nonsense_is_an_event_that_is_not_right_and_no_fault() -> None:
    session = message("session", "evt_0", {"secret": SECRET})
    said = b'id: evt_9\nevent: event\ndata: {"body": 5}\n\n'
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
        with pytest.raises(LedgerError, match="/hooks cannot be repaired from here"):
            await repair(api, "whe_1")
    assert ("POST", "/hooks/repair", {}) in server.requests
