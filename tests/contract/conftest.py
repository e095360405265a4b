"""The server as its clients see it: a process of its own, used over sockets.

Requests without a credential are limited per client address, so each test has an address of its own;
127.0.0.0/8 has enough of them.
"""

from __future__ import annotations

import itertools
import os
import socket
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography import x509

from ledger_engine.core.settings import Location
from tests.certificates import make_certificate
from tests.commands import answer_of_command
from tests.contract.clockwork import Clockwork
from tests.contract.documented import Documented
from tests.contract.raw import Wire
from tests.forking import Process
from tests.locations import place_of_its_own
from tests.marking import mark_folder

Cli = Callable[..., Any]
PATIENCE_S = 60


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    mark_folder(Path(__file__).parent, items, "process")


@dataclass
class Server:
    url: str
    database: Location
    process: Process

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])


@dataclass
class Project:
    """A project, and a client with an owner's key of its test mode."""

    id: str
    key: str
    api: httpx.Client


def ledger_engine(*arguments: str, database: Location, stdin: str = "") -> Any:
    """Run a command of `ledger-engine` and return the JSON it prints."""
    return answer_of_command(database, *arguments, stdin=stdin)


def start_server(database: Location, *options: str) -> Server:
    words = ("serve", "--port", "0", "--database", str(database), *options)
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    process = Process(words, stdout=subprocess.PIPE, environment=environment)
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("Listening on "):
            return Server(line.removeprefix("Listening on ").strip(), database, process)
    raise AssertionError(f"the server ended with {process.wait()} before it could serve")


def stop_server(server: Server) -> None:
    server.process.terminate()
    assert server.process.wait(timeout=PATIENCE_S) == 0
    assert server.process.stdout is not None
    server.process.stdout.close()


@pytest.fixture(scope="session")
def server(
    request: pytest.FixtureRequest, kind: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    workers = request.config.getoption("--server-workers")
    database = place_of_its_own(kind, tmp_path_factory.mktemp("contract"), "contract")
    running = start_server(database, "--workers", workers)
    yield running
    stop_server(running)


@pytest.fixture(scope="session")
def cli(server: Server) -> Cli:
    """Return a function that runs commands beside the running server."""
    return partial(ledger_engine, database=server.database)


MakeClient = Callable[..., httpx.Client]


@pytest.fixture(scope="session")
def make_client(server: Server) -> Iterator[MakeClient]:
    """Return a function that makes clients, whose every answer must be as the server's own document says."""
    documented = Documented(httpx.get(f"{server.url}/openapi.json").json())
    clients: list[httpx.Client] = []

    def make(key: str | None = None, address: str | None = None) -> httpx.Client:
        clients.append(
            httpx.Client(
                base_url=server.url,
                headers={} if key is None else {"Authorization": f"Bearer {key}"},
                transport=httpx.HTTPTransport(local_address=address),
                event_hooks={"response": [documented.check]},
            )
        )
        return clients[-1]

    yield make
    for client in clients:
        client.close()


@pytest.fixture(scope="session")
def parent(make_client: MakeClient, cli: Cli) -> Project:
    """Return the parent of all projects, with limits that no test reaches."""
    made = cli(
        "projects",
        "create",
        "Contract",
        "--plan",
        "enterprise",
        "--rate-limit",
        "1000000",
        "--burst",
        "1000000",
    )
    key = cli("keys", "create", "--project", made["id"], "--mode", "test", "--role", "owner")["key"]
    return Project(made["id"], key, make_client(key))


MakeProject = Callable[..., Project]


@pytest.fixture
def make_project(make_client: MakeClient, parent: Project) -> MakeProject:
    def make(**fields: Any) -> Project:
        answer = parent.api.post("/v1/projects", json={"name": "Roastery", **fields})
        assert answer.status_code == 201, answer.text
        key = answer.json()["api_key"]["key"]
        return Project(answer.json()["id"], key, make_client(key))

    return make


@pytest.fixture
def project(make_project: MakeProject) -> Project:
    """Return an empty project."""
    return make_project()


@pytest.fixture
def api(project: Project) -> httpx.Client:
    """Return a client with an owner's key of the test mode of an empty project."""
    return project.api


@pytest.fixture
def live(make_client: MakeClient, project: Project, cli: Cli) -> httpx.Client:
    """Return a client with an owner's key of the live mode of the same project."""
    key = cli("keys", "create", "--project", project.id, "--mode", "live", "--role", "owner")["key"]
    return make_client(key)


MakeKey = Callable[..., httpx.Client]


@pytest.fixture
def with_key(make_client: MakeClient, api: httpx.Client) -> MakeKey:
    """Return a function that makes clients with a key of the same project, this role and these scopes."""

    def make(role: str = "member", scopes: list[str] | None = None) -> httpx.Client:
        body = {"role": role} if scopes is None else {"role": role, "scopes": scopes}
        answer = api.post("/v1/api_keys", json=body)
        assert answer.status_code == 201, answer.text
        return make_client(answer.json()["key"])

    return make


_ADDRESSES = itertools.count(1)


@pytest.fixture
def address() -> str:
    """Return an address of this machine that no other test uses."""
    number = next(_ADDRESSES)
    chosen = f"127.{1 + os.getpid() % 200}.{number // 250}.{1 + number % 250}"
    with socket.socket() as probe:
        try:
            probe.bind((chosen, 0))
        except OSError:
            pytest.skip("needs the loopback network 127.0.0.0/8, as Linux has it")
    return chosen


@pytest.fixture
def anyone(make_client: MakeClient, address: str) -> httpx.Client:
    """Return a client without a credential."""
    return make_client(address=address)


@pytest.fixture
def wire(server: Server, address: str, project: Project) -> Iterator[Wire]:
    """Open raw connections to the server."""
    wire = Wire(server.port, address, project.key)
    yield wire
    wire.close()


@pytest.fixture
def clockwork(location: Location) -> Iterator[Clockwork]:
    """Run a server on a real socket whose clocks the test moves."""
    with Clockwork(location) as running:
        yield running


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    """Return a self-signed certificate for localhost, and its key."""
    return make_certificate(tmp_path, x509.DNSName("localhost"))
