"""The nginx recipe of deploy/nginx.conf, with nginx itself in front of a server."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner

from ledger_engine.cli import main
from tests.faults.server import Server
from tests.ledger_engine.cli.test_listening import free_port
from tests.ledger_engine.waiting import wait_until

pytestmark = pytest.mark.process

RECIPE = Path(__file__).resolve().parents[2] / "deploy" / "nginx.conf"
CONFIG = """
daemon off; master_process off; pid {folder}/pid; error_log {folder}/error.log;
events {{}}
http {{
    access_log off; client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
    server {{ listen 127.0.0.1:{port}; {location} }}
}}
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    server = Server(tmp_path / "ledger.db", options=("--trusted-proxies", "1"))
    server.start()
    yield server
    server.kill()


@pytest.fixture
def proxied(server: Server, tmp_path: Path) -> Iterator[str]:
    """Run an nginx in front of the server, on a port that is not the scheme's; yield its address."""
    nginx = shutil.which("nginx", path="/usr/sbin:/usr/local/sbin:/usr/bin")
    if nginx is None:
        pytest.skip("needs nginx; on Debian and Ubuntu: apt install nginx-light")
    found = re.search(
        r"^ +large_client_header_buffers .*?^ +\}",
        RECIPE.read_text(encoding="utf-8"),
        re.DOTALL | re.MULTILINE,
    )
    assert found is not None
    location = found[0].replace("http://127.0.0.1:8700", server.url)
    port = free_port()
    file = tmp_path / "nginx.conf"
    file.write_text(CONFIG.format(folder=tmp_path, port=port, location=location), encoding="utf-8")
    process = subprocess.Popen([nginx, "-c", str(file), "-e", str(tmp_path / "error.log")])
    url = f"http://127.0.0.1:{port}"
    try:

        def listens() -> bool:
            assert process.poll() is None, (tmp_path / "error.log").read_text(encoding="utf-8")
            with contextlib.suppress(httpx.ConnectError):
                return bool(httpx.get(f"{url}/api/health", trust_env=False))
            return False

        wait_until(listens)
        yield url
    finally:
        process.terminate()
        process.wait()


def test_the_recipe_keeps_the_port_the_bodies_and_the_event_stream(server: Server, proxied: str) -> None:
    key = server.make_key()
    headers = {"Authorization": f"Bearer {key}"}
    with httpx.Client(base_url=proxied, headers=headers, trust_env=False, timeout=30) as client:
        metadata = client.get("/.well-known/oauth-authorization-server").json()
        assert metadata["issuer"] == proxied
        with client.stream("GET", "/v1/events/stream") as stream:
            lines = stream.iter_lines()
            assert any("session" in line for line in lines)
            large = {"name": "Till", "currency": "EUR", "metadata": {"note": "x" * 400}}
            assert client.post("/v1/accounts", json=large).status_code == 201
            assert any("account.created" in line for line in lines), "the proxy keeps events back"
        refused = client.post("/v1/accounts", content=b" " * 1_048_577)
        assert (refused.status_code, refused.headers["content-type"]) == (413, "application/json")
        body = b'{"name": "Till", "currency": "EUR"}'.ljust(1_048_576)
        answer = client.post("/v1/accounts", content=body, headers={"Content-Type": "application/json"})
        assert answer.status_code == 201


@pytest.mark.parametrize("count", [100, 1000])
def test_the_second_use_of_a_batchs_key_arrives_and_names_all(
    server: Server, proxied: str, count: int
) -> None:
    headers = {"Authorization": f"Bearer {server.make_key()}"}
    with httpx.Client(base_url=proxied, headers=headers, trust_env=False, timeout=30) as client:
        account = client.post("/v1/accounts", json={"name": "Till", "currency": "EUR"}).json()["id"]
        batch = {"transactions": [{"account": account, "amount": 1, "type": "credit"}] * count}
        key = {"Idempotency-Key": "a batch"}
        first = client.post("/v1/transactions/batch", json=batch, headers=key).raise_for_status()
        made = [each["id"] for each in first.json()["data"]]
        again = client.post("/v1/transactions/batch", json=batch, headers=key)
        assert (again.status_code, again.json()["error"]["originals"]) == (409, made)
        assert again.headers.get("Idempotency-Originals") == (",".join(made) if count <= 100 else None)


def test_the_contract_is_kept_behind_nginx(server: Server, proxied: str) -> None:
    done = CliRunner().invoke(main, ["conform", proxied, "--key", server.make_key(), "--json"])
    report = json.loads(done.stdout)
    assert [each for each in report["rules"] if each["result"] == "failed"] == []
    assert done.exit_code == 0
