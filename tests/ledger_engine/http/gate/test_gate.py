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
from ledger_engine.http.wire.head import BadRequest
from ledger_engine.store.engine import Engine
from tests.ledger_engine.in_process import client_of


class Receiving:
    """An ASGI `receive` and our server's extension, for a request whose head or body cannot be read."""

    whole = False

    def __init__(self, broken: str) -> None:
        self.refusal = BadRequest("no") if broken == "HEAD" else None
        self.broken = BadRequest("no") if broken == "BODY" else None

    async def __call__(self) -> dict[str, Any]:
        if self.broken is not None:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": b"", "more_body": False}

    def want(self, *, may_be_large: bool) -> None:
        """Do nothing: what there is can be received."""


@pytest.fixture
def without_collector() -> Iterator[None]:
    """What is held in a circle stays, as it does in a server for minutes."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("without_collector")
@pytest.mark.parametrize(
    ("method", "path", "headers", "status"),
    [
        ("GET", "/v1/accounts", [], 401),
        ("GET", "/v1/accounts", [(b"authorization", b"Bearer sk_test_" + b"A" * 32)], 401),
        ("GET", "/v1/accounts", [(b"x", b"x" * 20_000)], 431),
        ("PUT", "/api/health", [], 405),
        ("GET", "/api/health", [], 200),
        ("BROKEN BODY", "/v1/accounts", [], 400),
        ("BROKEN HEAD", "/v1/accounts", [], 400),
    ],
)
async def test_a_request_that_is_answered_is_gone(
    engine: Engine, method: str, path: str, headers: list[tuple[bytes, bytes]], status: int
) -> None:
    """Else a flood of requests that are refused, each with 8 KB of its body, takes memory and keeps it."""
    app = create_app(engine)
    statuses = []

    async def send(message: dict[str, Any]) -> None:
        statuses.append(message.get("status"))

    broken = method.removeprefix("BROKEN ") if method.startswith("BROKEN") else ""
    receive = Receiving(broken)
    gone = weakref.ref(receive)
    if broken:
        headers = [(b"content-length", b"5")]
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [(b"host", b"here"), *headers],
        "client": ("127.0.0.1", 1),
        "extensions": {EXTENSION: receive} if broken else {},
    }
    await app(scope, receive, send)  # type: ignore[arg-type]
    assert statuses[0] == status
    del receive, scope
    assert gone() is None


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
        (MemoryError(), 503, "there is not enough memory. Whether the change was made is not known"),
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

    gate = Gate(fails, engine, DEFAULT_AUTH_RATE_LIMIT, engine.shared.rate_limits)  # type: ignore[arg-type]
    async with client_of(gate) as client:
        answer = await client.post("/v1/accounts")
        with pytest.raises(type(error)):
            await client.get("/begun")
    assert answer.status_code == status
    assert says in answer.text
