"""The files in `deploy/` for PostgreSQL: the compose file, the configuration of nginx, and the role."""

from __future__ import annotations

import asyncio
import contextlib
import re
import shutil
import subprocess
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import parse_qs, urlsplit

import click
import httpx
import psycopg
import pytest
import yaml

from ledger_engine.cli.serve import serve
from ledger_engine.core.settings import ServeSettings
from ledger_engine.migrate import MigrationProgress, move
from ledger_engine.store.engine import open_engine
from ledger_engine.store.postgres import requirements
from tests.commands import answer_of_command
from tests.ledger_engine.cli.test_listening import free_port
from tests.ledger_engine.waiting import wait_until
from tests.postgres_cluster import programs
from tests.postgres_server import emptied_database
from tests.proxies import PROXIES, proxied

DEPLOY = Path(__file__).parents[3] / "deploy"
PASSWORD = "it's a 'password'"
CONNECTIONS = 100  # PostgreSQL's usual max_connections


@pytest.fixture
def services() -> dict[str, dict[str, object]]:
    found: dict[str, dict[str, object]] = yaml.safe_load(
        (DEPLOY / "compose-postgres.yaml").read_text(encoding="utf-8")
    )["services"]
    return found


def test_the_servers_have_settings_that_are_taken(
    services: dict[str, dict[str, object]], monkeypatch: pytest.MonkeyPatch
) -> None:
    container = (DEPLOY / "Containerfile").read_text(encoding="utf-8")
    given = dict(re.findall(r"(?m)^ +(LEDGER_\w+)=([^ \n]+)", container))
    assert services["server-1"] == services["server-2"]
    set_here = services["server-1"]["environment"]
    assert isinstance(set_here, dict)
    given |= {name: re.sub(r"\$\{\w+:-(.*?)\}", r"\1", value) for name, value in set_here.items()}
    known = {option.envvar for option in serve.params if isinstance(option, click.Option)}
    assert set(given) - {"LEDGER_SECRET_KEY"} <= known
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    options = serve.make_context("serve", []).params
    assert options["database"] == "postgresql://ledger:only-for-this-network@postgres/ledger"
    assert options["trusted_proxies"] == 1
    ServeSettings(
        options["database"], options["host"], insecure=options["insecure"], api_key=options["api_key"]
    ).check()


def test_postgres_is_set_up_for_serializable_books(services: dict[str, dict[str, object]]) -> None:
    given = re.findall(r"-c max_pred_locks_per_(\w+)=(\d+)", str(services["postgres"]["command"]))
    of_page, of_table, of_transaction = (int(dict(given)[of]) for of in ("page", "relation", "transaction"))
    assert of_page >= requirements._ROWS_OF_PAGE
    assert of_table >= requirements._ROWS_OF_TABLE
    assert of_transaction * CONNECTIONS >= requirements._ROWS_OF_ALL


def test_each_file_and_server_that_is_named_is_there(services: dict[str, dict[str, object]]) -> None:
    mounted = [
        volume.partition(":")[0]
        for service in services.values()
        for volume in service.get("volumes", [])  # type: ignore[attr-defined]
        if volume.startswith(".")
    ]
    assert len(mounted) == 2
    assert [name for name in mounted if not (DEPLOY / name).is_file()] == []
    upstream = re.findall(r"server (\S+):8700", (DEPLOY / "nginx-postgres.conf").read_text(encoding="utf-8"))
    assert set(upstream) == {"server-1", "server-2"} < set(services)
    assert "ARG EXTRAS=" in (DEPLOY / "Containerfile").read_text(encoding="utf-8")


