"""Calls that use each operation of the application once, for the tests of all operations."""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import httpx

from ledger_engine.access import api_keys
from ledger_engine.access.oauth import apps, authorization, passwords, sign_ins
from ledger_engine.access.oauth.authorization import AuthorizationRequest
from ledger_engine.core.clock import iso
from ledger_engine.core.tenant import Tenant
from ledger_engine.events import outbox, request_log
from ledger_engine.events.request_log import Entry
from ledger_engine.http.app import RESOURCES
from ledger_engine.http.operations import Operation
from ledger_engine.store import Unit
from ledger_engine.store.engine import Engine
from tests.ledger_engine.conftest import START
from tests.ledger_engine.manual_clock import ManualClock

OPERATIONS = {f"{each.method} {each.path}": each for resource in RESOURCES for each in resource.operations}


@dataclass
class World:
    """A filled ledger and a client of its first project's test mode."""

    engine: Engine
    clock: ManualClock
    tenant: Tenant
    client: httpx.AsyncClient
    key: str
    lists: dict[str, list[str]] = field(default_factory=dict)
    number: Iterator[int] = field(default_factory=itertools.count)

    async def ids(self, path: str) -> list[str]:
        """Return the ids of the list at `path`, newest first, or the codes of objects without one."""
        if path not in self.lists:
            answer = await self.client.get(path)
            assert answer.status_code == 200, answer.text
            self.lists[path] = [item.get("id", item.get("code")) for item in answer.json()["data"]]
        return self.lists[path]

    async def send(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the answer, which must be a success: a refusal would leave statements untested."""
        headers = {"Idempotency-Key": f"request {next(self.number)}"} if method == "POST" else {}
        answer = await self.client.request(method, path, json=body, headers=headers)
        assert answer.is_success, f"{method} {path}: {answer.text}"
        result: dict[str, Any] = answer.json()
        return result


async def value_of(world: World, path: str, parameter: str) -> str:
    """Return a value to try a query parameter of a GET with."""
    if parameter in ("starting_after", "ending_before", "cursor"):
        return _middle(await world.ids(path))
    if parameter in ("account", "object"):
        return _middle(await world.ids("/v1/accounts"))
    if (path, parameter) == ("/v1/requests", "status"):
        return "200"
    known = {
        "limit": "5",
        "page": "2",
        "per_page": "5",
        "type": "credit",
        "status": "open",
        "role": "member",
        "created_after": iso(START),
        "at": iso(START),
        "from": iso(START),
        "to": iso(START + 500),
        "method": "GET",
        "path": "/v1/accounts",
    }
    assert parameter in known, f"say here what {parameter} of {path} is to be tried with"
    return known[parameter]


def _middle(ids: list[str]) -> str:
    return ids[len(ids) // 2]


async def read(world: World, operation: Operation) -> None:
    """Send a GET with every combination of its parameters."""
    path = operation.path
    if "<id>" in path:
        path = path.replace("<id>", _middle(await world.ids(path.partition("/<id>")[0])))
    fields = operation.query.model_fields if operation.query else {}
    names = [definition.alias or name for name, definition in fields.items()]
    for count in range(len(names) + 1):
        for chosen in itertools.combinations(names, count):
            if "ending_before" in chosen and {"starting_after", "cursor"} & set(chosen):
                continue  # refused, see pages
            given = {name: await value_of(world, path, name) for name in chosen}
            answer = await world.client.get(path, params=given)
            assert answer.status_code == 200, f"{path} {given}: {answer.text}"


async def account(world: World) -> str:
    return (await world.ids("/v1/accounts"))[0]


async def draft(world: World) -> str:
    lines = [{"description": "Beans", "quantity": 2, "unit_amount": 5}]
    body = {"account": await account(world), "customer": "Ada", "lines": lines}
    return str((await world.send("POST", "/v1/invoices", body))["id"])


async def opened(world: World) -> str:
    id = await draft(world)
    await world.send("POST", f"/v1/invoices/{id}/finalize")
    return id


async def user(world: World, email: str) -> str:
    body = {"name": "Ada", "email": f"{email}@example.org"}
    return str((await world.send("POST", "/api/users", body))["id"])


async def order(world: World, email: str) -> str:
    body = {"user_id": await user(world, email), "items": [{"quantity": 2, "unit_amount": 5}]}
    return str((await world.send("POST", "/api/orders", body))["id"])


async def create_account(world: World) -> None:
    await world.send("POST", "/v1/accounts", {"name": "Till", "currency": "EUR", "metadata": {"a": "b"}})


async def post_transaction(world: World) -> None:
    first, second = (await world.ids("/v1/accounts"))[:2]
    for more in ({}, {"destination": second}):
        await world.send(
            "POST", "/v1/transactions", {"account": first, "amount": 5, "type": "credit", **more}
        )


async def post_batch(world: World) -> None:
    first, second = (await world.ids("/v1/accounts"))[:2]
    batch = [
        {"account": first, "amount": 5, "type": "credit"},
        {"account": first, "amount": 5, "type": "debit", "destination": second},
    ]
    await world.send("POST", "/v1/transactions/batch", {"transactions": batch})


async def reverse_transaction(world: World) -> None:
    first, second = (await world.ids("/v1/accounts"))[:2]
    for more in ({}, {"destination": second}):
        body = {"account": first, "amount": 5, "type": "credit", **more}
        posted = await world.send("POST", "/v1/transactions", body)
        await world.send("POST", f"/v1/transactions/{posted['id']}/reverse")
        again = await world.client.post(f"/v1/transactions/{posted['id']}/reverse")
        assert again.status_code == 409


async def change_invoice(world: World) -> None:
    path = f"/v1/invoices/{await draft(world)}"
    for body in ({}, {"customer": "Eve"}, {"account": await account(world), "amount": 7, "lines": None}):
        await world.send("PATCH", path, body)


async def void_invoice(world: World) -> None:
    id = await opened(world)
    await world.send("DELETE", f"/v1/invoices/{id}")
    assert (await world.client.delete(f"/v1/invoices/{id}")).status_code == 409


async def pay_invoice(world: World) -> None:
    id = await opened(world)
    await world.send("POST", f"/v1/invoices/{id}/pay")
    assert (await world.client.post(f"/v1/invoices/{id}/pay")).status_code == 409


async def create_user(world: World) -> None:
    await user(world, "create")
    taken = {"name": "Ada", "email": "create@example.org"}
    assert (await world.client.post("/api/users", json=taken)).status_code == 409


async def deactivate_user(world: World) -> None:
    id = await user(world, "deactivate")
    for _ in range(2):
        await world.send("DELETE", f"/api/users/{id}")


async def restore_user(world: World) -> None:
    id = await user(world, "restore")
    await world.send("DELETE", f"/api/users/{id}")
    for _ in range(2):
        await world.send("POST", f"/api/users/{id}/restore")


async def ship_order(world: World) -> None:
    id = await order(world, "ship")
    assert (await world.client.post(f"/api/orders/{id}/ship")).status_code == 409
    await world.send("POST", f"/api/orders/{id}/pay")
    await world.send("POST", f"/api/orders/{id}/ship")


async def issue_token(world: World) -> None:
    body = {"grant_type": "api_key", "api_key": world.key}
    pair = await world.send("POST", "/v1/auth/token", body)
    spent = {"grant_type": "refresh_token", "refresh_token": pair["refresh_token"]}
    await world.send("POST", "/v1/auth/token", spent)
    assert (await world.client.post("/v1/auth/token", json=spent)).status_code == 401
    bearer = {"Authorization": f"Bearer {pair['access_token']}"}
    assert (await world.client.get("/v1/accounts", headers=bearer)).status_code == 200


async def api_key(world: World) -> str:
    return str((await world.send("POST", "/v1/api_keys", {"name": "Till", "scopes": ["read:users"]}))["id"])


async def project(world: World) -> str:
    return str((await world.send("POST", "/v1/projects", {"name": "Branch"}))["id"])


async def endpoint(world: World) -> str:
    body = {"url": "http://127.0.0.1:9/hook", "events": ["account.created"]}
    return str((await world.send("POST", "/v1/webhook_endpoints", body))["id"])


async def enable_endpoint(world: World) -> None:
    path = f"/v1/webhook_endpoints/{await endpoint(world)}"
    for verb in ("enable", "disable", "disable", "enable"):
        await world.send("POST", f"{path}/{verb}")


async def resend_event(world: World) -> None:
    account = _middle(await world.ids("/v1/accounts"))
    (event,) = await world.ids(f"/v1/events?object={account}")
    to = (await world.ids("/v1/webhook_endpoints"))[-1]
    await world.send("POST", f"/v1/events/{event}/resend")
    await world.send("POST", f"/v1/events/{event}/resend?endpoint={to}")


async def restore_endpoint(world: World) -> None:
    id = await endpoint(world)
    await world.send("DELETE", f"/v1/webhook_endpoints/{id}")
    await world.send("POST", f"/v1/webhook_endpoints/{id}/restore")


async def resend_failed(world: World) -> None:
    to = (await world.ids("/v1/webhook_endpoints"))[-1]
    for more in ({}, {"endpoint": to}):
        await world.send("POST", "/v1/events/resend", {"since": iso(START), **more})


async def follow_events(world: World) -> None:
    """Read what the stream reads; the stream itself never ends."""
    first = (await world.ids("/v1/events"))[-1]
    for last in (None, first):
        cursor = await world.engine.read(partial(outbox.resume, tenant=world.tenant, last=last))
        await world.engine.read(partial(outbox.after, tenant=world.tenant, cursor=cursor, limit=16))


async def list_events(world: World) -> None:
    await read(world, OPERATIONS["GET /v1/events"])
    posted = _middle(await world.ids("/v1/transactions"))
    assert len((await world.send("GET", f"/v1/events?object={posted}"))["data"]) == 1


async def list_request_events(world: World) -> None:
    """List what a request caused that is in the log; without a recorder the test writes it there."""
    created = world.clock.now()
    answer = await world.client.post("/v1/accounts", json={"name": "Till", "currency": "EUR"})
    entry = dict.fromkeys(("error_code", "idempotency_key", "traceparent", "request_body", "response_body"))
    entry |= dict.fromkeys(("method", "path", "query", "credential_id", "credential", "address"), "")
    entry |= {"id": answer.headers["Request-Id"], "status": 201, "duration_us": 1000, "created": created}
    await world.engine.write(lambda unit: request_log.add(unit, [Entry(**world.tenant.bind(**entry))]))
    path = f"/v1/requests/{entry['id']}/events"
    (event,) = (await world.send("GET", path))["data"]
    assert (await world.send("GET", f"{path}?limit=5&cursor={event['id']}"))["data"] == []


async def prove(world: World, path: str) -> None:
    """Prove an event, and a transaction, that are in the log for certain."""
    bundle = (await world.client.get("/v1/log/tile/entries/001")).content
    first = json.loads(bundle[2 : 2 + int.from_bytes(bundle[:2], "big")])
    assert first["type"] == "transaction.created"
    id = first["id"] if "events" in path else first["data"]["object"]["id"]
    answer = await world.client.get(path.replace("<id>", id))
    assert answer.status_code == 200, answer.text


async def read_tiles(world: World) -> None:
    for tile in ("0/000", "0/001.p/3", "1/000.p/2", "entries/000.p/3"):
        assert (await world.client.get(f"/v1/log/tile/{tile}")).status_code == 200
    assert (await world.client.get("/v1/log/tile/1/000")).status_code == 404


async def oauth_code(world: World, email: str) -> dict[str, str]:
    """Return a code that a user has granted an app, as the token endpoint takes it."""
    verifier = "v" * 43
    digest = hashlib.sha256(verifier.encode()).digest()
    challenge = base64.urlsafe_b64encode(digest).decode().rstrip("=")
    id, code, uri = await user(world, email), api_keys.new_secret("ac"), "https://app.example/back"

    def allow(unit: Unit) -> str:
        hashed = "a hash"
        passwords.set_password(unit, world.tenant, f"{email}@example.org", hashed)
        assert sign_ins.begin(unit, id, hashed, email, None)
        app = apps.create(unit, world.tenant, apps.NewApp("App", [uri]))
        authorization.decide(
            unit, AuthorizationRequest(app, uri, ["read:projects"], "s", challenge), email, code
        )
        return app.id

    app = await world.engine.write(allow)
    return {"code": code, "code_verifier": verifier, "client_id": app, "redirect_uri": uri}


async def exchange_code(world: World) -> dict[str, Any]:
    """Exchange a code and then a refresh token, and use each a second time."""
    code = await oauth_code(world, "oauth")
    pair = await world.send("POST", "/oauth/token", code)
    bearer = {"Authorization": f"Bearer {pair['access_token']}"}
    assert (await world.client.get("/v1/accounts", headers=bearer)).status_code == 200
    spent = {"grant_type": "refresh_token", "refresh_token": pair["refresh_token"]}
    await world.send("POST", "/oauth/token", spent)
    for again in (spent, code):
        assert (await world.client.post("/oauth/token", json=again)).status_code == 400
    return pair


async def revoke_token(world: World) -> None:
    pair = await world.send("POST", "/oauth/token", await oauth_code(world, "revoke"))
    for kind in ("refresh_token", "access_token"):
        await world.send("POST", "/oauth/revoke", {"token": pair[kind]})


EXERCISES: dict[str, Callable[[World], Awaitable[Any]]] = {
    "POST /v1/accounts": create_account,
    "POST /v1/transactions": post_transaction,
    "POST /v1/transactions/batch": post_batch,
    "POST /v1/transactions/<id>/reverse": reverse_transaction,
    "POST /v1/invoices": draft,
    "PATCH /v1/invoices/<id>": change_invoice,
    "DELETE /v1/invoices/<id>": void_invoice,
    "POST /v1/invoices/<id>/finalize": opened,
    "POST /v1/invoices/<id>/pay": pay_invoice,
    "POST /api/users": create_user,
    "DELETE /api/users/<id>": deactivate_user,
    "POST /api/users/<id>/restore": restore_user,
    "POST /api/orders": partial(order, email="order"),
    "POST /api/orders/<id>/pay": ship_order,
    "POST /api/orders/<id>/ship": partial(order, email="pay"),
    "POST /v1/auth/token": issue_token,
    "POST /v1/api_keys": api_key,
    "GET /v1/api_keys/<id>": lambda world: _on_new(world, "GET", "/v1/api_keys/{}", api_key),
    "DELETE /v1/api_keys/<id>": lambda world: _on_new(world, "DELETE", "/v1/api_keys/{}", api_key),
    "POST /v1/api_keys/<id>/roll": lambda world: _on_new(world, "POST", "/v1/api_keys/{}/roll", api_key),
    "POST /v1/projects": project,
    "PATCH /v1/projects/<id>": lambda world: _on_new(world, "PATCH", "/v1/projects/{}", project, name="B"),
    "DELETE /v1/projects/<id>": lambda world: _on_new(world, "DELETE", "/v1/projects/{}", project),
    "POST /v1/webhook_endpoints": endpoint,
    "DELETE /v1/webhook_endpoints/<id>": lambda world: _on_new(
        world, "DELETE", "/v1/webhook_endpoints/{}", endpoint
    ),
    "POST /v1/webhook_endpoints/<id>/restore": restore_endpoint,
    "POST /v1/webhook_endpoints/<id>/roll_secret": lambda world: _on_new(
        world, "POST", "/v1/webhook_endpoints/{}/roll_secret", endpoint
    ),
    "POST /v1/webhook_endpoints/<id>/disable": enable_endpoint,
    "POST /v1/webhook_endpoints/<id>/enable": enable_endpoint,
    "POST /v1/events/<id>/resend": resend_event,
    "POST /v1/events/resend": resend_failed,
    "GET /v1/events": list_events,
    "GET /v1/events/stream": follow_events,
    "GET /v1/diff": lambda world: world.send("GET", "/v1/diff?from=2020-01-01&to=2020-01-02"),
    "GET /v1/requests/<id>/events": list_request_events,
    "POST /oauth/token": exchange_code,
    "POST /oauth/revoke": revoke_token,
    "GET /v1/log/tile/<path:tile>": read_tiles,
    "GET /v1/events/<id>/proof": partial(prove, path="/v1/events/<id>/proof"),
    "GET /v1/transactions/<id>/proof": partial(prove, path="/v1/transactions/<id>/proof"),
    "PATCH /v1/billing": lambda world: world.send("PATCH", "/v1/billing", {"plan": "enterprise"}),
}


async def _on_new(
    world: World, method: str, path: str, make: Callable[[World], Awaitable[str]], **body: str
) -> None:
    await world.send(method, path.format(await make(world)), body or None)


async def exercise(world: World, name: str) -> None:
    """Use the operation in every way that leads to other statements."""
    if name in EXERCISES:
        await EXERCISES[name](world)
    else:
        await read(world, OPERATIONS[name])
