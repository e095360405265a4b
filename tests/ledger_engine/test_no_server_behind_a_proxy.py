"""The errors of HAProxy and nginx, with the files of deploy, while no server answers."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from ledger_engine.core.errors import StorageUnavailable
from ledger_engine.core.records import as_json
from ledger_engine.http.errors import body_of
from ledger_engine.http.routes.directory import VERSION, Health, Readiness
from tests.ledger_engine.cli.test_listening import free_port
from tests.ledger_engine.waiting import wait_until

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
SYSTEM_PATH = f"{os.defpath}{os.pathsep}/usr/sbin"
HAPROXY, NGINX = (shutil.which(name, path=SYSTEM_PATH) for name in ("haproxy", "nginx"))
ERRORS = {
    "haproxy": StorageUnavailable("no server can answer"),
    "nginx": StorageUnavailable("the server does not answer", unknown=True),
}
STATES = {"/api/health": Health(False, VERSION, None), "/api/health/ready": Readiness(False)}

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(not (HAPROXY and NGINX), reason="needs haproxy and nginx"),
]


def _words_of_haproxy(folder: Path, port: int) -> list[str]:
    text = (DEPLOY / "postgres" / "haproxy.cfg").read_text(encoding="utf-8")
    text = re.sub(r"(?m)^    (?:user|group|stats socket) .*$", "", text).replace("8700", str(port))
    file = folder / "haproxy.cfg"
    file.write_text(re.sub(r":870[12]\b", f":{free_port()}", text), encoding="utf-8")
    return [str(HAPROXY), "-db", "-f", str(file)]


def _words_of_nginx(folder: Path, port: int) -> list[str]:
    text = (DEPLOY / "nginx.conf").read_text(encoding="utf-8")
    text = re.sub(r"(?m)^    (?:ssl_|listen \[).*$", "", text).replace("8700", str(free_port()))
    text = text.replace("listen 80;", f"listen 127.0.0.1:{free_port()};")
    text = text.replace("listen 443 ssl;", f"listen 127.0.0.1:{port};")
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    folders = " ".join(f"{kind}_temp_path {folder}/{kind};" for kind in kinds)
    file = folder / "nginx.conf"
    file.write_text(
        f"daemon off; master_process off; pid {folder}/pid; events {{}}\n"
        f"http {{ access_log off; {folders}\n{text} }}",
        encoding="utf-8",
    )
    return [str(NGINX), "-c", str(file), "-e", str(folder / "error.log")]


@pytest.fixture(params=list(ERRORS))
def proxy(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, StorageUnavailable]]:
    """Run a proxy whose servers do not answer; yield its address and the error that it reports."""
    port = free_port()
    words = (_words_of_haproxy if request.param == "haproxy" else _words_of_nginx)(tmp_path, port)
    process = subprocess.Popen(words, stderr=subprocess.DEVNULL)

    def listens() -> bool:
        assert process.poll() is None
        with contextlib.suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port)):
            return True
        return False

    try:
        wait_until(listens)
        yield f"http://127.0.0.1:{port}", ERRORS[request.param]
    finally:
        process.terminate()
        process.wait()


def test_clients_get_the_error_of_the_interface_if_no_server_answers(
    proxy: tuple[str, StorageUnavailable],
) -> None:
    url, error = proxy
    paths = ("/v1/accounts", "/api/users", "/api", "/apis", "/oauth/token", "/docs", *STATES)
    with httpx.Client(base_url=url, trust_env=False, timeout=30) as client:
        for path in paths:
            answer = client.post(path, json={}) if path == "/oauth/token" else client.get(path)
            assert (answer.status_code, answer.headers["Content-Type"]) == (503, "application/json")
            state = as_json(STATES[path]) if path in STATES else {}
            assert answer.json() == {**state, **body_of(error, path)}
