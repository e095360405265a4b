"""Who may do what: every operation with every kind of credential, against a table written out here.

The routes declare their scope and role themselves (http/operations.py). This table says the same a
second time, by hand, from docs/interface.md#authentication and docs/decisions.md#credentials: a route that
is not in
it, or that lets in or keeps out another credential than it says, fails.
"""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import httpx
import pytest
from quart import Quart

from ledger_engine.access import api_keys, projects
from ledger_engine.access.oauth import apps
from ledger_engine.access.projects import NewProject, Project
from ledger_engine.core.tenant import Tenant
from ledger_engine.http.app import RESOURCES, create_app
from ledger_engine.http.gate.gate import AuthRateLimit
from ledger_engine.ledger import users
from ledger_engine.store.engine import Engine
from tests.contract.rules import holds
from tests.ledger_engine.in_process import client_of
from tests.ledger_engine.manual_clock import ManualClock
from tests.made_once import tables

ROLES = ("member", "admin", "owner")
SCOPES = ("read:projects", "write:projects", "read:users", "admin:billing")
READ, WRITE, USERS, BILLING = SCOPES
NOBODY = "https://nobody.invalid/"  # where webhooks are sent to: a name that leads nowhere

Has = dict[str, str]  # the objects of a project, by what they are in the table below


@dataclass
class Row:
    """An operation on the object that `on` names, with the body that is right for it.

    `scope` is what a restricted credential needs, None for nothing; `role` the least role, None for
    an operation that is public, which answers with `status`. `names` are the body's fields that hold
    the id of another object. `apps` is whether an app may do it for its user. `then` is what those are
    answered who come after the first. `query` is a query that it needs.
    """

    tenant: str | None
    role: str | None
    on: str = ""
    body: Callable[[Has], Any] | None = None
    names: tuple[str, ...] = ()
    apps: bool = True
    status: int = 200
    then: int = 0
    query: str = ""


def post(has: Has) -> dict[str, Any]:
    return {"account": has["account"], "amount": 5, "type": "credit", "destination": has["till"]}


