"""Whatever is sent, each answer has the contract's shape and headers, and the next request is unharmed."""

from __future__ import annotations

import json
import socket
from collections import Counter

import pytest

from tests.conftest import Tally
from tests.contract.conftest import Cli, Server
from tests.contract.mutations import Mutant, Mutations
from tests.contract.raw import PATIENCE_S, Wire

REQUESTS = 400
OWED = {"request-id", "x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"}
SHAPES = {
    "/v1": lambda error: (
        set(error) == {"error"} and set(error["error"]) == {"type", "code", "message", "param"}
    ),
    "/api": lambda error: set(error) == {"error", "message"},
    "/oauth": lambda error: set(error) == {"error", "error_description"},
}


def address_of(number: int) -> str:
    """Return the address that a request comes from.

    Requests without a credential count on their address, and an address has 28,000 ports a minute.
    """
    return f"127.{100 + number // 62_500 % 100}.{number // 250 % 250}.{1 + number % 250}"


def everything_answered(port: int, number: int, mutant: Mutant) -> bytes:
    """All that the server answers until it ends the connection."""
    with socket.create_connection(("127.0.0.1", port), PATIENCE_S, (address_of(number), 0)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            for piece in mutant.pieces:
                connection.sendall(piece)
            connection.shutdown(socket.SHUT_WR)
        except (BrokenPipeError, ConnectionResetError, OSError):
            pass
        received = b""
        while data := connection.recv(65536):
            received += data
        return received


def check(received: bytes, mutant: Mutant) -> list[int]:
    """Return the statuses of the answers, each of which must be as the contract says."""
    statuses = []
    while received:
        head, mark, received = received.partition(b"\r\n\r\n")
        assert mark, "half an answer"
        first, *lines = head.decode("latin-1").split("\r\n")
        status = int(first.split(" ")[1])
        if status == 100:
            continue
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
        statuses.append(status)
        assert status < 500
        assert headers.keys() >= OWED
        length = int(headers["content-length"])
        body = received[:length]
        if mutant.may_be_head and (not body or body.startswith(b"HTTP/1.1 ")):
            continue
        assert len(body) == length
        received = received[length:]
        if status >= 400 and headers["content-type"].startswith("application/json"):
            # Where the framing is wrong, what was a body is read as the next request.
            check_error(status, json.loads(body), mutant.path if len(statuses) == 1 else None)
        else:
            assert status < 400 or headers["content-type"].startswith("text/html")
    return statuses


def check_error(status: int, error: dict[str, object], path: str | None) -> None:
    if status == 429:
        assert error.keys() == {"error", "message"}
        assert error["error"] == "rate_limited"
        return
    fitting = [prefix for prefix, fits in SHAPES.items() if fits(error)]
    assert fitting
    if path is not None:
        assert path.startswith(fitting[0]), (path, error)


@pytest.mark.timeout(3600)
def test_any_request_is_answered_in_order_and_leaves_the_next_one_unharmed(
    server: Server, cli: Cli, seed: int, soak: int, tally: Tally
) -> None:
    many = ["--plan", "enterprise", "--rate-limit", "1000000000", "--burst", "1000000000"]
    project = cli("projects", "create", "Mutations", *many)["id"]
    key = cli("keys", "create", "--project", project, "--mode", "test")["key"]
    mutations = Mutations(seed, key)
    seen: Counter[int] = Counter()
    for number in range(REQUESTS * soak):
        mutant = mutations.next()
        try:
            seen.update(check(everything_answered(server.port, number, mutant), mutant))
        except Exception as error:
            raise AssertionError(f"request {number}: {mutant}") from error
        wire = Wire(server.port, address_of(number), key)
        assert wire.ask(wire.head("GET", "/v1/accounts?limit=1")).status == 200
    tally(requests=2 * REQUESTS * soak)
    print(dict(sorted(seen.items())))
    assert {200, 400, 404} <= set(seen)
