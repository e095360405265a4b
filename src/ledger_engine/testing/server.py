"""A server for tests, which runs in a separate process."""

from __future__ import annotations

import secrets
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

import ledger_client
from ledger_client.answers import LIST_BYTES_MAX
from ledger_client.errors import AuthenticationError, LedgerError, NotFound
from ledger_engine.core.processes import without_settings

# A project of a server


def send_request(
    client: ledger_client.Ledger, method: str, path: str, body: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Send a request that must succeed; return the object in the answer. Raises LedgerError."""
    try:
        return client.request(method, path, body=body).object
    except NotFound as error:
        if "No such path" not in error.message:
            raise
        hint = f"{error} Was the server started with --test-helpers?"
        raise NotFound(hint, status=404, code=error.code) from None


@dataclass
class Ledger:
    """A project for one test: the server's `url`, the id of the `project`, and an owner's test `key`.

    Both clients send the key: `client` is a ledger_client.Ledger that never retries, and `api` is an
    httpx.Client for any request.
    """

    url: str
    project: str
    key: str
    client: ledger_client.Ledger
    api: httpx.Client

    def make(self, path: str, **body: Any) -> dict[str, Any]:
        """POST a body that must be accepted; return the object in the answer.

        Raises ledger_client.LedgerError with the server's message.
        """
        return send_request(self.client, "POST", path, body)

    def happen(self, type: str) -> dict[str, Any]:
        """Make an event of this type happen; return `{"event": …, "objects": […]}`."""
        return self.make("/v1/test_helpers/events", type=type)

    def reset(self) -> None:
        """Delete everything in the project's test mode; the key stays."""
        send_request(self.client, "POST", "/v1/test_helpers/reset")

    def close(self) -> None:
        """Close the clients."""
        self.client.close()
        self.api.close()


# The server


START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 20
_NO_LIMIT = "1000000"
_PROGRAM = [sys.executable, "-m", "ledger_engine"]
_OPTIONS = ["--test-helpers", "--port", "0", "--auth-rate-limit", f"{_NO_LIMIT}/{_NO_LIMIT}"]
_TIMEOUT_S = 60.0  # long, because moving the clock waits for webhooks


class LedgerServer:
    """A running server with test helpers; `key` is an owner's test key of the server's first project."""

    def __init__(self, url: str, key: str, process: subprocess.Popen[str] | None = None) -> None:
        self.url = url.rstrip("/")
        self.key = key
        self._process = process
        self._transport = _SharedTransport(limits=httpx.Limits(max_connections=200), trust_env=False)
        self.api = self.client(key)
        self._ledger = self._client(key)

    @classmethod
    def connect(cls, url: str, key: str) -> LedgerServer:
        """Use a server that is already running.

        Raises ConnectionError if no ledger answers, and ValueError if the URL or the key is wrong.
        """
        if not url.startswith(("http://", "https://")):
            raise ValueError(f"{url} must begin with http:// or https://")
        server = cls(url, key)
        try:
            caller = server._ledger.whoami()
        except LedgerError as error:
            server.stop()
            if isinstance(error, AuthenticationError):
                raise ValueError(f"{url} refuses the key: {error}") from error
            raise ConnectionError(f"no ledger answers at {url}: {error}") from error
        if caller.livemode is not False or caller.role != "owner":
            server.stop()
            raise ValueError("the key must be a test key with the role owner")
        return server

    @classmethod
    def start(cls, database: Path) -> LedgerServer:
        """Start a server on a free port of this machine, with a new database and a new key.

        The server's rate limits are so high that tests do not reach them. Raises RuntimeError if the server
        ends before it serves, or does not serve within START_TIMEOUT_S.
        """
        key = f"sk_test_{secrets.token_hex(16)}"
        process = subprocess.Popen(
            [*_PROGRAM, "serve", *_OPTIONS, "--database", str(database)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            env=without_settings() | {"PYTHONUNBUFFERED": "1", "LEDGER_API_KEY_TEST": key},
        )
        assert process.stdout is not None
        limit = threading.Timer(START_TIMEOUT_S, process.kill)
        limit.start()
        try:
            for line in process.stdout:
                if line.startswith("Listening on "):
                    server = cls(line.split()[2], key, process)
                    server._raise_limits(database)
                    return server
            ended = process.wait()
            raise RuntimeError(
                f"the ledger's server did not serve within {START_TIMEOUT_S:g} s; it ended with {ended}"
            )
        except BaseException:  # the user may interrupt the tests
            process.kill()
            process.wait()
            process.stdout.close()
            raise
        finally:
            limit.cancel()

    def _raise_limits(self, database: Path) -> None:
        """Raise the rate limits of the first project. Its later child projects get the same limits."""
        project = self._ledger.whoami().project
        limits = ["--rate-limit", _NO_LIMIT, "--burst", _NO_LIMIT, "--database", str(database)]
        subprocess.run(
            [*_PROGRAM, "projects", "update", project, *limits],
            check=True,
            stdout=subprocess.DEVNULL,
            env=without_settings(),
        )

    def client(self, key: str | None = None) -> httpx.Client:
        """Return a client that sends the key, or no key; all clients share their connections."""
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
        project = self._ledger.projects.create(name)
        key = project.api_key.key if project.api_key else None
        assert key is not None
        return Ledger(self.url, project.id, key, self._client(key), self.client(key))

    def _client(self, key: str) -> ledger_client.Ledger:
        return ledger_client.Ledger(
            self.url,
            key,
            attempts=1,
            bytes_max=LIST_BYTES_MAX,
            seconds_max=_TIMEOUT_S,
            timeout=_TIMEOUT_S,
            trust_env=False,
        )

    def stop(self) -> None:
        """Stop the server, if this object started it."""
        self._ledger.close()
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


class _SharedTransport(httpx.HTTPTransport):
    """A transport that stays open when a client closes it; `close_shared` closes it.

    All clients share one transport, because each new transport takes 30 ms to load the trusted certificate
    authorities.
    """

    def close(self) -> None:
        pass

    def close_shared(self) -> None:
        super().close()