TABLE = {
    "GET /api/health": Row(None, None),
    "GET /api/health/ready": Row(None, None),
    "POST /v1/auth/token": Row(
        None, None, body=lambda has: {"grant_type": "api_key", "api_key": has["value"]}
    ),
    "POST /oauth/token": Row(
        None, None, body=lambda has: {"code": "ac_none", "code_verifier": "v" * 43}, status=400
    ),
    "POST /oauth/revoke": Row(None, None, body=lambda has: {"token": "at_none"}),
    "GET /v1/whoami": Row(None, "member"),
    "GET /v1/accounts": Row(READ, "member"),
    "POST /v1/accounts": Row(WRITE, "member", body=lambda has: {"name": "Till", "currency": "EUR"}),
    "GET /v1/accounts/<id>": Row(READ, "member", "account"),
    "GET /v1/accounts/<id>/balance": Row(READ, "member", "account"),
    "GET /v1/accounts/<id>/statement": Row(READ, "member", "account"),
    "GET /v1/transactions": Row(READ, "member"),
    "POST /v1/transactions": Row(WRITE, "member", body=post, names=("account", "destination")),
    "POST /v1/transactions/batch": Row(
        WRITE,
        "member",
        body=lambda has: {"transactions": [post(has), post(has)]},
        names=("transactions.0.account", "transactions.1.destination"),
    ),
    "GET /v1/transactions/<id>": Row(READ, "member", "transaction"),
    "GET /v1/transactions/<id>/related": Row(READ, "member", "transaction"),
    "POST /v1/transactions/<id>/reverse": Row(WRITE, "member", "transaction"),
    "GET /v1/invoices": Row(READ, "member"),
    "POST /v1/invoices": Row(
        WRITE,
        "member",
        body=lambda has: {"account": has["account"], "customer": "Ada", "amount": 5},
        names=("account",),
    ),
    "GET /v1/invoices/<id>": Row(READ, "member", "draft"),
    "PATCH /v1/invoices/<id>": Row(
        WRITE, "member", "draft", body=lambda has: {"account": has["account"]}, names=("account",)
    ),
    "DELETE /v1/invoices/<id>": Row(WRITE, "member", "invoice"),
    "POST /v1/invoices/<id>/finalize": Row(WRITE, "member", "draft"),
    "POST /v1/invoices/<id>/pay": Row(WRITE, "member", "invoice"),
    "GET /api/users": Row(USERS, "member"),
    "POST /api/users": Row(
        WRITE, "member", body=lambda has: {"name": "Bo", "email": f"{api_keys.new_secret('bo')}@example.com"}
    ),
    "GET /api/users/<id>": Row(USERS, "member", "user"),
    "DELETE /api/users/<id>": Row(WRITE, "admin", "leaver"),
    "POST /api/users/<id>/restore": Row(WRITE, "admin", "leaver"),
    "GET /api/orders": Row(READ, "member"),
    "POST /api/orders": Row(
        WRITE, "member", body=lambda has: {"user_id": has["user"], "items": [{}]}, names=("user_id",)
    ),
    "GET /v1/diff": Row(READ, "member", query="?from=2020-01-01&to=2020-01-01"),
    "GET /api/orders/<id>": Row(READ, "member", "order"),
    "GET /api/users/<id>/orders": Row(READ, "member", "user"),
    "POST /api/orders/<id>/pay": Row(WRITE, "member", "order"),
    "POST /api/orders/<id>/ship": Row(WRITE, "member", "order"),
    "GET /v1/api_keys": Row(READ, "admin"),
    "POST /v1/api_keys": Row(
        WRITE, "admin", body=lambda has: {"role": "member", "scopes": [WRITE]}, apps=False
    ),
    "DELETE /v1/api_keys/<id>": Row(WRITE, "admin", "api_key"),
    "POST /v1/api_keys/<id>/roll": Row(WRITE, "admin", "api_key", apps=False),
    "GET /v1/projects": Row(READ, "member"),
    "POST /v1/projects": Row(WRITE, "admin", body=lambda has: {"name": "Branch"}),
    "GET /v1/projects/<id>": Row(READ, "member", "child"),
    "PATCH /v1/projects/<id>": Row(WRITE, "admin", "child", body=lambda has: {"name": "Kiosk"}),
    "DELETE /v1/projects/<id>": Row(WRITE, "admin", "child"),
    "GET /v1/billing": Row(BILLING, "owner"),
    "PATCH /v1/billing": Row(BILLING, "owner", body=lambda has: {"plan": "enterprise"}),
    "GET /v1/events": Row(READ, "member"),
    "GET /v1/events/<id>": Row(READ, "member", "event"),
    "GET /v1/events/<id>/deliveries": Row(READ, "member", "event"),
    "GET /v1/events/stream": Row(READ, "member", status=400),  # `ask` has a bad id: a good one has no end
    # Nothing is sealed here.
    "GET /v1/events/<id>/proof": Row(READ, "member", "event", status=409),
    "GET /v1/transactions/<id>/proof": Row(READ, "member", "transaction", status=409),
    "GET /v1/log/checkpoint": Row(READ, "member", status=409),
    "GET /v1/log/tile/<path:tile>": Row(READ, "member", status=404),
    "POST /v1/events/<id>/resend": Row(WRITE, "member", "event"),
    "POST /v1/events/resend": Row(
        WRITE,
        "member",
        body=lambda has: {"since": "2026-01-01", "endpoint": has["endpoint"]},
        names=("endpoint",),
    ),
    "GET /v1/requests": Row(READ, "member"),
    "GET /v1/requests/<id>": Row(READ, "member", "request", status=404),  # nothing is recorded here
    "GET /v1/requests/<id>/events": Row(READ, "member", "request", status=404),
    "GET /v1/webhook_endpoints": Row(READ, "member"),
    "POST /v1/webhook_endpoints": Row(WRITE, "member", body=lambda has: {"url": NOBODY}, apps=False),
    "GET /v1/webhook_endpoints/<id>": Row(READ, "member", "endpoint"),
    "GET /v1/webhook_endpoints/<id>/deliveries": Row(READ, "member", "endpoint"),
    "POST /v1/webhook_endpoints/<id>/restore": Row(WRITE, "member", "deleted", apps=False),
    "POST /v1/webhook_endpoints/<id>/roll_secret": Row(WRITE, "member", "endpoint", apps=False),
    "POST /v1/webhook_endpoints/<id>/disable": Row(WRITE, "member", "endpoint"),
    "POST /v1/webhook_endpoints/<id>/enable": Row(WRITE, "member", "endpoint"),
    "DELETE /v1/webhook_endpoints/<id>": Row(WRITE, "member", "endpoint", then=404),
}


@pytest.fixture
def app(engine: Engine) -> Quart:
    """Return an application in which each request has a new minute, so that none exceeds its limit."""
    return create_app(
        engine,
        auth_rate_limit=AuthRateLimit(1_000_000, 1_000_000),
        wall_clock=partial(next, itertools.count(0, 60)),
    )


