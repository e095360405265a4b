"""A webhook inbox: receives webhooks, checks their signatures, and waits for events."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from ledger_client.errors import NotFound
from ledger_client.webhooks import is_signed
from ledger_engine.testing.server import Ledger

WAIT_S = 10.0


class Inbox:
    """Receives the events of a project by webhook. Use it as a context manager.

    `events` are the events with a valid signature, in order of arrival, including repeats; `rejected` are the
    bodies whose signature is missing or wrong. `answer` is the status with which the inbox answers an event;
    a test can set another status.
    """

    def __init__(self, ledger: Ledger, events: list[str] | None = None) -> None:
        self._ledger = ledger
        self._types = events or ["*"]
        self._condition = threading.Condition()
        self._secret = ""
        self.events: list[dict[str, Any]] = []
        self.rejected: list[bytes] = []
        self.answer = 200

    def __enter__(self) -> Inbox:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self._receive))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}/"
        endpoint = self._ledger.client.webhook_endpoints.create(self.url, self._types)
        self.endpoint, self._secret = endpoint.id, endpoint.secret or ""
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(NotFound):  # a reset or a restored snapshot may have deleted the endpoint
            self._ledger.client.webhook_endpoints.delete(self.endpoint)
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def wait_for(
        self,
        type: str,
        matches: Callable[[dict[str, Any]], object] = lambda event: True,
        *,
        count: int = 1,
        timeout: float = WAIT_S,
    ) -> dict[str, Any]:
        """Wait for events of this type for which `matches` is true; return the `count`-th event.

        If fewer events have arrived after `timeout` seconds, this raises AssertionError with a list of the
        received events.
        """
        deadline = time.monotonic() + timeout

        def matching_events() -> list[dict[str, Any]]:
            return [event for event in self.events if event["type"] == type and matches(event)]

        with self._condition:
            while len(matching_events()) < count:
                if not self._condition.wait(max(0.0, deadline - time.monotonic())):
                    types = ", ".join(event["type"] for event in self.events) or "nothing"
                    times = "" if count == 1 else f" {count} times"
                    forgeries = f", and {len(self.rejected)} with a wrong signature" if self.rejected else ""
                    raise AssertionError(
                        f"{type} did not arrive{times} within {timeout:g} s; received: {types}{forgeries}"
                    )
            return matching_events()[count - 1]

    def _receive(self, signature: str, body: bytes) -> int:
        is_good = is_signed(body, signature, self._secret)
        with self._condition:
            if is_good:
                self.events.append(json.loads(body))
            else:
                self.rejected.append(body)
            self._condition.notify_all()
        return self.answer if is_good else 400


def _handler(take: Callable[[str, bytes], int]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle(self) -> None:
            with suppress(ConnectionError):  # the client has closed the connection
                super().handle()

        def do_POST(self) -> None:  # http.server calls this name
            body = self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(take(self.headers.get("Ledger-Signature", ""), body))
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    return Handler
