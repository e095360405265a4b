"""A real database for every test, and the application on it."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from quart import Quart

from ledger_engine.access import api_keys, credentials, projects
from ledger_engine.access.oauth import apps, authorization, grants, passwords, sign_ins
from ledger_engine.access.oauth.authorization import AuthorizationRequest
from ledger_engine.access.projects import Project
from ledger_engine.core.settings import Location
from ledger_engine.core.tenant import Tenant
from ledger_engine.events import outbox
from ledger_engine.http.app import create_app
from ledger_engine.ledger import users
from ledger_engine.store import Unit, threaded
from ledger_engine.store.engine import Engine, open_engine
from ledger_engine.store.sqlite import readers
from tests.ledger_engine.in_process import client_of
from tests.ledger_engine.manual_clock import ManualClock
from tests.stored_events import EVERY_EVENT

START = 1_790_000_000_000  # 2026-09-21T14:13:20Z, the time of the tests' clock until it is moved

# A whole data set is loaded in one work, which may take longer on a busy machine than a server waits for one.
threaded.ANSWER_S = 120

# What runs on PostgreSQL in each `make test`; everything that can does with `--database postgres`.
ON_BOTH = {
    Path(__file__).parent / each
    for each in (
        "http/test_conditions.py",
        "http/test_lists.py",
        "store/test_pages.py",
        "ledger/test_accounts.py",
        "ledger/test_batches.py",
        "ledger/test_invoices.py",
        "ledger/test_transactions.py",
        "log/test_sealer.py",
    )
}

MakeKey = Callable[..., Awaitable[str]]
Run = Callable[..., Awaitable[Any]]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that ask for a PostgreSQL database, whose server is a process."""
    for item in items:
        if "address" in getattr(item, "fixturenames", ()):
            item.add_marker("process")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Have the tests in ON_BOTH run on PostgreSQL too."""
    on_sqlite = metafunc.config.getoption("--database") == "sqlite"
    if on_sqlite and "engine" in metafunc.fixturenames and metafunc.definition.path in ON_BOTH:
        on_postgres = pytest.param("postgres", marks=pytest.mark.process)
        metafunc.parametrize("location", ["sqlite", on_postgres], indirect=True)


@pytest.fixture
async def engine(
    request: pytest.FixtureRequest, location: Location, clock: ManualClock
) -> AsyncIterator[Engine]:
    with pytest.MonkeyPatch.context() as patch, _connections(request.path, location):
        if "store" not in request.path.parts:
            # With more of them, each opens a connection of its own for the few reads of a test.
            patch.setattr(readers, "READERS", 1)
        engine = open_engine(location, clock=clock, serving=True)
        yield engine
        await engine.close()


def _connections(file: Path, location: Location) -> AbstractContextManager[None]:
    """Keep connections to PostgreSQL open in the tests that mostly run on SQLite."""
    if isinstance(location, str) and file in ON_BOTH:
        from tests.ledger_engine.kept_connections import kept_connections

        return kept_connections()
    return nullcontext()


@pytest.fixture
async def project(engine: Engine) -> Project:
    new = projects.NewProject("Roastery", "enterprise", rate_limit=1_000_000, burst=1_000_000)
    return await engine.write(partial(projects.create, new=new))


@pytest.fixture
def tenant(project: Project) -> Tenant:
    """Return the local administrator's tenant, in test mode."""
    return Tenant(project.id, livemode=False)


@pytest.fixture
def make_key(engine: Engine, project: Project) -> MakeKey:
    """Return a function that creates an API key and returns its value."""

    async def make(
        *, livemode: bool = False, role: str = "admin", scopes: list[str] | None = None, of: str | None = None
    ) -> str:
        value = api_keys.new_value(livemode)
        tenant = Tenant(of or project.id, livemode)
        await engine.write(
            partial(api_keys.create, tenant=tenant, new=api_keys.NewApiKey(None, role, scopes), value=value)
        )
        return value

    return make


@pytest.fixture
def app(engine: Engine) -> Quart:
    return create_app(engine)


@pytest.fixture
async def anyone(app: Quart) -> AsyncIterator[httpx.AsyncClient]:
    """Return a client without a credential, in process."""
    async with client_of(app) as client:
        yield client