@pytest.fixture
async def client(app: Quart) -> AsyncIterator[httpx.AsyncClient]:
    async with client_of(app) as client:
        yield client


async def furnish(client: httpx.AsyncClient, value: str) -> Has:
    """One object of each kind that the table names, made with the key `value`."""
    client.headers["Authorization"] = f"Bearer {value}"

    async def make(path: str, body: Any = None) -> str:
        answer = await client.post(path, json=body)
        assert answer.is_success, answer.text
        return str(answer.json()["id"])

    has = {"value": value}
    has["account"] = await make("/v1/accounts", {"name": "Bank", "currency": "EUR"})
    has["till"] = await make("/v1/accounts", {"name": "Till", "currency": "EUR"})
    has["transaction"] = await make(
        "/v1/transactions", {"account": has["till"], "amount": 100, "type": "credit"}
    )
    for name in ("draft", "invoice"):
        body = {"account": has["account"], "customer": "Ada", "amount": 7}
        has[name] = await make("/v1/invoices", body)
    await make(f"/v1/invoices/{has['invoice']}/finalize")
    for name in ("user", "leaver"):
        has[name] = await make("/api/users", {"name": name, "email": f"{name}@example.com"})
    has["order"] = await make("/api/orders", {"user_id": has["user"], "items": [{}]})
    has["api_key"] = await make("/v1/api_keys", {"role": "member", "scopes": [WRITE]})
    has["child"] = await make("/v1/projects", {"name": "Branch"})
    has["endpoint"] = await make("/v1/webhook_endpoints", {"url": NOBODY})
    has["deleted"] = await make("/v1/webhook_endpoints", {"url": NOBODY})
    await client.delete(f"/v1/webhook_endpoints/{has['deleted']}")
    has["event"] = str((await client.get("/v1/events")).json()["data"][0]["id"])
    has["request"] = f"req_{'0' * 26}"
    del client.headers["Authorization"]
    return has


async def token_of(client: httpx.AsyncClient, value: str) -> str:
    answer = await client.post("/v1/auth/token", json={"grant_type": "api_key", "api_key": value})
    return str(answer.json()["access_token"])


async def ask(client: httpx.AsyncClient, name: str, has: Has, bearer: str | None) -> httpx.Response:
    row = TABLE[name]
    method, path = name.split()
    return await client.request(
        method,
        path.replace("<id>", has.get(row.on, "")) + row.query,
        json=None if row.body is None else row.body(has),
        headers={"Last-Event-ID": "evt_none"} | ({} if bearer is None else {"Authorization": bearer}),
    )


def test_every_operation_has_its_row_and_every_row_its_operation() -> None:
    operations = [
        f"{operation.method} {operation.path}" for resource in RESOURCES for operation in resource.operations
    ]
    assert sorted(operations) == sorted(TABLE)


# 401: no credential that counts


@pytest.fixture
async def refused(
    client: httpx.AsyncClient,
    engine: Engine,
    clock: ManualClock,
    project: Project,
    make_key: Any,
    let_app_in: Any,
) -> dict[str, tuple[str | None, str]]:
    """Bearers that are refused, with the code for each."""
    good, leaked = await make_key(role="owner"), await make_key(role="owner")
    archived = await engine.write(partial(projects.create, new=NewProject("Closed", "enterprise")))
    closed = await make_key(of=archived.id, role="owner")
    expired, lapsed = await token_of(client, good), await let_app_in("owner", list(SCOPES))
    clock.advance(3_600_000)
    tokens = {name: await token_of(client, value) for name, value in (("leaked", leaked), ("closed", closed))}
    whoami = await client.get("/v1/whoami", headers={"Authorization": f"Bearer {leaked}"})
    tenant = Tenant(project.id, livemode=False)
    await engine.write(partial(api_keys.revoke, tenant=tenant, id=whoami.json()["id"]))
    await engine.write(partial(projects.archive, tenant=Tenant(archived.id, True), id=archived.id))
    of_leaver, of_deleted = [await let_app_in("owner", list(SCOPES)) for _ in range(2)]
    leaver = await client.get("/v1/whoami", headers={"Authorization": f"Bearer {of_leaver}"})
    await engine.write(partial(users.deactivate, tenant=tenant, id=leaver.json()["user"]))
    deleted = await client.get("/v1/whoami", headers={"Authorization": f"Bearer {of_deleted}"})
    await engine.write(partial(apps.delete, id=deleted.json()["id"]))
    return {
        "none": (None, "missing_credential"),
        "malformed": (f"bearer {good}", "invalid_credential"),
        "quoted": (f'Bearer "{good}"', "invalid_credential"),
        "unknown key": (f"Bearer sk_test_{'A' * 32}", "invalid_credential"),
        "unknown token": (f"Bearer at_{'A' * 32}", "invalid_credential"),
        "expired token": (f"Bearer {expired}", "expired_credential"),
        "revoked key": (f"Bearer {leaked}", "revoked_credential"),
        "token of a revoked key": (f"Bearer {tokens['leaked']}", "revoked_credential"),
        "key of an archived project": (f"Bearer {closed}", "revoked_credential"),
        "token of an archived project": (f"Bearer {tokens['closed']}", "revoked_credential"),
        "expired token of an app": (f"Bearer {lapsed}", "expired_credential"),
        "token of a deleted app": (f"Bearer {of_deleted}", "revoked_credential"),
        "token of an app whose user is gone": (f"Bearer {of_leaver}", "revoked_credential"),
    }


