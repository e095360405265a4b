"""Who may do what: every operation with every kind of credential, against a table written out here.

The routes declare their scope and role themselves (http/operations.py). This table says the same a
second time, by hand, from docs/interface.md#authentication and docs/decisions.md#credentials: a route that
is not in
it, or that lets in or keeps out another credential than it says, fails.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import httpx
import pytest

from ledger_engine.access import api_keys, projects
from ledger_engine.access.oauth import apps
from ledger_engine.access.projects import NewProject, Project
from ledger_engine.core.tenant import Tenant
from ledger_engine.http.app import RESOURCES
from ledger_engine.ledger import users
from ledger_engine.store.engine import Engine
from tests.contract.rules import holds
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
    an operation that is public, which answers with `status`. A text of the body such as `@till` stands for
    the id of that object. `apps` is whether an app may do it for its user. `then` is what those are answered
    who come after the first. `query` is a query that it needs.
    """

    scope: str | None
    on: str = ""
    role: str | None = "member"
    body: Any = None
    apps: bool = True
    status: int = 200
    then: int = 0
    query: str = ""


POSTING = {"account": "@account", "amount": 5, "type": "credit"}
TO_TILL = {"account": "@account", "amount": 5, "type": "credit", "destination": "@till"}
TABLE = {
    "GET /api/health": Row(None, role=None),
    "GET /api/health/ready": Row(None, role=None),
    "POST /v1/auth/token": Row(None, role=None, body={"grant_type": "api_key", "api_key": "@value"}),
    "POST /oauth/token": Row(
        None, role=None, body={"code": "ac_none", "code_verifier": "v" * 43}, status=400
    ),
    "POST /oauth/revoke": Row(None, role=None, body={"token": "at_none"}),
    "GET /v1/whoami": Row(None),
    "GET /v1/accounts": Row(READ),
    "POST /v1/accounts": Row(WRITE, body={"name": "Till", "currency": "EUR"}),
    "GET /v1/accounts/<id>": Row(READ, "account"),
    "GET /v1/currencies": Row(READ),
    "GET /v1/accounts/<id>/balance": Row(READ, "account"),
    "GET /v1/accounts/<id>/statement": Row(READ, "account"),
    "GET /v1/transactions": Row(READ),
    "POST /v1/transactions": Row(WRITE, body=TO_TILL),
    "POST /v1/transactions/batch": Row(WRITE, body={"transactions": [POSTING, TO_TILL]}),
    "GET /v1/transactions/<id>": Row(READ, "transaction"),
    "GET /v1/transactions/<id>/related": Row(READ, "transaction"),
    "POST /v1/transactions/<id>/reverse": Row(WRITE, "transaction"),
    "GET /v1/invoices": Row(READ),
    "POST /v1/invoices": Row(WRITE, body={"account": "@account", "customer": "Ada", "amount": 5}),
    "GET /v1/invoices/<id>": Row(READ, "draft"),
    "PATCH /v1/invoices/<id>": Row(WRITE, "draft", body={"account": "@account"}),
    "DELETE /v1/invoices/<id>": Row(WRITE, "invoice"),
    "POST /v1/invoices/<id>/finalize": Row(WRITE, "draft"),
    "POST /v1/invoices/<id>/pay": Row(WRITE, "invoice"),
    "GET /api/users": Row(USERS),
    "POST /api/users": Row(WRITE, body={"name": "Bo", "email": "@new address"}),
    "GET /api/users/<id>": Row(USERS, "user"),
    "DELETE /api/users/<id>": Row(WRITE, "leaver", "admin"),
    "POST /api/users/<id>/restore": Row(WRITE, "leaver", "admin"),
    "GET /api/orders": Row(READ),
    "POST /api/orders": Row(WRITE, body={"user_id": "@user", "items": [{}]}),
    "GET /v1/diff": Row(READ, query="?from=2020-01-01&to=2020-01-01"),
    "GET /api/orders/<id>": Row(READ, "order"),
    "GET /api/users/<id>/orders": Row(READ, "user"),
    "POST /api/orders/<id>/pay": Row(WRITE, "order"),
    "POST /api/orders/<id>/ship": Row(WRITE, "order"),
    "GET /v1/api_keys": Row(READ, role="admin"),
    "POST /v1/api_keys": Row(WRITE, role="admin", body={"role": "member", "scopes": [WRITE]}, apps=False),
    "GET /v1/api_keys/<id>": Row(READ, "api_key", "admin"),
    "DELETE /v1/api_keys/<id>": Row(WRITE, "api_key", "admin"),
    "POST /v1/api_keys/<id>/roll": Row(WRITE, "api_key", "admin", apps=False),
    "GET /v1/projects": Row(READ),
    "POST /v1/projects": Row(WRITE, role="admin", body={"name": "Branch"}),
    "GET /v1/projects/<id>": Row(READ, "child"),
    "PATCH /v1/projects/<id>": Row(WRITE, "child", "admin", body={"name": "Kiosk"}),
    "DELETE /v1/projects/<id>": Row(WRITE, "child", "admin"),
    "GET /v1/billing": Row(BILLING, role="owner"),
    "PATCH /v1/billing": Row(BILLING, role="owner", body={"plan": "enterprise"}),
    "GET /v1/events": Row(READ),
    "GET /v1/events/<id>": Row(READ, "event"),
    "GET /v1/events/<id>/deliveries": Row(READ, "event"),
    "GET /v1/events/stream": Row(READ, status=400),  # `ask` has a bad id: a good one has no end
    # Nothing is sealed here.
    "GET /v1/events/<id>/proof": Row(READ, "event", status=409),
    "GET /v1/transactions/<id>/proof": Row(READ, "transaction", status=409),
    "GET /v1/log/checkpoint": Row(READ, status=409),
    "GET /v1/log/tile/<path:tile>": Row(READ, status=404),
    "POST /v1/events/<id>/resend": Row(WRITE, "event"),
    "POST /v1/events/resend": Row(WRITE, body={"since": "2026-01-01", "endpoint": "@endpoint"}),
    "GET /v1/requests": Row(READ),
    "GET /v1/requests/<id>": Row(READ, "request", status=404),  # nothing is recorded here
    "GET /v1/requests/<id>/events": Row(READ, "request", status=404),
    "GET /v1/webhook_endpoints": Row(READ),
    "POST /v1/webhook_endpoints": Row(WRITE, body={"url": NOBODY}, apps=False),
    "GET /v1/webhook_endpoints/<id>": Row(READ, "endpoint"),
    "GET /v1/webhook_endpoints/<id>/deliveries": Row(READ, "endpoint"),
    "POST /v1/webhook_endpoints/<id>/restore": Row(WRITE, "deleted", apps=False),
    "POST /v1/webhook_endpoints/<id>/roll_secret": Row(WRITE, "endpoint", apps=False),
    "POST /v1/webhook_endpoints/<id>/disable": Row(WRITE, "endpoint"),
    "POST /v1/webhook_endpoints/<id>/enable": Row(WRITE, "endpoint"),
    "DELETE /v1/webhook_endpoints/<id>": Row(WRITE, "endpoint", then=404),
}


