"""The server process: how it starts, what it says, how it ends, and who may run beside it."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from cryptography import x509

from ledger_engine.core.settings import Location
from tests.certificates import make_certificate
from tests.commands import answer_of_command
from tests.contract.rules import holds
from tests.forking import Process, run
from tests.ledger_engine.cli.test_listening import free_port
from tests.ledger_engine.waiting import PATIENCE_S, wait_until
from tests.locations import execute, no_ledger_yet

pytestmark = pytest.mark.process

Start = Callable[..., Process]


@pytest.fixture
def database(kind: str, tmp_path: Path) -> Location:
    return no_ledger_yet(kind, tmp_path)


@pytest.fixture
def start(database: Location) -> Iterator[Start]:
    """Start `ledger-engine serve` with these options; it is killed at the end.

    When it is stopped, requests in progress have `drain_s` seconds to finish, if that is given.
    """
    started: list[Process] = []

    def run(
        *options: str,
        on: Path | None = database,
        drain_s: float | None = None,
    ) -> Process:
        words = ["serve", *([] if on is None else ["--database", str(on)]), *options]
        constants = {} if drain_s is None else {"ledger_engine.server.serving.DRAIN_S": drain_s}
        pipe = subprocess.PIPE
        server = Process(
            words,
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            constants=constants,
        )
        started.append(server)
        return server

    yield run
    for server in started:
        server.kill()
        server.communicate()


def first_line(server: Process) -> str:
    """Return the first line of output, which comes once it can serve."""
    assert server.stdout is not None
    line = server.stdout.readline()
    assert line, server.communicate()
    return line.rstrip("\n")


def url_of(server: Process) -> str:
    said = first_line(server)
    assert said.startswith("Listening on "), said
    return said.removeprefix("Listening on ")


def the_rest(server: Process) -> str:
    """Wait for a clean end; return the output since, which `communicate` would miss in part."""
    assert server.stdout is not None
    assert server.stderr is not None
    out, err = server.stdout.read(), server.stderr.read()
    assert (server.wait(timeout=PATIENCE_S), err) == (0, "")
    return out


def stopped(server: Process, by: int = signal.SIGTERM) -> str:
    """Stop it by a signal."""
    server.send_signal(by)
    return the_rest(server)


def client(url: str, key: str) -> httpx.Client:
    return httpx.Client(base_url=url, headers={"Authorization": f"Bearer {key}"}, trust_env=False)


def connection(url: str) -> socket.socket:
    parts = urlsplit(url)
    return socket.create_connection((parts.hostname or "", parts.port or 0), timeout=PATIENCE_S)


def is_listening(url: str) -> bool:
    try:
        connection(url).close()
    except OSError:
        return False
    return True


# How it starts


def test_metrics_and_a_log_of_requests_are_beside_the_interface_and_not_on_it(start: Start) -> None:
    server = start("--port", "0", "--metrics", "0", "--log-format", "json", "--log-level", "info")
    url = url_of(server)
    key = first_line(server).rpartition(" ")[2]
    assert [first_line(server).split()[0] for _ in range(3)] == ["Try", "export", "curl"]
    metrics = first_line(server).removeprefix("Metrics on ")
    assert urlsplit(metrics).hostname == "127.0.0.1"
    traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    with client(url, key) as api:
        made = api.get("/v1/accounts?limit=1", headers={"traceparent": traceparent})
        assert api.get(f"/v1/accounts/{key}").status_code == 404
        assert api.get("/metrics").status_code == 404
        for path in ("/api/health", "/api/health/ready"):  # a proxy asks all the time
            assert api.get(path).status_code == 200
        assert api.post("/api/health").status_code == 405
    counted = httpx.get(metrics, trust_env=False).text
    assert 'ledger_http_request_duration_seconds_count{method="GET",route="/v1/accounts"' in counted
    server.terminate()
    _, err = server.communicate()
    assert server.returncode == 0
    lines = [json.loads(line) for line in err.splitlines()]
    assert [(line["path"], line["status"]) for line in lines if "status" in line] == [
        ("/v1/accounts", 200),
        ("/v1/accounts/sk_test_••••", 404),
        ("/metrics", 404),
        ("/api/health", 405),
    ]
    assert lines[0]["request"] == made.headers["Request-Id"]
    assert [line["traceparent"] for line in lines[:2]] == [traceparent, None]
    assert lines[0]["message"].startswith("GET /v1/accounts 200 in ")
    assert key not in err


def test_the_level_debug_says_more_than_info_and_times_are_in_utc(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "Pacific/Auckland")
    server = start("--port", "0", "--log-level", "debug")
    url = url_of(server)
    assert httpx.get(f"{url}/api/health/ready", trust_env=False).status_code == 200
    server.terminate()
    _, err = server.communicate()
    form = re.compile(r"(\S+Z) (DEBUG|INFO) (ledger_engine\.\S+): (.+)")
    lines = [form.fullmatch(line) for line in err.splitlines()]
    now = datetime.now(UTC)
    for line in lines:
        assert line is not None, err
        assert abs(datetime.fromisoformat(line[1]) - now) < timedelta(hours=1)
    said = {line[3]: line[4] for line in lines if line is not None}
    assert "changes committed: " in said["ledger_engine.store"]
    assert said["ledger_engine.http.requests"].startswith("GET /api/health/ready 200 in ")


@holds("credentials-known")
def test_a_known_key_is_there_from_the_first_start_on_until_it_is_revoked(
    start: Start, database: Location
) -> None:
    key = "sk_test_" + "KnownToAll" * 3 + "00"
    server = start("--port", "0", "--api-key", key)
    with client(url_of(server), key) as api:
        who = api.get("/v1/whoami").raise_for_status().json()
        assert (who["role"], who["mode"], who["scopes"]) == ("owner", "test", None)
        [known] = api.get("/v1/api_keys").json()["data"]
    assert key not in stopped(server)
    url_of(server := start("--port", "0", "--api-key", key))
    stopped(server)
    assert len(answer_of_command(database, "keys", "list", "--all")) == 1
    answer_of_command(database, "keys", "revoke", known["id"])
    _, said = (server := start("--port", "0", "--api-key", key)).communicate()
    assert (server.returncode, "has been revoked" in said, key in said) == (2, True, False)


def test_only_a_ledger_whose_time_is_far_ahead_says_something_about_the_clock(
    start: Start, database: Location
) -> None:
    url_of(server := start("--port", "0"))
    stopped(server)
    long_ago, ahead = round(time.time() - 40 * 86_400) * 1000, round(time.time() + 40 * 86_400) * 1000
    execute(database, f"UPDATE kept_time SET reached = {long_ago}, served = {long_ago}")
    url = url_of(server := start("--port", "0"))
    assert httpx.get(f"{url}/api/health", trust_env=False).json()["notice"] is None
    assert stopped(server) == "", "it was merely not served for days"
    execute(database, f"UPDATE kept_time SET reached = {ahead}")
    url = url_of(server := start("--port", "0"))
    said, notice = first_line(server), httpx.get(f"{url}/api/health", trust_env=False).json()["notice"]
    for sentence in (said, notice):
        assert "The ledger's time never goes back, so it continues from the later time." in sentence
    server.terminate()
    _, logged = server.communicate()
    assert "WARNING ledger_engine.upkeep.background: The ledger's time is " in logged


def left_for(url: str, address: str) -> int:
    """How many requests the server leaves to a client that says it comes from this address."""
    headers = {"X-Forwarded-For": f"203.0.113.99, {address}"}
    answer = httpx.get(f"{url}/v1/accounts", headers=headers, trust_env=False)
    return int(answer.headers["X-RateLimit-Remaining"])


def test_it_serves_where_it_says_and_counts_clients_by_their_own_address(start: Start) -> None:
    said = first_line(start("--port", "0"))
    found = re.fullmatch(r"Listening on (http://127\.0\.0\.1:[1-9]\d*)", said)
    assert found, said
    assert httpx.get(f"{found[1]}/api/health", trust_env=False).json()["ok"] is True
    first, second = left_for(found[1], "198.51.100.1"), left_for(found[1], "198.51.100.2")
    assert second != first, "without a trusted proxy nobody chooses the address that is counted"


def test_it_has_the_issuer_the_limits_and_the_proxies_it_was_given(start: Start) -> None:
    issuer = ("--issuer", "https://ledger.example/")
    said = first_line(start("--port", "0", *issuer, "--auth-rate-limit", "3/3", "--trusted-proxies", "1"))
    found = re.fullmatch(r"Listening on (http://\S+) \(OAuth issuer https://ledger\.example\)", said)
    assert found, said
    metadata = httpx.get(f"{found[1]}/.well-known/oauth-authorization-server", trust_env=False).json()
    assert metadata["issuer"] == "https://ledger.example"
    answer = httpx.post(f"{found[1]}/v1/auth/token", json={}, trust_env=False)
    assert answer.headers["X-RateLimit-Limit"] == "3"
    assert left_for(found[1], "198.51.100.1") == left_for(found[1], "198.51.100.2") == 59


def test_an_unchanged_answer_is_never_one_from_before_a_change_that_another_server_made(
    start: Start, kind: str
) -> None:
    first = start("--port", "0")
    url = url_of(first)
    key = first_line(first).rpartition(" ")[2]
    # On PostgreSQL every other connection is the second server's.
    other = url_of(start("--port", "0")) if kind == "postgres" else url
    clients = [client(each, key) for each in (url, other, url, other)]
    with contextlib.ExitStack() as stack:
        for each in clients:
            stack.enter_context(each)
        account = clients[0].post("/v1/accounts", json={"name": "Till", "currency": "EUR"}).json()["id"]
        tag = '"none"'
        for number in range(1, 21):
            writes, reads = clients[number % 4], clients[(number * 3 + 1) % 4]
            posting = {"account": account, "amount": 1, "type": "credit"}
            assert writes.post("/v1/transactions", json=posting).status_code == 201
            answer = reads.get("/v1/accounts", headers={"If-None-Match": tag})
            assert (answer.status_code, answer.json()["data"][0]["balance"]) == (200, number)
            tag = answer.headers["ETag"]
            unchanged = clients[number // 4 % 4].get("/v1/accounts", headers={"If-None-Match": tag})
            assert (unchanged.status_code, unchanged.content) == (304, b"")


def test_an_ipv6_address_is_told_in_brackets(start: Start) -> None:
    with socket.socket(socket.AF_INET6) as probe:
        try:
            probe.bind(("::1", 0))
        except OSError:
            pytest.skip("this machine has no IPv6 loopback")
    url = url_of(start("--port", "0", "--host", "::1"))
    assert re.fullmatch(r"http://\[::1\]:[1-9]\d*", url)
    assert httpx.get(f"{url}/api/health", trust_env=False).status_code == 200


def test_the_first_start_makes_a_project_and_shows_a_key_once(start: Start, database: Location) -> None:
    server = start("--port", "0")
    url = url_of(server)
    said = stopped(server)
    found = re.search(r"sk_test_[A-Za-z0-9]{32}", said)
    assert found
    assert f"\nexport LEDGER_API_KEY={found[0]}\ncurl {url}/v1/accounts " in said
    (project,) = answer_of_command(database, "projects", "list")
    assert project["plan"] == "enterprise"

    again = start("--port", "0")
    with client(url_of(again), found[0]) as api:
        assert api.get("/v1/accounts").status_code == 200
    assert stopped(again) == ""


def test_a_first_start_that_fails_leaves_the_key_to_the_next(start: Start) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        busy = str(other.getsockname()[1])
        assert "Cannot serve metrics" in refusal(start("--port", "0", "--metrics", busy), 1)
    witness = ("--witness", "http://127.0.0.1:9", "--witness-key", "no key")
    assert "--witness-key" in refusal(start("--port", "0", *witness), 2)
    url_of(server := start("--port", "0"))
    assert re.search(r"shown only once: sk_test_\w{32}\n", stopped(server))


def test_a_folder_that_checkpoints_cannot_be_written_to_is_refused(start: Start, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    checkpoints = ("--checkpoint-to", str(tmp_path / "file" / "checkpoints"))
    said = refusal(start("--port", "0", *checkpoints), 2)
    assert f"--checkpoint-to {checkpoints[1]} cannot be written to: Not a directory." in said


def test_a_key_that_cannot_be_printed_is_left_to_the_next_start(start: Start, database: Location) -> None:
    options = ["--port", "0"]
    with open("/dev/full", "w") as full:
        server = Process(
            ["serve", "--database", str(database), *options], stdout=full, stderr=subprocess.PIPE
        )
    assert server.stderr is not None
    assert "the new key could not be shown, so it was removed" in server.stderr.readline()
    server.send_signal(signal.SIGTERM)
    assert server.wait(timeout=PATIENCE_S) == 0
    server.communicate()
    assert answer_of_command(database, "projects", "list") == []
    url_of(server := start(*options))
    assert re.search(r"shown only once: sk_test_\w{32}\n", stopped(server))


def test_a_ledger_without_a_key_is_served_with_a_hint(start: Start, database: Location) -> None:
    answer_of_command(database, "seed", "minimal")
    server = start("--port", "0")
    url_of(server)
    assert stopped(server) == (
        "This ledger has no API key: `ledger-engine keys create --mode test` creates one.\n"
    )


def test_with_seed_an_empty_ledger_gets_a_data_set_and_a_key_and_another_stays_as_it_is(
    start: Start, database: Location
) -> None:
    url = url_of(server := start("--port", "0", "--seed", "minimal"))
    key = re.search(r"sk_test_\w{32}", stopped(server))
    assert key is not None
    for name in ("minimal", "roastery"):
        url = url_of(server := start("--port", "0", "--seed", name))
        with client(url, key[0]) as api:
            assert [user["name"] for user in api.get("/api/users").json()["data"]] == ["Ada Winter"]
        assert stopped(server) == ""
    assert "There is no data set 'none'" in refusal(start("--port", "0", "--seed", "none"), 2)


@pytest.mark.sqlite
def test_beside_a_server_a_dashboard_gets_a_key_for_it_that_ends_with_the_dashboard(start: Start) -> None:
    server = start("--port", "0")
    url = url_of(server)
    dashboard = start("--embedded")
    assert dashboard.stdout is not None
    told = json.loads(dashboard.stdout.readline())
    assert told["url"] == url
    with client(url, told["key"]) as api:
        assert api.get("/v1/whoami").json()["role"] == "owner"
        assert dashboard.communicate(timeout=PATIENCE_S) == ("", "")  # which closes its stdin
        assert dashboard.returncode == 0
        wait_until(lambda: api.get("/v1/whoami").status_code == 401)


@pytest.mark.sqlite
def test_a_dashboard_beside_a_server_ends_once_the_server_was_started_again(start: Start) -> None:
    port = str(free_port())
    url_of(server := start("--port", port))
    dashboard = start("--embedded")
    assert dashboard.stdout is not None
    assert json.loads(dashboard.stdout.readline())["url"].endswith(f":{port}")
    stopped(server)
    url_of(start("--port", port))
    assert dashboard.wait(PATIENCE_S) == 1
    assert dashboard.stderr is not None
    assert dashboard.stderr.read() == "ledger-engine: The API key was revoked.\n"


@pytest.mark.skipif(sys.platform == "win32", reason="has no systemd")
@pytest.mark.parametrize("abstract", [False, True])
def test_systemd_is_told_when_it_serves_and_when_it_stops(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, abstract: bool
) -> None:
    if abstract and sys.platform != "linux":
        pytest.skip("only Linux has abstract sockets")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.settimeout(PATIENCE_S)
        address = f"@ledger-{os.getpid()}" if abstract else str(tmp_path / "notify")
        systemd.bind(address.replace("@", "\0"))
        monkeypatch.setenv("NOTIFY_SOCKET", address)
        server = start("--port", "0")
        assert systemd.recv(100) == b"READY=1"
        server.terminate()
        assert systemd.recv(100) == b"STOPPING=1"
        assert server.wait(PATIENCE_S) == 0


def refusal(server: Process, status: int) -> str:
    """Return the only line of output with which it ends."""
    out, err = server.communicate(timeout=PATIENCE_S)
    assert (server.returncode, out) == (status, ""), err
    assert len(err.splitlines()) == 1, err
    return err


@pytest.mark.parametrize("options", [("--host", "0.0.0.0"), ("--host", "0.0.0.0", "--port", "0")])
def test_it_does_not_listen_beyond_loopback_without_tls_or_a_word(
    start: Start, database: Location, options: tuple[str, ...]
) -> None:
    assert "--insecure" in refusal(start(*options), 2)
    assert not isinstance(database, Path) or not database.exists()


def test_it_listens_beyond_loopback_when_told_to(start: Start) -> None:
    url = url_of(start("--host", "0.0.0.0", "--port", "0", "--insecure"))
    assert re.fullmatch(r"http://0\.0\.0\.0:[1-9]\d*", url)
    reached = httpx.get(f"{url.replace('0.0.0.0', '127.0.0.1')}/api/health", trust_env=False)
    assert reached.status_code == 200


def test_a_port_in_use_is_told_in_one_line(start: Start) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        assert f"Cannot listen on 127.0.0.1 port {port}" in refusal(start("--port", port), 1)


def test_a_demo_takes_no_database(start: Start) -> None:
    assert "--demo" in refusal(start("--demo"), 2)


# TLS


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return a certificate for localhost that signs itself, and its key."""
    return make_certificate(tmp_path_factory.mktemp("tls"), x509.DNSName("localhost"))


