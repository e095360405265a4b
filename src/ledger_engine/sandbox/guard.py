"""The two wrappers through which requests pass in an application with test helpers.

The turnstile wraps the gate, and makes requests wait while the ledger is replaced. The guard wraps the
dispatcher, to which the gate passes requests on. The guard lets only test keys with the role owner use the
helpers, and applies faults to every request that is not for a helper.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from typing import Any

from ledger_engine.access.credentials import Credential
from ledger_engine.core.errors import NotFound, StorageUnavailable
from ledger_engine.http.gate.reply import Reply
from ledger_engine.http.operations import CALL, Call
from ledger_engine.http.wire.asgi import Asgi, Header, Receive
from ledger_engine.sandbox.faults import Fault, Faults, MatchedRequest, fault_error

# Seconds that the turnstile waits until the requests in progress have ended. A request that takes longer
# fails or works on the new data.
PATIENCE_S = 5.0
ROOT = "/v1/test_helpers"


class Turnstile:
    """Counts the requests in progress, and makes new requests wait during a block of `hold_requests`."""

    def __init__(self) -> None:
        self.replacements = 0  # how often the ledger was replaced
        self._under_way = 0
        self._is_open = asyncio.Event()
        self._is_open.set()
        self._is_empty = asyncio.Event()
        self._is_empty.set()

    async def wait_until_open(self) -> None:
        """Wait until the turnstile is open."""
        await self._is_open.wait()

    @contextlib.asynccontextmanager
    async def count_request(self) -> AsyncIterator[None]:
        """Wait until the turnstile is open; then count a request as in progress until the block ends."""
        await self._is_open.wait()
        self._under_way += 1
        self._is_empty.clear()
        try:
            yield
        finally:
            self._under_way -= 1
            if not self._under_way:
                self._is_empty.set()

    @contextlib.asynccontextmanager
    async def hold_requests(self) -> AsyncIterator[None]:
        """Make new requests wait until the block ends.

        The block begins when the requests in progress have ended. If this takes longer than PATIENCE_S
        seconds, the block begins anyway.
        """
        self._is_open.clear()
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(PATIENCE_S):
                    await self._is_empty.wait()
            yield
        finally:
            self._is_open.set()


class Guard:
    """An ASGI application that passes requests on to `app`, except requests that it refuses or makes fail."""

    def __init__(self, app: Asgi, faults: Faults, turnstile: Turnstile) -> None:
        self._app = app
        self._faults = faults
        self._turnstile = turnstile

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Reply) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        call: Call = scope[CALL]
        if is_helper_path(scope["path"]):
            if isinstance(call.caller, Credential) and not _can_use_helpers(call.caller):
                await send.answer(*call.refuse(NotFound("path", scope["path"])))
                return
        elif len(self._faults):
            replacements = self._turnstile.replacements
            fault = await self._wait_for_delays(scope, call)
            if self._turnstile.replacements != replacements:
                # While a fault delayed the request, the ledger that accepted the credential was replaced.
                error = StorageUnavailable("the ledger was replaced by a snapshot in the meantime")
                await send.answer(*call.refuse(error))
                return
            if fault is not None:
                await self._fail(fault, scope, receive, send)
                return
        await self._app(scope, receive, send)

    async def _wait_for_delays(self, scope: dict[str, Any], call: Call) -> Fault | None:
        """Apply the request's faults in their order, as long as they are delays.

        Return the first fault that is not a delay; None if every fault is a delay.
        """
        credential = call.caller if isinstance(call.caller, Credential) else None
        request = MatchedRequest(
            scope["method"], scope["path"], None if credential is None else credential.id, call.headers
        )
        project, livemode = (None, False) if credential is None else (credential.project, credential.livemode)
        for fault in self._faults.of_request(request, project, livemode):
            if fault.action["delay_ms"] is None:
                return fault
            jitter_ms = random.uniform(0, fault.action["jitter_ms"] or 0)
            await asyncio.sleep((fault.action["delay_ms"] + jitter_ms) / 1000)
        return None

    async def _fail(self, fault: Fault, scope: dict[str, Any], receive: Receive, send: Reply) -> None:
        """Answer with the fault's error, or return without a complete answer.

        If this method returns without a complete answer, the server cuts the connection.
        """
        status, cut = fault.action["status"], fault.action["cut"]
        if status is not None:
            call: Call = scope[CALL]
            await send.answer(*call.refuse(fault_error(status, fault.action["code"], fault.id), status))
        elif cut != "before":
            answer = _WithheldReply()
            with contextlib.suppress(_StreamedAnswer):
                await self._app(scope, receive, answer)
            if cut == "half" and answer.status:
                await answer.send_half(send)


class _StreamedAnswer(Exception):
    """Raised at the first part of an answer in several parts, because such an answer may never end."""


class _WithheldReply:
    """Receives an answer instead of a `Reply`, but sends nothing before `send_half` is called."""

    def __init__(self) -> None:
        self.status = 0
        self._headers: list[Header] = []
        self._body = b""

    async def __call__(self, message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.status, self._headers = message["status"], list(message["headers"])
        else:
            self._body += message["body"]
            if message.get("more_body", False):
                raise _StreamedAnswer

    async def answer(self, status: int, headers: list[Header], body: bytes) -> None:
        self.status, self._headers, self._body = status, headers, body

    async def send_half(self, send: Reply) -> None:
        """Send the head of the answer, which announces the whole body's length, and then half of the body."""
        length = (b"content-length", b"%d" % len(self._body))
        headers = [header for header in self._headers if header[0].lower() != b"content-length"]
        await send({"type": "http.response.start", "status": self.status, "headers": [*headers, length]})
        half = self._body[: len(self._body) // 2]
        await send({"type": "http.response.body", "body": half, "more_body": True})


def is_helper_path(path: str) -> bool:
    """Return whether a path belongs to the test helpers."""
    return path == ROOT or path.startswith(ROOT + "/")


def _can_use_helpers(caller: Credential) -> bool:
    return not caller.livemode and caller.role == "owner" and caller.user is None