@pytest.fixture
async def api(app: Quart, make_key: MakeKey) -> AsyncIterator[httpx.AsyncClient]:
    """Return a client with an admin's key of the test mode, in process."""
    async with client_of(app, await make_key()) as client:
        yield client


@pytest.fixture
def let_app_in(engine: Engine, tenant: Tenant) -> Callable[[str, list[str]], Awaitable[str]]:
    """Return a function with which a user of a role grants an app scopes; it returns the access token."""

    async def let_in(role: str, scopes: list[str]) -> str:
        verifier, code, cookie = "v" * 43, api_keys.new_secret("ac"), api_keys.new_secret("si")
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).decode().rstrip("=")
        uri, hashed = "https://app.example/", "a hash"

        def work(unit: Unit) -> str:
            user = users.create(unit, tenant, users.NewUser("Ada", f"{cookie}@example.com", role))
            passwords.set_password(unit, tenant, f"{cookie}@example.com", hashed)
            sign_ins.begin(unit, user.id, hashed, cookie, None)
            app = apps.create(unit, tenant, apps.NewApp("App", [uri]))
            authorization.decide(unit, AuthorizationRequest(app, uri, scopes, "s", challenge), cookie, code)
            given = {"code": code, "code_verifier": verifier}
            tokens_given = authorization.exchange(unit, given, credentials.new_pair())
            assert isinstance(tokens_given, grants.OAuthTokens)
            return tokens_given.access_token

        return await engine.write(work)

    return let_in


@pytest.fixture
def write(engine: Engine, tenant: Tenant) -> Run:
    """Return a function that runs a writing work: `await write(accounts.create, new)`; `by` is the tenant."""

    async def run(work: Callable[..., Any], *args: Any, by: Tenant | None = None, **kwargs: Any) -> Any:
        return await engine.write(lambda unit: work(unit, by or tenant, *args, **kwargs))

    return run


@pytest.fixture
def read(engine: Engine, tenant: Tenant) -> Run:
    """Return a function that runs a reading work, as `write` does."""

    async def run(work: Callable[..., Any], *args: Any, by: Tenant | None = None, **kwargs: Any) -> Any:
        return await engine.read(lambda unit: work(unit, by or tenant, *args, **kwargs))

    return run


@pytest.fixture
def recorded(engine: Engine) -> Run:
    """Return a function for the events of all projects as they are sent, oldest first, or of one `type`."""

    async def events(type: str | None = None) -> list[dict[str, Any]]:
        rows = await engine.read(lambda unit: unit.execute(EVERY_EVENT))
        every = [json.loads(outbox.body_of(row)) for row in rows]
        return [event for event in every if type in (None, event["type"])]

    return events


@pytest.fixture
def stored_objects(engine: Engine, tenant: Tenant) -> Run:
    """Return a function for the number of stored objects of a project and mode, as the quota counts them."""

    async def count(by: Tenant | None = None) -> int:
        found = await engine.read(
            lambda unit: unit.first(
                "SELECT stored_objects FROM counters WHERE project = :project AND livemode = :livemode",
                (by or tenant).bind(),
            )
        )
        return found["stored_objects"] if found else 0

    return count


@pytest.fixture(params=["another project", "the other mode"])
async def stranger(request: pytest.FixtureRequest, engine: Engine, tenant: Tenant) -> Tenant:
    """Return a tenant that must not see anything of the project's test mode."""
    if request.param == "the other mode":
        return Tenant(tenant.project, livemode=True)
    new = projects.NewProject("Bakery", "enterprise", rate_limit=1_000_000, burst=1_000_000)
    other = await engine.write(partial(projects.create, new=new))
    return Tenant(other.id, livemode=False)


@pytest.fixture
async def api_with(app: Quart, make_key: MakeKey) -> AsyncIterator[Run]:
    """Return a function that makes clients whose key has a role or scopes."""
    clients: list[httpx.AsyncClient] = []

    async def make(**rights: Any) -> httpx.AsyncClient:
        clients.append(client_of(app, await make_key(**rights)))
        return clients[-1]

    yield make
    for client in clients:
        await client.aclose()
