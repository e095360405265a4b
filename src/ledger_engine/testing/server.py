"""A server for tests, in a process of its own."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

import httpx

from ledger_client.answers import LIST_BYTES_MAX, Client
from ledger_engine.testing.project import Ledger, answered

STOP_TIMEOUT_S = 20
_NO_LIMIT = "1000000"
_PROGRAM = [sys.executable, "-m", "ledger_engine"]
_OPTIONS = ["--test-helpers", "--port", "0", "--auth-rate-limit", f"{_NO_LIMIT}/{_NO_LIMIT}"]
_TIMEOUT_S = 60.0  # moving the clock waits for webhooks
_T = TypeVar("_T")


class LedgerServer:
    """A running server with test helpers: its `url`, and `key`, an owner's test key of its first project."""

    def __init__(self, url: str, key: str, process: subprocess.Popen[str] | None = None) -> None:
        self.url = url.rstrip("/")
        self.key = key
        self._process = process
        # One for all clients: each would take 30 ms for the authorities it trusts.
        self._transport = _Shared()
        self.api = self.client(key)

    @classmethod
    def connect(cls, url: str, key: str) -> LedgerServer:
        """Use a server that runs already. Raises ConnectionError, or ValueError for the URL or the key."""
        if not url.startswith(("http://", "https://")):
            raise ValueError(f"{url} must begin with http:// or https://")
        server = cls(url, key)
        try:
            caller = answered(server.api.get("/v1/whoami"))
        except httpx.HTTPStatusError as error:
            server.stop()
            raise ValueError(f"{url} refuses the key: {error.response.text[:1000]}") from error
        except (httpx.HTTPError, ValueError) as error:
            server.stop()
            raise ConnectionError(f"no ledger answers at {url}: {error}") from error
        if caller.get("livemode") is not False or caller.get("role") != "owner":
            server.stop()
            raise ValueError("the key must be a test key with the role owner")
        return server

    @classmethod
    def start(cls, database: Path, *options: str) -> LedgerServer:
        """Start a server on a free port of this machine, on a new database. Raises RuntimeError.

        Its limits are so high that tests do not meet them; `options` of `serve` may set others.
        """
        process = subprocess.Popen(
            [*_PROGRAM, "serve", *_OPTIONS, "--database", str(database), *options],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            env=_environment(),
        )
        assert process.stdout is not None
        url = key = None
        for line in process.stdout:
            if line.startswith("Listening on "):
                url = line.split()[2]
            elif line.startswith("A test key "):
                key = line.split()[-1]
            if url is not None and key is not None:
                server = cls(url, key, process)
                server._raise_limits(database)
                return server
        raise RuntimeError(
            f"the ledger's server ended with {process.wait()} before it could serve, or {database} is not new"
        )

    def _raise_limits(self, database: Path) -> None:
        """Let the first project, and those that it makes, send as many requests as they like."""
        project = answered(self.api.get("/v1/whoami"))["project"]
        limits = ["--rate-limit", _NO_LIMIT, "--burst", _NO_LIMIT, "--database", str(database)]
        subprocess.run(
            [*_PROGRAM, "projects", "update", project, *limits],
            check=True,
            stdout=subprocess.DEVNULL,
            env=_environment(),
        )

    def client(self, key: str | None = None) -> httpx.Client:
        """Return a client that sends the key, or none; it shares its connections with all others."""
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        return httpx.Client(
            base_url=self.url,
            headers=headers,
            transport=self._transport,
            timeout=_TIMEOUT_S,
            trust_env=False,
        )

    def new_project(self, name: str = "Test") -> Ledger:
        """Return a new project with an owner's test key."""
        made = answered(self.api.post("/v1/projects", json={"name": name}))
        key = made["api_key"]["key"]
        return Ledger(self.url, made["id"], key, self.client(key))

    def stop(self) -> None:
        """End the server, if it was started here."""
        self._transport.close_shared()
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            assert self._process.stdout is not None
            self._process.stdout.close()


def _environment() -> dict[str, str]:
    """Return our environment without what would set an option of the server, such as its port or key."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("LEDGER_")}
    return kept | {"PYTHONUNBUFFERED": "1"}


class _Shared(httpx.BaseTransport):
    """A transport that outlasts the clients that use it.

    It sends by an asynchronous client, in a thread: only there can the time of a whole answer be limited.
    What asks for an event stream is read as it arrives.
    """

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="ledger client", daemon=True)
        self._thread.start()
        self._client = Client(
            bytes_max=LIST_BYTES_MAX,
            seconds_max=_TIMEOUT_S,
            limits=httpx.Limits(max_connections=200),
            trust_env=False,
        )

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        sent = httpx.Request(
            request.method,
            request.url,
            headers=request.headers,
            content=request.read(),
            extensions=request.extensions,
        )
        stream = request.headers.get("Accept") == "text/event-stream"
        answer = self.wait(self._client.send(sent, stream=stream))
        if answer.is_closed or answer.is_stream_consumed:
            return answer
        return httpx.Response(answer.status_code, headers=answer.headers, stream=_Stream(self, answer))

    def wait(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Return what the work returns, which runs in the thread."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def close_shared(self) -> None:
        self.wait(self._client.aclose())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class _Stream(httpx.SyncByteStream):
    """The body of an answer that is read as it arrives."""

    def __init__(self, transport: _Shared, answer: httpx.Response) -> None:
        self._transport = transport
        self._answer = answer

    def __iter__(self) -> Iterator[bytes]:
        assert isinstance(self._answer.stream, httpx.AsyncByteStream)
        parts = aiter(self._answer.stream)

        async def following() -> bytes:
            return await anext(parts, b"")

        while part := self._transport.wait(following()):
            yield part

    def close(self) -> None:
        self._transport.wait(self._answer.aclose())
