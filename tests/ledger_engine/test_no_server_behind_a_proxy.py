"""The errors of HAProxy, nginx and Caddy, with each of their files in deploy, while no server answers."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread
from typing import ClassVar

import httpx
import pytest

from ledger_engine.core.errors import StorageUnavailable
from ledger_engine.core.records import as_json
from ledger_engine.http.errors import body_of
from ledger_engine.http.routes.directory import VERSION, Health, Readiness
from tests.ledger_engine.cli.test_listening import free_port
from tests.ledger_engine.waiting import wait_until

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
PROXIES = {
    "postgres/haproxy.cfg": "haproxy",
    "haproxy-postgres.cfg": "haproxy",
    "nginx.conf": "nginx",
    "nginx-postgres.conf": "nginx",
    "Caddyfile": "caddy",
    "Caddyfile-postgres": "caddy",
}
NONE_ANSWERS = StorageUnavailable("no server can answer")
NO_ANSWER = StorageUnavailable("the server does not answer", unknown=True)
STATES = {"/api/health": Health(False, VERSION, None), "/api/health/ready": Readiness(False)}
PATHS = ("/v1/accounts", "/api/users", "/api", "/apis", "/oauth/token", "/oauth", "/docs", *STATES)

pytestmark = pytest.mark.process


def words_of(name: str, folder: Path, port: int, server: int) -> list[str]:
    """Return the command of a proxy on `port`, in front of the port `server`, with its file of deploy."""
    program = PROXIES[name]
    found = shutil.which(program, path=os.pathsep.join((os.environ["PATH"], "/usr/sbin", "/usr/local/sbin")))
    if found is None:
        pytest.skip(f"{program} is not installed")
    text = (DEPLOY / name).read_text(encoding="utf-8")
    for pattern, own in {
        r"(?m)^    (?:user|group|stats socket|ssl_|listen \[).*$": "",
        r"bind (?:127\.0\.0\.1)?:8700": f"bind 127.0.0.1:{port}",
        r"listen 80;": f"listen 127.0.0.1:{free_port()};",
        r"listen (?:443 ssl|8700);": f"listen 127.0.0.1:{port};",
        r"(?m)^(?:ledger\.example|:8700) \{": f"http://127.0.0.1:{port} {{",
        r"(?:127\.0\.0\.1|server-\d):870\d\b": f"127.0.0.1:{server}",
    }.items():
        text = re.sub(pattern, own, text)
    file = folder / "configuration"
    if program == "haproxy":
        words = [found, "-db", "-f", str(file)]
    elif program == "caddy":
        text = f"{{\n\tadmin off\n}}\n{text}"
        words = [found, "run", "--adapter", "caddyfile", "--config", str(file)]
    else:
        kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        folders = " ".join(f"{kind}_temp_path {folder}/{kind};" for kind in kinds)
        main = f"daemon off; master_process off; pid {folder}/pid; events {{}}"
        text = f"{main} http {{ access_log off; {folders}\n{text} }}"
        words = [found, "-c", str(file), "-e", str(folder / "error.log")]
    file.write_text(text, encoding="utf-8")
    return words


class EndingServer(BaseHTTPRequestHandler):
    """A server that passes health checks, and ends the connection of any other request without an answer."""

    def do_GET(self) -> None:
        if self.path == "/api/health":
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

    def do_POST(self) -> None:
        """Send nothing."""

    def log_message(self, *_: object) -> None:
        """Print nothing."""


class HangingServer(EndingServer):
    """A server that passes health checks until it gets another request, and then answers nobody."""

    hung: ClassVar[Event]
    ended: ClassVar[Event]

    def do_GET(self) -> None:
        if self.path != "/api/health":
            self.hung.set()
        if self.hung.is_set():
            self.ended.wait()
        else:
            super().do_GET()

    def do_POST(self) -> None:
        self.do_GET()


@contextlib.contextmanager
def proxied(name: str, folder: Path, server: int) -> Iterator[str]:
    """Run a proxy; yield its address."""
    environment = {**os.environ, "HOME": str(folder), "XDG_DATA_HOME": str(folder)}
    errors = folder / "errors"

    def listens_or_has_ended() -> bool:
        with contextlib.suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port)):
            return True
        return process.poll() is not None

    for _ in range(5):
        port = free_port()
        words = words_of(name, folder, port, server)
        with errors.open("w") as file:
            process = subprocess.Popen(words, stderr=file, env=environment)
        wait_until(listens_or_has_ended)
        if process.poll() is None:
            break  # otherwise another program has taken the free port
    try:
        assert process.poll() is None, errors.read_text(encoding="utf-8")
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


async def check_answers(url: str, error: StorageUnavailable, paths: tuple[str, ...]) -> None:
    async def check(path: str) -> None:
        answer = await (client.post(path, json={}) if path == "/oauth/token" else client.get(path))
        assert (answer.status_code, answer.headers["Content-Type"]) == (503, "application/json")
        state = as_json(STATES[path]) if path in STATES else {}
        assert answer.json() == {**state, **body_of(error, path)}

    # At the same time, because Caddy looks for another server for 5 seconds.
    async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=60) as client:
        await asyncio.gather(*map(check, paths))


@pytest.mark.parametrize("name", PROXIES)
async def test_clients_get_the_error_of_the_interface_if_no_server_answers(name: str, tmp_path: Path) -> None:
    with proxied(name, tmp_path, free_port()) as url:
        await check_answers(url, NONE_ANSWERS if PROXIES[name] == "haproxy" else NO_ANSWER, PATHS)


@pytest.mark.parametrize("name", PROXIES)
async def test_clients_get_the_error_of_the_interface_if_a_server_ends_before_it_answers(
    name: str, tmp_path: Path
) -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), EndingServer)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        with proxied(name, tmp_path, server.server_port) as url:
            await check_answers(url, NO_ANSWER, tuple(path for path in PATHS if path not in STATES))
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.mark.parametrize("name", [name for name, program in PROXIES.items() if program == "haproxy"])
async def test_clients_need_not_wait_for_a_hung_server_until_the_timeout(name: str, tmp_path: Path) -> None:
    (timeout_s,) = re.findall(r"(?m)^ +timeout server (\d+)s", (DEPLOY / name).read_text(encoding="utf-8"))

    class Handler(HangingServer):
        hung, ended = Event(), Event()

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        with proxied(name, tmp_path, server.server_port) as url:
            started = time.monotonic()
            await check_answers(url, NO_ANSWER, tuple(path for path in PATHS if path not in STATES))
            assert time.monotonic() - started < int(timeout_s)
    finally:
        Handler.ended.set()
        server.shutdown()
        server.server_close()
        thread.join()