@pytest.mark.slow
async def test_a_credential_that_does_not_count_is_401_everywhere(
    client: httpx.AsyncClient, engine: Engine, make_key: Any, refused: dict[str, tuple[str | None, str]]
) -> None:
    has = await furnish(client, await make_key(role="owner"))
    before = await everything(engine)
    wrong = []
    for name, row in TABLE.items():
        for kind, (bearer, code) in refused.items():
            answer = await ask(client, name, has, bearer)
            if row.role is None:
                as_told = answer.status_code == row.status
            else:
                as_told = answer.status_code == 401 and code_of(answer) == code
            if not as_told:
                wrong.append((name, kind, answer.status_code, answer.text))
    assert wrong == []
    # The token endpoint is public, and gave its tokens for the good key in its body.
    assert {**await everything(engine), "tokens": before["tokens"]} == before


# 403: a good credential that may not


@holds(
    "credentials-scopes",
    "scope-read-projects",
    "scope-write-projects",
    "scope-read-users",
    "scope-admin-billing",
    "auth-403",
    "errors-403",
)
@pytest.mark.slow
async def test_each_role_and_each_scope_opens_what_the_table_says_and_nothing_else(
    client: httpx.AsyncClient, make_key: Any, let_app_in: Any
) -> None:
    bearers = []
    for role, tenant in itertools.product(ROLES, (None, *SCOPES)):
        key = await make_key(role=role, scopes=None if tenant is None else [tenant])
        for kind, value in (("key", key), ("token", await token_of(client, key))):
            bearers.append((kind, role, tenant, f"Bearer {value}"))
        if tenant is not None and (tenant, role) not in ((BILLING, "member"), (BILLING, "admin")):
            bearers.append(("app", role, tenant, f"Bearer {await let_app_in(role, [tenant])}"))
    has = await furnish(client, await make_key(role="owner"))
    wrong = []
    for name, row in TABLE.items():
        for kind, role, tenant, bearer in bearers:
            answer = await ask(client, name, has, bearer)
            if not as_the_table_says(row, kind, role, tenant, answer):
                wrong.append((name, kind, role, tenant, answer.status_code, answer.text))
    assert wrong == []


def as_the_table_says(row: Row, kind: str, role: str, tenant: str | None, answer: httpx.Response) -> bool:
    if row.role is not None and ROLES.index(role) < ROLES.index(row.role):
        return answer.status_code == 403 and code_of(answer) == "missing_role"
    if row.tenant is not None and tenant not in (None, row.tenant):
        return answer.status_code == 403 and code_of(answer) == "missing_scope"
    if kind == "app" and not row.apps:
        return answer.status_code == 403 and code_of(answer) == "missing_scope"
    # The first one let in changes the object's state, so the next may meet a conflict: they are let in too.
    return answer.status_code in (row.status, row.then, 201, 409)


# 404: another project's objects, or the other mode's


@pytest.fixture(params=["another project", "the other mode"])
async def stranger(request: pytest.FixtureRequest, engine: Engine, make_key: Any) -> str:
    """Return an owner's key of another project or of the other mode."""
    if request.param == "the other mode":
        return str(await make_key(livemode=True, role="owner"))
    other = await engine.write(partial(projects.create, new=NewProject("Other", "enterprise")))
    return str(await make_key(of=other.id, role="owner"))


async def everything(engine: Engine) -> dict[str, list[tuple[Any, ...]]]:
    """Every row of every table."""

    def read(unit: Any) -> dict[str, list[tuple[Any, ...]]]:
        return {
            table: sorted(tuple(row) for row in unit.execute(f"SELECT * FROM {table}")) for table in tables()
        }

    return await engine.read(read)


