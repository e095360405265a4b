"""Listening to a server and forwarding: in order, signed, once, through lost connections."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from ledger_client import ledger
from ledger_client.webhooks import is_signed
from ledger_engine.cli import listening
from ledger_engine.cli.listening import StreamRefusal, WebhookListener
from ledger_engine.events.webhooks.signing import sign
from tests.faults.client import connected, open_accounts
from tests.faults.server import Server
from tests.forking import Process, run
from tests.ledger_engine.waiting import looked_until
from tests.locations import place_of_its_own
from tests.receivers import Received, Receiver, answering, receiving

pytestmark = pytest.mark.process
SECRET = "whsec_dGVzdA=="


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port


@pytest.fixture(scope="module")
def server(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Run a server that restarts on the same port."""
    database = place_of_its_own(kind, tmp_path_factory.mktemp("listening"), "listening")
    server = Server(database, options=("--port", str(free_port())))
    server.start()
    yield server
    server.kill()


@pytest.fixture
def key(server: Server) -> str:
    return server.make_key()


class Output:
    """The lines a listener output."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    async def until(self, text: str, count: int = 1) -> None:
        async def look() -> int:
            return len([line for line in self.lines if text in line])

        await looked_until(look, lambda found: found >= count)


@asynccontextmanager
async def listening_to(
    server: Server, key: str, receiver: Receiver, *, retry: bool = False, **more: Any
) -> AsyncIterator[Output]:
    """Run a listener that has connected."""
    output = Output()
    task = asyncio.create_task(
        WebhookListener(server.url, key, receiver.url, SECRET, output.lines.append, retry, **more).run()
    )
    try:
        await output.until("whsec_")
        yield output
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def events(server: Server, key: str) -> list[str]:
    """Every event, the oldest first."""
    async with connected(key) as connection:
        answer = await connection.request(server.port, "GET", "/v1/events?limit=100")
    return [event["id"] for event in answer.body["data"]][::-1]


async def test_each_event_is_forwarded_signed_and_printed(server: Server, key: str) -> None:
    async with receiving() as receiver, listening_to(server, key, receiver) as output:
        await open_accounts(server.port, key, count=5)
        await receiver.until_received(5)
        await output.until("<-- 200", 5)
        assert receiver.events == await events(server, key)
        for request in receiver.received:
            assert is_signed(request.body, request.headers["ledger-signature"], SECRET)
            assert request.headers["ledger-event-type"] == "account.created"
            assert request.attempt == 1
    out = [line for line in output.lines if line.startswith("--> account.created evt_")]
    back = [line for line in output.lines if line.startswith("<-- 200 Whatever evt_")]
    assert (len(out), len(back)) == (5, 5)


async def test_only_the_chosen_types_are_forwarded_with_the_headers_that_were_given(
    server: Server, key: str
) -> None:
    chosen = {"kinds": ("user.created",), "headers": {"X-Tenant": "7", "Ledger-Attempt": "9"}}
    async with receiving() as receiver, listening_to(server, key, receiver, **chosen) as output:
        await open_accounts(server.port, key, count=1)
        async with connected(key) as connection:
            body = {"name": "Ada", "email": "ada@example.com"}
            await connection.request(server.port, "POST", "/api/users", body)
        await output.until("<-- 200")
    (request,) = receiver.received
    assert request.headers["ledger-event-type"] == "user.created"
    assert (request.headers["x-tenant"], request.attempt) == ("7", 1)


async def test_after_a_lost_connection_it_goes_on_where_it_was_with_the_same_secret(
    server: Server, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger, "RECONNECTS_S", (0.05,))
    async with receiving() as receiver, listening_to(server, key, receiver) as output:
        await open_accounts(server.port, key, count=2)
        await receiver.until_received(2)
        server.kill()
        await output.until("Not connected")
        server.start()
        await open_accounts(server.port, key, count=3)
        await receiver.until_received(5)
        assert receiver.events == await events(server, key)
        for request in receiver.received:
            assert is_signed(request.body, request.headers["ledger-signature"], SECRET)
    assert "Connected again." in output.lines


async def test_a_delivery_that_the_handler_refuses_is_reported_and_left(server: Server, key: str) -> None:
    async with receiving(answering(500)) as receiver, listening_to(server, key, receiver) as output:
        await open_accounts(server.port, key, count=1)
        await output.until("<-- 500")
        receiver.behave = answering()
        await open_accounts(server.port, key, count=1)
        await output.until("<-- 200")
        assert [request.attempt for request in receiver.received] == [1, 1]


async def test_with_retry_it_is_tried_again_beside_what_comes(
    server: Server, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listening, "RETRIES_S", (0.05, 0.05, 0.05))

    async def third_time(request: Received, writer: asyncio.StreamWriter) -> None:
        await answering(200 if request.attempt == 3 else 500)(request, writer)

    async with receiving(third_time) as receiver, listening_to(server, key, receiver, retry=True) as output:
        await open_accounts(server.port, key, count=3)
        await output.until("<-- 200", 3)
        assert sorted(request.attempt for request in receiver.received) == [1, 1, 1, 2, 2, 2, 3, 3, 3]
        await output.until("(attempt 3)", 3)


async def test_a_missing_handler_is_reported(server: Server, key: str) -> None:
    async with receiving() as gone:
        pass
    async with listening_to(server, key, gone) as output:
        await open_accounts(server.port, key, count=1)
        await output.until("<-- connection refused")


async def test_an_invalid_key_is_refused(server: Server) -> None:
    with pytest.raises(StreamRefusal, match="401"):
        await WebhookListener(server.url, "sk_test_none", "http://127.0.0.1:1/", SECRET, print).run()


@asynccontextmanager
async def speaking(answer: bytes, asked: asyncio.Semaphore | None = None) -> AsyncIterator[str]:
    """Yield the address of a server that answers everything with these bytes, and then releases `asked`."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        writer.close()
        if asked is not None:
            asked.release()

    listener = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with listener:
        yield f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"


STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
SESSION = b'event: session\ndata: {"secret": "whsec_x"}\n\n'


def event(body: str, indent: int | None = None) -> bytes:
    """Return an event signed with the session's secret, its data in one line or several."""
    data = json.dumps({"body": body, "signature": sign("whsec_x", body.encode())}, indent=indent)
    return "".join(["event: event\n", *(f"data: {line}\n" for line in data.splitlines()), "\n"]).encode()


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"HTTP/1.1 404 Not Found\r\nContent-Length: 5\r\n\r\nsorry", "not a ledger"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", "the answer is not an event stream"),
        (STREAM + b"event: session\ndata: {\n\n", "cannot be read"),
        (STREAM + SESSION + event("[]"), "cannot be read"),
        (STREAM + SESSION + event('{"id": "evt_1", "type": "\xe9"}'), "cannot be read"),
        (
            STREAM + SESSION + 'event: event\ndata: {"body": "{}", "signature": "é"}\n\n'.encode(),
            "wrong signature",
        ),
    ],
)
async def test_a_server_that_is_no_ledger_is_refused(answer: bytes, words: str) -> None:
    async with speaking(answer) as url:
        with pytest.raises(StreamRefusal, match=words):
            await WebhookListener(url, "sk", "http://127.0.0.1:1/", SECRET, print).run()


async def test_an_event_in_several_lines_with_any_character_is_forwarded_whole() -> None:
    body = json.dumps({"id": "evt_1", "type": "account.created", "name": "a\u2028b\x85c"}, ensure_ascii=False)
    async with receiving() as receiver, speaking(STREAM + SESSION + event(body, indent=1)) as url:
        listening_ = asyncio.create_task(WebhookListener(url, "sk", receiver.url, SECRET, print).run())
        await receiver.until_received(1)
        listening_.cancel()
        await asyncio.gather(listening_, return_exceptions=True)
    assert receiver.received[0].body == body.encode()


async def test_a_server_that_has_trouble_is_asked_again_and_named_without_repeating_a_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ledger, "RECONNECTS_S", (0.01, 0.02))
    asked = asyncio.Semaphore(0)
    busy = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n"
    async with speaking(busy, asked) as url:
        output = Output()
        task = asyncio.create_task(
            WebhookListener(url, "sk", "http://127.0.0.1:1/", SECRET, output.lines.append).run()
        )
        for _ in range(6):
            await asked.acquire()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    reason = f"Not connected to {url}: 503 from a server that is not a ledger."
    waits = "in 0.01 s", "in 0.02 s", "every 0.02 s"
    assert output.lines == [f"{reason} Trying again {wait}." for wait in waits]


async def test_a_delivery_that_is_never_taken_is_tried_so_often_and_the_stream_waits_for_too_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(listening, "RETRIES_S", (0.01, 0.01))
    monkeypatch.setattr(listening, "RETRIES_MAX", 1)
    monkeypatch.setattr(ledger, "RECONNECTS_S", (1000,))
    sent = b"".join(event(json.dumps({"id": f"evt_{number}", "type": "x"})) for number in (1, 2, 3))
    async with receiving(answering(500)) as receiver, speaking(STREAM + SESSION + sent) as url:
        output = Output()
        task = asyncio.create_task(
            WebhookListener(url, "sk", receiver.url, SECRET, output.lines.append, True).run()
        )
        await output.until("<-- 500", 9)
        assert sorted((each.event, each.attempt) for each in receiver.received) == [
            (f"evt_{number}", attempt) for number in (1, 2, 3) for attempt in (1, 2, 3)
        ]
        # The third was left in the stream until a place was free, so the first had its last attempt before.
        order = [(each.event, each.attempt) for each in receiver.received]
        assert order.index(("evt_1", 3)) < order.index(("evt_3", 1))
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_wait_for_another_attempt_ends_with_the_listener(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listening, "RETRIES_S", (1000,))
    sent = event('{"id": "evt_1", "type": "x"}')
    async with receiving(answering(500)) as receiver, speaking(STREAM + SESSION + sent) as url:
        listener = WebhookListener(url, "sk", receiver.url, SECRET, (output := Output()).lines.append, True)
        task = asyncio.create_task(listener.run())
        await output.until("Not connected")
        (waiting,) = listener._retries
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert waiting.cancelled()


