"""The server as its clients see it: a process of its own, used over sockets.

Requests without a credential are limited per client address, so each test has an address of its own;
127.0.0.0/8 has enough of them.
"""

from __future__ import annotations

import itertools
import os
import signal
import socket
import subprocess
import sys
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
from tests.ledger_engine.waiting import wait_until
from tests.locations import place_of_its_own
from tests.marking import mark_folder

Cli = Callable[..., Any]
PATIENCE_S = 60


# What runs on stock Hypercorn too in each `make test`; `make soak` runs all on the others of `--served-by`.
ON_HYPERCORN = {Path(__file__).with_name(name) for name in ("test_errors.py", "test_lists.py")}
# What a server answers itself, without its application, and ours by errors of the interface; and those with
# a client that sends all of a body that is refused: other servers reset the connection then, or read no more.
OF_OUR_SERVER = (
    "test_conform.py",
    "test_wire.py",
    "test_mutations.py",
    "test_a_larger_json_body_is_413[8388608-without one]",
    "test_a_key_of_any_size_is_401[1000000]",
    "test_a_key_is_1_to_255_printable_ascii_characters[\\x7f]",
    "test_headers_over_16_kb_are_431",
    "test_a_url_may_have_8_kb",
    "test_a_url_that_never_ends_is_414",
    "test_a_question_mark_alone_counts_as_the_rest_of_a_url_does",
    "test_every_answer_carries_the_rate_limit_and_a_request_id",
)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    mark_folder(Path(__file__).parent, items, "process")
    if config.getoption("--served-by") != "serve":
        ours = [item for item in items if not _is_for_any_server(item)]
        config.hook.pytest_deselected(items=ours)
        items[:] = [item for item in items if item not in ours]


def _is_for_any_server(item: pytest.Item) -> bool:
    return "server" in getattr(item, "fixturenames", ()) and not any(
        name in item.nodeid for name in OF_OUR_SERVER
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Have the tests in ON_HYPERCORN run on it too."""
    is_both = metafunc.definition.path in ON_HYPERCORN and "server" in metafunc.fixturenames
    options = metafunc.config.option
    if is_both and (options.served_by, options.database) == ("serve", "sqlite"):
        metafunc.parametrize("server", ["serve", "hypercorn"], indirect=True, scope="session")


@dataclass
class Server:
    url: str
    database: Location
    process: Process | subprocess.Popen[str]

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


def start_other(program: str, database: Location) -> Server:
    """Serve the ASGI application by another server, as docs/deploy.md#another-asgi-server has it."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    options = {
        "hypercorn": ("--bind", f"127.0.0.1:{port}", "--log-level", "WARNING"),
        "uvicorn": ("--port", port, "--log-level", "warning", "--http", "h11"),
        "granian": ("--interface", "asgi", "--port", port, "--log-level", "warning"),
    }
    process = subprocess.Popen(
        [sys.executable, "-m", program, *options[program], "ledger_engine.asgi:app"],
        env={**os.environ, "LEDGER_DATABASE": str(database)},
        stdout=subprocess.PIPE,
        text=True,
    )
    server = Server(f"http://127.0.0.1:{port}", database, process)

    def answers() -> bool:
        assert process.poll() is None, f"{program} ended before it could serve"
        try:
            return httpx.get(f"{server.url}/api/health").is_success
        except httpx.TransportError:
            return False

    wait_until(answers, every_s=0.1)
    return server


def stop_server(server: Server) -> None:
    server.process.terminate()
    assert server.process.wait(timeout=PATIENCE_S) in (0, -signal.SIGTERM)  # uvicorn ends by the signal
    assert server.process.stdout is not None
    server.process.stdout.close()


@pytest.fixture(scope="session")
def server(
    request: pytest.FixtureRequest, kind: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    database = place_of_its_own(kind, tmp_path_factory.mktemp("contract"), "contract")
    served_by = getattr(request, "param", request.config.getoption("--served-by"))
    if served_by == "serve":
        running = start_server(database)
    else:
        try:
            running = start_other(served_by, database)
        except AssertionError:  # another process may have taken the port meanwhile
            running = start_other(served_by, database)
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


@pytest.fixture(scope="session")
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


@pytest.fixture
def account(api: httpx.Client) -> str:
    """Return the id of a new account in euros."""
    return open_account(api)


def open_account(api: httpx.Client, currency: str = "EUR") -> str:
    return str(api.post("/v1/accounts", json={"name": "Till", "currency": currency}).json()["id"])


def ids_of(api: httpx.Client, path: str, **params: Any) -> list[str]:
    """Return the ids of the objects on a list's page."""
    answer = api.get(path, params=params)
    assert answer.status_code == 200, answer.text
    return [item["id"] for item in answer.json()["data"]]


def code_of(answer: httpx.Response) -> tuple[int, str]:
    """Return the status and the code of a refusal, of the ledger or of the directory."""
    error = answer.json()["error"]
    return answer.status_code, error if isinstance(error, str) else error["code"]


def refusal(answer: httpx.Response) -> tuple[int, str, str | None]:
    """Return the status, the code and the parameter of a refusal of the ledger."""
    error = answer.json()["error"]
    return answer.status_code, error["code"], error["param"]


def without_missing(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the body with these fields, without those that are `...`."""
    return {name: value for name, value in fields.items() if value is not ...}