def test_a_certificate_that_is_none_is_told_in_one_line(
    start: Start, certificate: tuple[Path, Path], tmp_path: Path
) -> None:
    wrong = tmp_path / "wrong.pem"
    wrong.write_text("this is no certificate")
    said = refusal(start("--port", "0", "--certfile", str(wrong), "--keyfile", str(certificate[1])), 2)
    assert f"--certfile {wrong} contains no readable certificate" in said


# How it ends


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGHUP])  # SIGTERM: `stopped` in the other tests
def test_a_signal_ends_it_well(start: Start, by: int) -> None:
    server = start("--port", "0")
    url_of(server)
    stopped(server, by)


def test_a_request_under_way_is_answered_before_it_ends(start: Start, database: Location) -> None:
    server = start("--port", "0")
    url = url_of(server)
    key = answer_of_command(database, "keys", "create", "--mode", "test")["key"]
    body = b'{"name": "Till", "currency": "EUR"}'
    with connection(url) as under_way:
        under_way.sendall(
            b"POST /v1/accounts HTTP/1.1\r\nHost: ledger\r\nAuthorization: Bearer %s\r\n"
            b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
            % (key.encode(), len(body), body[:10])
        )
        # It has the first half once it has answered what came after it on another connection.
        assert httpx.get(f"{url}/api/health", trust_env=False).status_code == 200
        server.terminate()
        wait_until(lambda: not is_listening(url))
        under_way.sendall(body[10:])
        answer = b"".join(iter(lambda: under_way.recv(65536), b""))
    assert answer.startswith(b"HTTP/1.1 201")
    server.communicate(timeout=PATIENCE_S)
    assert server.returncode == 0
    assert answer_of_command(database, "verify")["checked"]["accounts"] == 1


