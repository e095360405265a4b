"""Too much is refused or waits its turn; the others are answered meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.conftest import Tally
from tests.faults.client import Connection, connected, open_accounts
from tests.faults.server import Server

IDLE = 2000
GOES_ON_EVERY_S = 0.01  # a client that has its answer
SLOW_MAX = 10_000
FORGETTING_NOTHING = """
from ledger_engine import cli
from ledger_engine.http.wire.tcp import TcpConnection

def buffer_updated(self, nbytes, go_on=TcpConnection.buffer_updated, kept=[]):
    kept.append(b"x" * 10 * nbytes)
    go_on(self, nbytes)

TcpConnection.buffer_updated = buffer_updated
cli.main()
"""
KEEPING = """
from ledger_engine import cli
from ledger_engine.http.wire import connections
connections.connections_max = lambda: 10**6
cli.main()
"""
HEAD = b"POST /v1/transactions HTTP/1.1\r\nHost: ledger\r\n"


@pytest.fixture
def many_files() -> Iterator[None]:
    """As many open sockets as the system lets us have; the server inherits it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 2 * IDLE:
        pytest.skip(f"needs {2 * IDLE} open files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def slow_sockets(soak: int) -> int:
    """Return how many slow sockets a run opens; the system limits a server's open files."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return min(300 * soak, SLOW_MAX, hard - 1000)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Return a server for tests that leave it as it was; each has a project of its own."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    server = Server(tmp_path_factory.mktemp("overload") / "ledger.db", open_files_max=hard)
    server.start()
    yield server
    assert server.stop() == 0


def idle_sockets(stack: ExitStack, port: int, count: int, sending: bytes) -> list[socket.socket]:
    opened = []
    for _ in range(count):
        connection = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=30))
        connection.sendall(sending)
        opened.append(connection)
    return opened


async def assert_served(server: Server, key: str, accounts: list[str]) -> None:
    """A client that comes now is answered, again and again."""
    async with connected(key) as connection:
        for number in range(20):
            body = {"account": accounts[number % len(accounts)], "amount": 5, "type": "credit"}
            answer = await connection.request(server.port, "POST", "/v1/transactions", body)
            assert answer.status == 201
            assert (await connection.request(server.port, "GET", "/api/health")).body["ok"] is True


@pytest.mark.parametrize(
    ("count", "sending"),
    [
        pytest.param(IDLE, b"", id="nothing"),
        pytest.param(500, HEAD + b"X-Slow: ", id="half a head"),
        pytest.param(500, HEAD + b"Content-Length: 100\r\n\r\n{", id="half a body"),
        pytest.param(500, HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\n{", id="half a chunk"),
    ],
)
async def test_those_who_send_little_do_not_keep_others_from_being_served(
    many_files: None, shared: Server, count: int, sending: bytes
) -> None:
    key = shared.make_key()
    accounts = await open_accounts(shared.port, key)
    with ExitStack() as stack:
        await asyncio.to_thread(idle_sockets, stack, shared.port, count, sending)
        await assert_served(shared, key, accounts)
    await assert_served(shared, key, accounts)


def peak_kb(server: Server) -> int:
    """The most memory that the server ever took."""
    with open(f"/proc/{server.pid}/status", encoding="ascii") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))


HEAD_OF_27_KB = b"Authorization: Bearer x\r\n" + b"X-Long: " + b"v" * 27_000
UNFINISHED = [
    (b"Content-Length: 16384", b"x" * 16_000),
    (b"Content-Length: 1048576", b"x" * 100_000),
    (b"Transfer-Encoding: chunked", b"5\r\n{"),
    (b"Transfer-Encoding: chunked", b"3e80\r\n" + b"x" * 15_000),
    (b"Transfer-Encoding: chunked", b"1\r\nx\r\n" * 15_000),
]


def strangers(stack: ExitStack, port: int, count: int, path: str, framing: bytes, body: bytes) -> None:
    """So many unfinished bodies, each from an address of its own."""
    head = b"POST %b HTTP/1.1\r\nHost: ledger\r\n%b\r\n\r\n" % (path.encode(), framing)
    for number in range(count):
        address = (f"127.77.{number // 250}.{1 + number % 250}", 0)
        connection = stack.enter_context(socket.create_connection(("127.0.0.1", port), 30, address))
        # The server may refuse before it has taken all.
        with contextlib.suppress(ConnectionError, BlockingIOError):
            connection.setblocking(False)
            connection.send(head + body)


async def assert_unfinished_bodies_take_little_memory(server: Server, count: int) -> None:
    key = server.make_key()
    accounts = await open_accounts(server.port, key)
    await assert_served(server, key, accounts)
    before = peak_kb(server)
    with ExitStack() as stack:
        for framing, body in UNFINISHED:
            for path in ("/v1/auth/token", "/v1/accounts"):
                await asyncio.to_thread(strangers, stack, server.port, count // 10, path, framing, body)
        await assert_served(server, key, accounts)
        assert peak_kb(server) - before < 2_000 + 8 * count


@pytest.mark.timeout(600)
async def test_unfinished_bodies_of_anonymous_clients_take_little_memory(
    many_files: None, server: Server, soak: int, tally: Tally
) -> None:
    count = slow_sockets(soak)
    await assert_unfinished_bodies_take_little_memory(server, count)
    tally(slow_sockets=len(UNFINISHED) * 2 * (count // 10))


async def test_a_server_that_keeps_what_anonymous_clients_send_is_found(
    many_files: None, tmp_path: Path
) -> None:
    server = Server(tmp_path / "ledger.db", program=FORGETTING_NOTHING)
    server.start()
    try:
        with pytest.raises(AssertionError, match="peak_kb"):
            await assert_unfinished_bodies_take_little_memory(server, 300)
    finally:
        server.kill()


@pytest.mark.timeout(600)
async def test_unfinished_heads_take_little_more_memory_than_was_sent(
    many_files: None, server: Server, soak: int, tally: Tally
) -> None:
    count = slow_sockets(soak)
    key = server.make_key()
    accounts = await open_accounts(server.port, key)
    await assert_served(server, key, accounts)
    before = peak_kb(server)
    with ExitStack() as stack:
        await asyncio.to_thread(idle_sockets, stack, server.port, count, HEAD + HEAD_OF_27_KB)
        await assert_served(server, key, accounts)
        assert peak_kb(server) - before < 2_000 + 30 * count
        tally(slow_sockets=count)


async def test_where_files_run_out_the_longest_idle_connection_makes_room(tmp_path: Path) -> None:
    server = Server(tmp_path / "few.db", open_files_max=300)
    server.start()
    try:
        key = server.make_key()
        accounts = await open_accounts(server.port, key)
        with ExitStack() as stack:
            for sending in (b"", HEAD + b"X-Slow: ", HEAD + b"Content-Length: 100\r\n\r\n{"):
                await asyncio.to_thread(idle_sockets, stack, server.port, 200, sending)
                await assert_served(server, key, accounts)
        assert server.stop() == 0
    finally:
        server.kill()


async def test_a_server_that_keeps_idle_connections_where_files_run_out_is_found(tmp_path: Path) -> None:
    server = Server(tmp_path / "few.db", open_files_max=300, program=KEEPING)
    server.start()
    try:
        key = server.make_key()
        accounts = await open_accounts(server.port, key)
        with ExitStack() as stack:
            await asyncio.to_thread(idle_sockets, stack, server.port, 350, b"")
            with pytest.raises((OSError, EOFError)):  # a reset, the end, or no answer in time
                await asyncio.wait_for(assert_served(server, key, accounts), 5)
    finally:
        server.kill()


async def test_a_head_that_never_ends_is_cut_off(shared: Server) -> None:
    """It may be 16 KB long (docs/interface.md#request-size); a client that goes on is disconnected."""
    # An address of its own, which no other test has used up the limit of.
    reader, writer = await asyncio.open_connection("127.0.0.1", shared.port, local_addr=("127.78.0.1", 0))
    answered = asyncio.create_task(reader.readuntil(b"\r\n\r\n"))
    writer.write(HEAD)
    with contextlib.suppress(ConnectionError):
        while True:
            writer.write(b"X-More: " + b"x" * 8000 + b"\r\n")
            await writer.drain()
            await asyncio.sleep(GOES_ON_EVERY_S if answered.done() else 0)
    writer.close()
    assert (await answered).startswith(b"HTTP/1.1 431 ")
    async with connected("") as other:
        assert (await other.request(shared.port, "GET", "/api/health")).body["ok"] is True


async def test_more_requests_at_once_than_can_wait_are_refused_and_the_books_are_right(
    many_files: None, shared: Server
) -> None:
    """Two hundred batches of fifty postings: each is answered, with 201 or 503."""
    key = shared.make_key()
    accounts = await open_accounts(shared.port, key)
    batch = [{"account": accounts[n % 4], "amount": 1, "type": "credit"} for n in range(50)]
    connections = [Connection(key) for _ in range(200)]
    answers = await asyncio.gather(
        *(
            connection.request(shared.port, "POST", "/v1/transactions/batch", {"transactions": batch})
            for connection in connections
        )
    )
    for connection in connections:
        await connection.close()
    statuses = {answer.status for answer in answers}
    assert statuses <= {201, 503}
    posted = sum(len(answer.body["data"]) for answer in answers if answer.status == 201)
    async with connected(key) as connection:
        held = [
            (await connection.request(shared.port, "GET", f"/v1/accounts/{id}")).body["balance"]
            for id in accounts
        ]
    assert sum(held) == posted
    shared.assert_books_are_right()


def test_a_server_with_idle_connections_stops_on_sigterm(many_files: None, server: Server) -> None:
    with ExitStack() as stack:
        idle_sockets(stack, server.port, 200, b"")
        idle_sockets(stack, server.port, 50, HEAD + b"Content-Length: 100\r\n\r\n{")
        assert server.stop() == 0
    server.assert_books_are_right()