def filled(body: Any, has: Has) -> Any:
    """The body with the ids of these objects."""
    if isinstance(body, dict):
        return {name: filled(value, has) for name, value in body.items()}
    if isinstance(body, list):
        return [filled(value, has) for value in body]
    if body == "@new address":
        return f"{api_keys.new_secret('bo')}@example.com"
    return has[body[1:]] if isinstance(body, str) and body[0] == "@" else body


def named(body: Any, place: str = "") -> Iterator[tuple[str, str]]:
    """The objects in a body, and the param of each."""
    for name, value in body.items() if isinstance(body, dict) else enumerate(body):
        if isinstance(value, (dict, list)):
            yield from named(value, f"{place}{name}.")
        elif isinstance(value, str) and value[0] == "@" and " " not in value:
            yield value[1:], f"{place}{name}"


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
        json=None if row.body is None else filled(row.body, has),
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
    anyone: httpx.AsyncClient,
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
    expired, lapsed = await token_of(anyone, good), await let_app_in("owner", list(SCOPES))
    clock.advance(3_600_000)
    tokens = {name: await token_of(anyone, value) for name, value in (("leaked", leaked), ("closed", closed))}

    async def whoami(value: str) -> dict[str, Any]:
        headers = {"Authorization": f"Bearer {value}"}
        return dict((await anyone.get("/v1/whoami", headers=headers)).json())

    tenant = Tenant(project.id, livemode=False)
    await engine.write(partial(api_keys.revoke, tenant=tenant, id=(await whoami(leaked))["id"]))
    await engine.write(partial(projects.archive, tenant=Tenant(archived.id, True), id=archived.id))
    of_leaver, of_deleted = [await let_app_in("owner", list(SCOPES)) for _ in range(2)]
    await engine.write(partial(users.deactivate, tenant=tenant, id=(await whoami(of_leaver))["user"]))
    await engine.write(partial(apps.delete, id=(await whoami(of_deleted))["id"]))
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
    anyone: httpx.AsyncClient, engine: Engine, make_key: Any, refused: dict[str, tuple[str | None, str]]
) -> None:
    has = await furnish(anyone, await make_key(role="owner"))
    before = await everything(engine)
    wrong = []
    for name, row in TABLE.items():
        for kind, (bearer, code) in refused.items():
            answer = await ask(anyone, name, has, bearer)
            if row.role is None:
                as_told = answer.status_code == row.status
            else:
                as_told = answer.status_code == 401 and code_of(answer) == code
            if not as_told:
                wrong.append((name, kind, answer.status_code, answer.text))
    assert wrong == []
    # The token endpoint is public, and gave its tokens for the good key in its body.
    assert {**await everything(engine), "tokens": before["tokens"]} == before