# The command


class Command:
    """`ledger-engine listen` or `tail` as a process, of a user whose data are in `home`."""

    def __init__(self, home: Path, *words: str) -> None:
        pipe = subprocess.PIPE
        environment = {**os.environ, "PYTHONUNBUFFERED": "1", "XDG_DATA_HOME": str(home)}
        self.process = Process(words, stdout=pipe, stderr=pipe, environment=environment)

    async def line(self) -> str:
        assert self.process.stdout is not None
        return await asyncio.to_thread(self.process.stdout.readline)

    async def end(self, number: int) -> int:
        self.process.send_signal(number)
        return await asyncio.to_thread(self.process.wait, 60)

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.mark.sqlite
async def test_without_a_key_it_listens_to_the_databases_own_server_with_one_secret_in_every_run(
    server: Server, tmp_path: Path
) -> None:
    key = server.make_key()
    project = server.cli("projects", "list")[-1]["id"]
    secrets = set()
    async with receiving() as receiver:
        target = receiver.url.removeprefix("http://")
        words = ("--forward-to", target, "--database", str(server.database), "--project", project)
        for run_number, stop in enumerate((signal.SIGINT, signal.SIGTERM), 1):
            command = Command(tmp_path, "listen", *words)
            try:
                assert await command.line() == f"Listening to {server.url}, forwarding to {receiver.url}\n"
                secret = (await command.line()).strip().rpartition(" ")[2]
                await open_accounts(server.port, key, count=1)
                await receiver.until_received(run_number)
                request = receiver.received[-1]
                assert is_signed(request.body, request.headers["ledger-signature"], secret)
                assert (await command.line()).startswith("--> account.created evt_")
                assert (await command.line()).startswith("<-- 200 ")
                assert await command.end(stop) == 0
            finally:
                command.close()
            secrets.add(secret)
    assert len(secrets) == 1
    (kept,) = tmp_path.rglob("listen.secret")
    assert (kept.stat().st_mode & 0o777, kept.read_text()) == (0o600, f"{secret}\n")
    own = [
        each for each in server.cli("keys", "list", "--project", project, "--all") if each["name"] == "listen"
    ]
    assert len(own) == 2
    assert all(each["revoked_at"] is not None for each in own)


@pytest.mark.sqlite
async def test_tail_prints_each_event_in_a_line(server: Server, tmp_path: Path) -> None:
    key = server.make_key()
    project = server.cli("projects", "list")[-1]["id"]
    words = ("tail", "--database", str(server.database), "--project", project)
    people, program = Command(tmp_path, *words), Command(tmp_path, *words, "--json")
    try:
        for each in (people, program):
            assert each.process.stderr is not None
            said = await asyncio.to_thread(each.process.stderr.readline)
            assert said == f"Listening to {server.url}\n"
        await open_accounts(server.port, key, count=1)
        event = json.loads(await program.line())
        shown = (event["created"], "account.created", event["data"]["object"]["id"], event["id"])
        assert (await people.line()).split() == list(shown)
        assert [await each.end(signal.SIGINT) for each in (people, program)] == [0, 0]
    finally:
        people.close()
        program.close()


async def test_with_a_key_it_listens_to_any_server(server: Server, key: str, tmp_path: Path) -> None:
    async with receiving() as receiver:
        words = ("--forward-to", receiver.url, "--url", f"{server.url}/v1", "--key", key)
        command = Command(tmp_path, "listen", *words)
        try:
            assert server.url in await command.line()
            await command.line()
            await open_accounts(server.port, key, count=2)
            await receiver.until_received(2)
            assert await command.end(signal.SIGINT) == 0
        finally:
            command.close()


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (("--url", "{url}", "--key", "sk_test_none"), 1),
        (("--url", "{url}"), 2),
        (("--database", "{nowhere}"), 1),
    ],
)
def test_a_server_that_cannot_be_listened_to_is_reported_in_one_line(
    server: Server, tmp_path: Path, words: tuple[str, ...], status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LEDGER_API_KEY", raising=False)
    given = [word.format(url=server.url, nowhere=tmp_path / "none.db") for word in words]
    done = run(("listen", "--forward-to", "x:1", *given), timeout=60)
    assert done.returncode == status
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith("ledger-engine: ")