@holds("auth-one-project", "error-foreign", "errors-404")
@pytest.mark.slow
async def test_an_id_of_elsewhere_in_a_path_is_as_one_that_is_not_there(
    client: httpx.AsyncClient, engine: Engine, make_key: Any, stranger: str
) -> None:
    theirs = await furnish(client, await make_key(role="owner"))
    mine = await furnish(client, stranger)
    for kind, value in (("key", stranger), ("token", await token_of(client, stranger))):
        before = await everything(engine)
        for name, row in TABLE.items():
            # A project is no object of a mode: the other mode of the same project sees its child as well.
            if not row.on or (row.on == "child" and value_is_live(stranger)):
                continue
            nowhere = f"{theirs[row.on].partition('_')[0]}_{'0' * 26}"
            for id in (theirs[row.on], nowhere):
                answer = await ask(client, name, mine | {row.on: id}, f"Bearer {value}")
                assert (name, kind, answer.status_code, code_of(answer)) == (name, kind, 404, "not_found")
                assert id in answer.text
        assert await everything(engine) == before


@holds("auth-one-project", "errors-404")
async def test_an_id_of_elsewhere_in_a_body_is_404_and_nothing_is_written(
    client: httpx.AsyncClient, engine: Engine, make_key: Any, stranger: str
) -> None:
    theirs = await furnish(client, await make_key(role="owner"))
    mine = await furnish(client, stranger)
    before = await everything(engine)
    tried = 0
    for name, row in TABLE.items():
        for field in row.names:
            method, path = name.split()
            assert row.body is not None
            body = row.body(mine)
            put(body, field, pick(row.body(theirs), field))
            answer = await client.request(
                method,
                path.replace("<id>", mine.get(row.on, "")),
                json=body,
                headers={"Authorization": f"Bearer {stranger}", "Idempotency-Key": f"{name} {field}"},
            )
            assert (name, field, answer.status_code, code_of(answer)) == (name, field, 404, "not_found")
            if not path.startswith("/api"):
                assert answer.json()["error"]["param"] == field
            tried += 1
    assert tried == 8
    assert await everything(engine) == before


async def test_no_list_shows_or_takes_an_id_of_elsewhere(
    client: httpx.AsyncClient, make_key: Any, stranger: str
) -> None:
    theirs = await furnish(client, await make_key(role="owner"))
    headers = {"Authorization": f"Bearer {stranger}"}
    hidden = {id for name, id in theirs.items() if name not in ("value", "child", "request")}
    lists = {
        "/v1/accounts": "account",
        "/v1/transactions": "transaction",
        "/v1/invoices": "invoice",
        "/api/users": None,
        "/api/orders": "order",
        "/v1/api_keys": "api_key",
        "/v1/projects": None,
        "/v1/events": "event",
        "/v1/requests": None,
        "/v1/webhook_endpoints": "endpoint",
    }
    assert {name.split()[1] for name in TABLE if name.startswith("GET") and name.count("/") == 2} == {
        *lists,
        "/v1/whoami",
        "/v1/billing",
        "/v1/diff",  # tests/ledger_engine/ledger/test_past.py
        "/api/health",
    }
    for path, kind in lists.items():
        shown = (await client.get(path, headers=headers)).text
        assert not any(id in shown for id in hidden)
        if kind is None:
            continue
        cursor = (
            "starting_after" if path in ("/v1/accounts", "/v1/transactions", "/v1/invoices") else "cursor"
        )
        answer = await client.get(path, params={cursor: theirs[kind]}, headers=headers)
        assert (path, answer.status_code, code_of(answer)) == (path, 400, "invalid_cursor")
    for path in ("/v1/transactions", "/v1/invoices"):
        filtered = await client.get(path, params={"account": theirs["account"]}, headers=headers)
        assert (filtered.status_code, filtered.json()["data"]) == (200, [])


def code_of(answer: httpx.Response) -> str:
    error = answer.json().get("error")
    return str(error["code"] if isinstance(error, dict) else error)


def value_is_live(value: str) -> bool:
    return value.startswith("sk_live_")


def pick(body: Any, field: str) -> Any:
    for part in field.split("."):
        body = body[int(part) if part.isdigit() else part]
    return body


def put(body: Any, field: str, value: Any) -> None:
    place, _, last = field.rpartition(".")
    (pick(body, place) if place else body)[last] = value