@pytest.mark.parametrize("key", ["sk_test_…", "sk_test_...", "sk_live_YOUR_KEY"])
async def test_a_key_from_an_example_is_refused_with_the_form_of_a_real_key(
    anyone: httpx.AsyncClient, key: str
) -> None:
    answer = await anyone.get("/v1/accounts", headers={b"Authorization": f"Bearer {key}".encode()})
    assert answer.status_code == 401
    assert answer.json()["error"]["message"] == (
        'An API key is "sk_test_" or "sk_live_", followed by 32 letters and digits. '
        "If you copied an example, write your own key in place of the example's."
    )


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
    anyone: httpx.AsyncClient, make_key: Any, let_app_in: Any
) -> None:
    bearers = []
    for role, scope in itertools.product(ROLES, (None, *SCOPES)):
        key = await make_key(role=role, scopes=None if scope is None else [scope])
        for kind, value in (("key", key), ("token", await token_of(anyone, key))):
            bearers.append((kind, role, scope, f"Bearer {value}"))
        if scope is not None and (scope, role) not in ((BILLING, "member"), (BILLING, "admin")):
            bearers.append(("app", role, scope, f"Bearer {await let_app_in(role, [scope])}"))
    has = await furnish(anyone, await make_key(role="owner"))
    wrong = []
    for name, row in TABLE.items():
        for kind, role, scope, bearer in bearers:
            answer = await ask(anyone, name, has, bearer)
            if not as_the_table_says(row, kind, role, scope, answer):
                wrong.append((name, kind, role, scope, answer.status_code, answer.text))
    assert wrong == []