def test_a_request_that_never_ends_does_not_keep_it(start: Start) -> None:
    server = start("--port", "0", drain_s=0.2)
    url = url_of(server)
    with connection(url) as endless:
        endless.sendall(b"POST /v1/accounts HTTP/1.1\r\nHost: ledger\r\nContent-Length: 100\r\n\r\n{")
        assert httpx.get(f"{url}/api/health", trust_env=False).status_code == 200
        server.terminate()
        _, stderr = server.communicate(timeout=PATIENCE_S)
        assert endless.recv(65536) == b"", "no answer is made up"
    assert (server.returncode, stderr) == (0, "")


def test_bodies_that_never_end_and_answers_nobody_reads_do_not_keep_it(
    start: Start, database: Location
) -> None:
    server = start("--port", "0", drain_s=0.2)
    url = url_of(server)
    key = answer_of_command(database, "keys", "create", "--mode", "test")["key"].encode()
    head = b"POST /v1/accounts HTTP/1.1\r\nHost: ledger\r\nContent-Length: 1048576\r\n"
    with contextlib.ExitStack() as stack:
        for number in range(80):
            endless = stack.enter_context(connection(url))
            known = b"Authorization: Bearer %s\r\n" % key if number >= 70 else b""
            with contextlib.suppress(ConnectionError):
                endless.sendall(head + known + b"\r\n" + b" " * 1_048_000)
        deaf = stack.enter_context(connection(url))
        deaf.settimeout(0.5)
        with pytest.raises(TimeoutError):
            deaf.sendall(b"GET /openapi.json HTTP/1.1\r\nHost: ledger\r\n\r\n" * 500_000)
        stopped(server)


