"""What a request is answered whatever its headers and its end, and what it leaves behind: nothing."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

from ledger_engine.http.app import create_app
from ledger_engine.http.gate.gate import DEFAULT_AUTH_RATE_LIMIT, Gate
from ledger_engine.http.wire.asgi import EXTENSION
from ledger_engine.http.wire.tcp import HEAD_PIECE
from ledger_engine.store.engine import Engine
from tests.ledger_engine.http.wire.wires import answered, in_pieces_of
from tests.ledger_engine.in_process import client_of


@pytest.fixture
def without_collector() -> Iterator[None]:
    """What is held in a circle stays, as it does in a server for minutes."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("without_collector")
@pytest.mark.parametrize(
    ("sent", "status"),
    [
        ("GET /v1/accounts HTTP/1.1\r\n\r\n", 401),
        (f"GET /v1/accounts HTTP/1.1\r\nAuthorization: Bearer sk_test_{'A' * 32}\r\n\r\n", 401),
        (f"GET /v1/accounts HTTP/1.1\r\nX: {'x' * 20_000}\r\n\r\n", 431),
        ("PUT /api/health HTTP/1.1\r\n\r\n", 405),
        ("GET /api/health HTTP/1.1\r\n\r\n", 200),
        ("POST /v1/auth/token HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400),
        ("GET /v1/accounts HTTP/3.0\r\n\r\n", 400),
    ],
    ids=["no credential", "a bad one", "large headers", "bad method", "health", "bad body", "bad head"],
)
async def test_a_request_that_is_answered_is_gone(engine: Engine, sent: str, status: int) -> None:
    """Else a flood of requests that are refused, each with 8 KB of its body, takes memory and keeps it."""
    app: Any = create_app(engine)
    seen = []

    async def noting(scope: dict[str, Any], receive: Any, send: Any) -> None:
        seen.append(weakref.ref(scope["extensions"][EXTENSION]))
        await app(scope, receive, send)

    text = sent.replace("\r\n", "\r\nHost: here\r\n", 1).encode()
    answer = await answered(noting, in_pieces_of(text, HEAD_PIECE))
    assert answer.startswith(b"HTTP/1.1 %d " % status)
    assert [request() for request in seen] == [None]


@pytest.mark.parametrize(
    ("name", "status"),
    [("Accept", 200), ("Authorization", 400), ("Content-Type", 400), ("Idempotency-Key", 400)],
)
async def test_a_header_of_which_only_one_counts_cannot_come_twice_and_others_can(
    engine: Engine, name: str, status: int
) -> None:
    """For an application that another server serves; ours refuses the same (`head.py`)."""
    async with client_of(create_app(engine)) as client:
        answer = await client.get("/api/health", headers=[(name, "one"), (name, "two")])
    assert answer.status_code == status
    assert status == 200 or answer.json()["error"] == "header_conflict"


@pytest.mark.parametrize(
    ("error", "status", "says"),
    [
        (RuntimeError(), 500, "The server failed. The id of this request is req_"),
        (MemoryError(), 503, "there is not enough memory. It is not known whether the change was made"),
    ],
)
async def test_a_failure_is_answered_unless_an_answer_has_begun(
    engine: Engine, error: Exception, status: int, says: str
) -> None:
    """Its client would read a second answer as part of the first, or as that to its next request."""

    async def fails(scope: dict[str, Any], receive: Any, send: Any) -> None:
        if scope["path"] == "/begun":
            await send({"type": "http.response.start", "status": 200, "headers": []})
        raise error

    gate = Gate(fails, engine, DEFAULT_AUTH_RATE_LIMIT, engine.shared_state.rate_limits)  # type: ignore[arg-type]
    async with client_of(gate) as client:
        answer = await client.post("/v1/accounts")
        with pytest.raises(type(error)):
            await client.get("/begun")
    assert answer.status_code == status
    assert says in answer.text