def as_the_table_says(row: Row, kind: str, role: str, scope: str | None, answer: httpx.Response) -> bool:
    if row.role is not None and ROLES.index(role) < ROLES.index(row.role):
        return answer.status_code == 403 and code_of(answer) == "missing_role"
    if row.scope is not None and scope not in (None, row.scope):
        return answer.status_code == 403 and code_of(answer) == "missing_scope"
    if kind == "app" and not row.apps:
        return answer.status_code == 403 and code_of(answer) == "missing_scope"
    # The first one let in changes the object's state, so the next may meet a conflict: they are let in too.
    return answer.status_code in (row.status, row.then, 201, 409)


# 404: another project's objects, or the other mode's


@pytest.fixture
async def stranger_key(stranger: Tenant, make_key: Any) -> str:
    """Return an owner's key of another project or of the other mode."""
    return str(await make_key(livemode=stranger.livemode, of=stranger.project, role="owner"))


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
    anyone: httpx.AsyncClient, engine: Engine, make_key: Any, stranger_key: str
) -> None:
    theirs = await furnish(anyone, await make_key(role="owner"))
    mine = await furnish(anyone, stranger_key)
    for kind, value in (("key", stranger_key), ("token", await token_of(anyone, stranger_key))):
        before = await everything(engine)
        for name, row in TABLE.items():
            # A project is no object of a mode: the other mode of the same project sees its child as well.
            if not row.on or (row.on == "child" and stranger_key.startswith("sk_live_")):
                continue
            nowhere = f"{theirs[row.on].partition('_')[0]}_{'0' * 26}"
            for id in (theirs[row.on], nowhere):
                answer = await ask(anyone, name, mine | {row.on: id}, f"Bearer {value}")
                assert (name, kind, answer.status_code, code_of(answer)) == (name, kind, 404, "not_found")
                assert id in answer.text
        assert await everything(engine) == before


@holds("auth-one-project", "errors-404")
async def test_an_id_of_elsewhere_in_a_body_is_404_and_nothing_is_written(
    anyone: httpx.AsyncClient, engine: Engine, make_key: Any, stranger_key: str
) -> None:
    theirs = await furnish(anyone, await make_key(role="owner"))
    mine = await furnish(anyone, stranger_key)
    before = await everything(engine)
    tried = 0
    for name, row in TABLE.items():
        places = [] if row.role is None else [*named(row.body or {})]
        for kind, field in dict(reversed(places)).items():  # each object at its first place
            method, path = name.split()
            answer = await anyone.request(
                method,
                path.replace("<id>", mine.get(row.on, "")),
                json=filled(row.body, mine | {kind: theirs[kind]}),
                headers={"Authorization": f"Bearer {stranger_key}", "Idempotency-Key": f"{name} {field}"},
            )
            assert (name, field, answer.status_code, code_of(answer)) == (name, field, 404, "not_found")
            if not path.startswith("/api"):
                assert answer.json()["error"]["param"] == field
            tried += 1
    assert tried == 8
    assert await everything(engine) == before


async def test_no_list_shows_an_id_of_elsewhere(
    anyone: httpx.AsyncClient, make_key: Any, stranger_key: str
) -> None:
    theirs = await furnish(anyone, await make_key(role="owner"))
    headers = {"Authorization": f"Bearer {stranger_key}"}
    hidden = {id for name, id in theirs.items() if name not in ("value", "child", "request")}
    # Of the differences, tests/ledger_engine/ledger/test_differences.py.
    others = {"/v1/whoami", "/v1/billing", "/v1/currencies", "/v1/diff", "/api/health"}
    lists = {name.split()[1] for name in TABLE if name.startswith("GET") and name.count("/") == 2} - others
    assert len(lists) == 10
    for path in lists:
        shown = (await anyone.get(path, headers=headers)).text
        assert not any(id in shown for id in hidden)
    for path in ("/v1/transactions", "/v1/invoices"):
        filtered = await anyone.get(path, params={"account": theirs["account"]}, headers=headers)
        assert (filtered.status_code, filtered.json()["data"]) == (200, [])


def code_of(answer: httpx.Response) -> str:
    error = answer.json().get("error")
    return str(error["code"] if isinstance(error, dict) else error)