@pytest.mark.process
@pytest.mark.skipif(shutil.which("nginx") is None, reason="nginx is not installed")
def test_nginx_takes_its_configuration(tmp_path: Path) -> None:
    site = (DEPLOY / "nginx-postgres.conf").read_text(encoding="utf-8")
    (tmp_path / "site.conf").write_text(re.sub(r"server-\d:", "127.0.0.1:", site), encoding="utf-8")
    whole = tmp_path / "nginx.conf"
    whole.write_text(
        f"pid {tmp_path}/pid; events {{}} http {{ access_log off; include {tmp_path}/site.conf; }}",
        encoding="utf-8",
    )
    words = ["nginx", "-t", "-q", "-e", "stderr", "-p", str(tmp_path), "-c", str(whole)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


class Upstream(BaseHTTPRequestHandler):
    """A server that answers with its port."""

    def do_GET(self) -> None:
        assert isinstance(self.server, HTTPServer)
        body = str(self.server.server_port).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.mark.process
@pytest.mark.parametrize("name", PROXIES)
def test_a_proxy_sends_each_credential_to_one_server_and_to_the_other_when_that_ends(
    name: str, tmp_path: Path
) -> None:
    upstreams = [ThreadingHTTPServer(("127.0.0.1", 0), Upstream) for _ in range(2)]
    port = free_port()
    threads = [Thread(target=each.serve_forever) for each in upstreams]
    for thread in threads:
        thread.start()
    try:
        ports = [each.server_port for each in upstreams]
        url = f"http://127.0.0.1:{port}"
        with (
            proxied(name, port, ports, tmp_path),
            httpx.Client(base_url=url, trust_env=False, timeout=60) as client,
        ):

            def answering(key: int) -> str | None:
                headers = {"Authorization": f"Bearer sk_test_{key}"}
                with contextlib.suppress(httpx.TransportError):
                    answer = client.get("/v1/accounts", headers=headers)
                    return answer.text if answer.status_code == 200 else None
                return None

            wait_until(lambda: answering(0))
            servers = [answering(key) for key in range(32)]
            assert set(servers) == {str(each.server_port) for each in upstreams}
            assert [answering(key) for key in reversed(range(32))] == servers[::-1]
            ended = upstreams.pop()
            ended.shutdown()
            ended.server_close()
            left = str(upstreams[0].server_port)
            wait_until(lambda: {answering(key) for key in range(32)} == {left})
    finally:
        for each in upstreams:
            each.shutdown()
            each.server_close()
        for thread in threads:
            thread.join()


@pytest.fixture
def made_by_the_script(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Run the script on the tests' server; return the address of the database for the role it made."""
    superuser = urlsplit(emptied_database())
    host = parse_qs(superuser.query)["host"][0]
    monkeypatch.setenv("PATH", str(programs()), prepend=":")
    monkeypatch.setenv("PGHOST", host)
    monkeypatch.setenv("LEDGER_DATABASE_PASSWORD", PASSWORD)
    script = ["sh", str(DEPLOY / "postgres-role.sh")]
    done = subprocess.run(script, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    yield f"postgresql://ledger@/ledger?host={host}"
    with psycopg.connect(superuser._replace(path="/postgres").geturl(), autocommit=True) as connection:
        connection.execute("DROP DATABASE ledger WITH (FORCE)")
        connection.execute("DROP ROLE ledger")


@pytest.mark.process
def test_a_role_with_exactly_these_grants_serves_verifies_and_is_moved_to(
    made_by_the_script: str, tmp_path: Path
) -> None:
    answer_of_command(tmp_path / "ledger.db", "seed", "minimal")
    address = made_by_the_script
    with psycopg.connect(address, autocommit=True) as connection:
        for beyond in ("CREATE DATABASE other", "CREATE ROLE other", "CREATE SCHEMA other"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(beyond.encode())
    move(tmp_path / "ledger.db", address, MigrationProgress())

    async def serve_once() -> None:
        server = open_engine(address, serving=True)
        await server.check()
        await server.close()

    asyncio.run(serve_once())
    assert answer_of_command(address, "keys", "create", "--mode", "test")["id"].startswith("key_")
    assert answer_of_command(address, "verify")["ok"] is True
    dump = [str(programs() / "pg_dump"), "--format=custom", f"--file={tmp_path / 'ledger.dump'}", address]
    subprocess.run(dump, check=True)
    move(address, tmp_path / "back.db", MigrationProgress())