@pytest.mark.parametrize("by", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_ends_it_well_and_at_once(start: Start, by: int) -> None:
    server = start("--port", "0", drain_s=600)
    url = url_of(server)
    with connection(url) as endless:
        endless.sendall(b"POST /v1/auth/token HTTP/1.1\r\nHost: ledger\r\nContent-Length: 100\r\n\r\n{")
        assert httpx.get(f"{url}/api/health", trust_env=False).status_code == 200
        server.send_signal(by)
        wait_until(lambda: not is_listening(url))
        stopped(server, by)


def test_half_a_tls_handshake_does_not_keep_it(start: Start, certificate: tuple[Path, Path]) -> None:
    certfile, keyfile = map(str, certificate)
    options = ("--port", "0", "--certfile", certfile, "--keyfile", keyfile)
    server = start(*options, drain_s=0.2)
    url = url_of(server)
    trust = ssl.create_default_context()
    trust.check_hostname, trust.verify_mode = False, ssl.CERT_NONE
    with contextlib.ExitStack() as stack:
        for hello in (b"", b"\x16", b"\x16\x03\x01\x02\x00\x01"):
            stack.enter_context(connection(url)).sendall(hello)
        for request in (
            b"",
            b"GET /",
            b"POST /v1/auth/token HTTP/1.1\r\nHost: l\r\nContent-Length: 9\r\n\r\n{",
        ):
            stack.enter_context(trust.wrap_socket(stack.enter_context(connection(url)))).sendall(request)
        stopped(server)


def test_neither_an_idle_connection_nor_output_that_nobody_reads_keeps_it(start: Start) -> None:
    port = free_port()
    server = start("--port", str(port))
    assert server.stdout is not None
    server.stdout.close()
    url = f"http://127.0.0.1:{port}"
    wait_until(lambda: is_listening(url))
    with closing(connection(url)) as idle:
        idle.sendall(b"GET /api/health HTTP/1.1\r\nHost: ledger\r\n\r\n")
        assert idle.recv(65536).startswith(b"HTTP/1.1 200")
        server.terminate()
        assert server.wait(timeout=PATIENCE_S) == 0


# Who runs beside it


@pytest.mark.sqlite
def test_a_second_server_is_refused_until_the_first_is_killed(start: Start) -> None:
    first = start("--port", "0")
    url = url_of(first)
    assert f"at {url}" in refusal(start("--port", "0"), 1)
    assert httpx.get(f"{url}/api/health", trust_env=False).status_code == 200
    first.kill()
    first.communicate()
    url_of(start("--port", "0"))


def test_a_changed_project_and_a_revoked_key_are_heeded_soon(start: Start, database: Location) -> None:
    url = url_of(start("--port", "0"))
    made = answer_of_command(database, "keys", "create", "--mode", "test")
    with client(url, made["key"]) as api:
        assert api.get("/v1/accounts").status_code == 200
        answer_of_command(database, "projects", "update", made["project"], "--plan", "pro")
        wait_until(lambda: api.get("/v1/accounts").headers["X-RateLimit-Limit"] == "600")
        answer_of_command(database, "keys", "revoke", made["id"])
        wait_until(lambda: api.get("/v1/accounts").status_code == 401)
        assert api.get("/v1/accounts").json()["error"]["code"] == "revoked_credential"


@pytest.mark.sqlite
def test_changes_by_commands_are_served_and_the_servers_own_are_backed_up(
    start: Start, database: Location, tmp_path: Path
) -> None:
    server = start("--port", "0")
    url = url_of(server)
    made = answer_of_command(database, "keys", "create", "--mode", "test")
    answer_of_command(database, "seed", "minimal")
    with client(url, made["key"]) as api:
        accounts = api.get("/v1/accounts").json()["data"]
        assert [account["name"] for account in accounts] == ["Savings", "Bank"]
        posting = {"account": accounts[0]["id"], "amount": 5, "type": "credit"}
        assert api.post("/v1/transactions", json=posting).status_code == 201
    assert answer_of_command(database, "backup", str(tmp_path / "copy.db"))["transactions"] == 17
    assert answer_of_command(database, "verify")["ok"] is True
    restoring = ["restore", str(tmp_path / "copy.db"), "--database", str(database)]
    refused = run(restoring)
    assert (refused.returncode, url in refused.stderr) == (1, True)
    stopped(server)
    assert run(restoring).returncode == 0


# Embedded in a dashboard


def embedded(server: Process) -> dict[str, str]:
    address = json.loads(first_line(server))
    assert set(address) == {"url", "key"}
    return dict(address)


def close_stdin(server: Process) -> str:
    assert server.stdin is not None
    server.stdin.close()
    server.stdin = None
    return the_rest(server)


def test_an_embedded_server_says_one_line_of_json_and_ends_with_its_stdin(
    start: Start, database: Location
) -> None:
    server = start("--embedded")
    address = embedded(server)
    assert re.fullmatch(r"http://127\.0\.0\.1:[1-9]\d*", address["url"])
    with client(address["url"], address["key"]) as api:
        assert api.get("/v1/accounts").status_code == 200
    (key,) = answer_of_command(database, "keys", "list")
    assert (key["name"], key["role"], key["livemode"]) == ("dashboard", "owner", False)
    assert close_stdin(server) == ""
    assert answer_of_command(database, "keys", "list") == []


def test_a_signal_ends_an_embedded_server_and_its_key(start: Start, database: Location) -> None:
    server = start("--embedded")
    embedded(server)
    stopped(server)
    assert answer_of_command(database, "keys", "list") == []


@pytest.mark.sqlite
def test_the_key_of_a_killed_dashboard_ends_with_the_next_start(start: Start, database: Location) -> None:
    killed = start("--embedded")
    key = embedded(killed)["key"]
    own = answer_of_command(database, "keys", "create", "--mode", "test", "--name", "dashboard")["id"]
    killed.kill()
    killed.communicate()
    server = start("--port", "0")
    with client(url_of(server), key) as api:
        assert api.get("/v1/accounts").json()["error"]["code"] == "revoked_credential"
    assert [key["id"] for key in answer_of_command(database, "keys", "list")] == [own]


def test_an_embedded_server_that_nobody_waits_for_ends_at_once(start: Start, database: Location) -> None:
    close_stdin(start("--embedded"))
    assert answer_of_command(database, "keys", "list") == []


def test_a_demo_has_data_and_traffic_and_leaves_nothing(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    server = start("--embedded", "--demo", on=None)
    shares = []
    while "loaded" in (line := json.loads(first_line(server))):
        shares.append(line["loaded"])
    assert len(shares) > 10
    assert (shares, shares[-1]) == (sorted(shares), 1)
    address = line
    (folder,) = tmp_path.glob("ledger-demo-*")
    assert folder.stat().st_mode & 0o777 == 0o700

    with client(address["url"], address["key"]) as api:

        def listed(path: str) -> list[Any]:
            """Return the newest objects of a list, none when this asks too often."""
            found: list[Any] = api.get(path).json().get("data", [])
            return found

        # Often enough: each look takes the server several milliseconds.
        looked_until = partial(wait_until, every_s=0.1)
        first = listed("/v1/transactions")[0]["id"]
        looked_until(lambda: any(each["id"] > first for each in listed("/v1/transactions")))
        # This client's key, and several of the demo's.
        looked_until(lambda: len({each["credential_id"] for each in listed("/v1/requests?limit=100")}) > 3)
        endpoints: list[Any] = []
        looked_until(lambda: (found := listed("/v1/webhook_endpoints")) and endpoints.extend(found) is None)
        good, _flaky, failing = (each["id"] for each in endpoints)

        def errors(endpoint: str) -> list[str | None]:
            found = listed(f"/v1/webhook_endpoints/{endpoint}/deliveries")
            return [attempt["error"] for each in found for attempt in each["attempts"]]

        looked_until(lambda: None in errors(good))
        looked_until(lambda: "answered 503" in errors(failing))
    close_stdin(server)
    assert list(tmp_path.iterdir()) == []
