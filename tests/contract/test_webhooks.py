"""docs/interface.md#events, #auth-webhook-signature; docs/decisions.md#webhooks and #request-log: from
outside, over sockets."""

from __future__ import annotations

import asyncio
import base64
import hmac
import json
import ssl
import time
from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from ledger_client.webhooks import is_signed, sign
from ledger_engine.core.settings import Location
from tests.contract.conftest import (
    Cli,
    MakeClient,
    Project,
    Server,
    ledger_engine,
    start_server,
    stop_server,
)
from tests.contract.rules import holds
from tests.ledger_engine.waiting import looked_until
from tests.locations import place_of_its_own
from tests.receivers import Received, Receiver, answering, receiving

TILL = {"name": "Till", "currency": "EUR"}
ENDPOINTS = "/v1/webhook_endpoints"
TRACEPARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@pytest.fixture(scope="module")
def quick(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Yield a server that retries soon."""
    database = place_of_its_own(kind, tmp_path_factory.mktemp("webhooks"), "webhooks")
    running = start_server(database, "--webhook-retries", "0.1,0.1")
    yield running
    stop_server(running)


@pytest.fixture
async def client(quick: Server) -> AsyncIterator[httpx.AsyncClient]:
    """Yield a client with a key of a new project of its own."""
    limits = ("--plan", "enterprise", "--rate-limit", "1000000", "--burst", "1000000")
    project = ledger_engine("projects", "create", "Webhooks", *limits, database=quick.database)["id"]
    key = ledger_engine("keys", "create", "--project", project, "--mode", "test", database=quick.database)[
        "key"
    ]
    async with httpx.AsyncClient(base_url=quick.url, headers={"Authorization": f"Bearer {key}"}) as client:
        yield client


async def register(client: httpx.AsyncClient, receiver: Receiver, *kinds: str) -> dict[str, Any]:
    answer = await client.post(ENDPOINTS, json={"url": receiver.url, "events": list(kinds) or ["*"]})
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json()
    return made


async def get(client: httpx.AsyncClient, path: str, /, **params: str) -> Any:
    """Return the content of a successful answer."""
    answer = await client.get(path, params=params)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def deliveries(client: httpx.AsyncClient, endpoint: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await get(client, f"{ENDPOINTS}/{endpoint}/deliveries"))["data"]
    return found


def settled(found: list[dict[str, Any]]) -> bool:
    return bool(found) and all(delivery["status"] != "pending" for delivery in found)


@holds("service-webhooks", "auth-webhook-signature", "webhooks-delivery")
async def test_a_delivery_is_the_event_signed_over_its_raw_body(client: httpx.AsyncClient) -> None:
    async with receiving() as receiver:
        secret = (await register(client, receiver))["secret"]
        account = (await client.post("/v1/accounts", json=TILL | {"name": "Kaffeerösterei ☕"})).json()
        await receiver.until_received(1)
        (request,) = receiver.received
    assert request.method == "POST"
    assert is_signed(request.body, request.headers["ledger-signature"], secret)
    assert request.headers["ledger-signature"] == sign(request.body, secret)
    message = json.loads(request.body)
    assert message["data"]["object"] == account
    assert (message["type"], message["livemode"], message["object"]) == ("account.created", False, "event")
    assert request.headers["ledger-event-id"] == message["id"]
    assert request.headers["ledger-event-type"] == "account.created"
    assert request.headers["ledger-attempt"] == "1"


@holds("webhooks-traceparent")
async def test_the_traceparent_of_a_request_is_logged_and_sent_with_the_webhooks_of_its_events(
    client: httpx.AsyncClient,
) -> None:
    """With the first attempt, its retries and a resend, which is a request with a traceparent of its own."""
    traced = {"traceparent": TRACEPARENT}
    async with receiving(answering(500)) as receiver:
        endpoint = (await register(client, receiver))["id"]
        made = await client.post("/v1/accounts", json=TILL, headers=traced)
        await looked_until(lambda: deliveries(client, endpoint), settled)
        receiver.behave = answering()
        (event,) = (await get(client, "/v1/events"))["data"]
        of_its_own = {"traceparent": TRACEPARENT.replace("4", "5")}
        await client.post(f"/v1/events/{event['id']}/resend", headers=of_its_own)
        (delivery,) = await looked_until(lambda: deliveries(client, endpoint), settled)
    assert [request.attempt for request in receiver.received] == [1, 2, 3, 4]
    assert [request.headers["traceparent"] for request in receiver.received] == [TRACEPARENT] * 4
    assert delivery["attempts"][0]["request"]["headers"]["traceparent"] == TRACEPARENT

    async def entry() -> httpx.Response:
        return await client.get(f"/v1/requests/{made.headers['Request-Id']}")

    logged = await looked_until(entry, lambda answer: answer.status_code == 200)
    assert logged.json()["traceparent"] == TRACEPARENT


@holds("webhooks-traceparent")
@pytest.mark.parametrize(
    "headers",
    [
        [],
        [("traceparent", TRACEPARENT.upper())],
        [("traceparent", TRACEPARENT), ("traceparent", TRACEPARENT)],
    ],
    ids=["none", "invalid", "two"],
)
async def test_a_request_without_a_valid_traceparent_is_served_and_its_webhooks_have_none(
    client: httpx.AsyncClient, headers: list[tuple[str, str]]
) -> None:
    async with receiving() as receiver:
        await register(client, receiver)
        made = await client.post("/v1/accounts", json=TILL, headers=headers)
        assert made.status_code == 201
        await receiver.until_received(1)
    assert "traceparent" not in receiver.received[0].headers


@holds("webhooks-standard", "webhooks-roll")
async def test_a_delivery_has_the_headers_of_standard_webhooks_and_after_a_roll_both_secrets_sign(
    client: httpx.AsyncClient,
) -> None:
    def standard(secret: str, request: Received) -> str:
        key = base64.b64decode(secret.removeprefix("whsec_"))
        head = f"{request.headers['webhook-id']}.{request.headers['webhook-timestamp']}."
        signature = hmac.digest(key, head.encode() + request.body, "sha256")
        return f"v1,{base64.b64encode(signature).decode()}"

    async with receiving() as receiver:
        endpoint = await register(client, receiver)
        await client.post("/v1/accounts", json=TILL)
        await receiver.until_received(1)
        rolled = (await client.post(f"{ENDPOINTS}/{endpoint['id']}/roll_secret")).json()["secret"]
        await client.post("/v1/accounts", json=TILL)
        await receiver.until_received(2)
        before, after = receiver.received
    assert before.headers["webhook-id"] == json.loads(before.body)["id"]
    assert abs(int(before.headers["webhook-timestamp"]) - time.time()) < 120
    assert before.headers["webhook-signature"] == standard(endpoint["secret"], before)
    assert "ledger-signature-previous" not in before.headers
    both = f"{standard(rolled, after)} {standard(endpoint['secret'], after)}"
    assert after.headers["webhook-signature"] == both
    assert is_signed(after.body, after.headers["ledger-signature"], rolled)
    assert is_signed(after.body, after.headers["ledger-signature-previous"], endpoint["secret"])


@holds("events-webhooks", "webhooks-delivery")
async def test_an_https_endpoint_receives_events_as_they_happen(
    location: Location, certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(*certificate)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
    server = start_server(location)
    try:
        key = ledger_engine("keys", "create", "--mode", "test", database=server.database)["key"]
        async with receiving(tls=tls) as receiver:
            headers = {"Authorization": f"Bearer {key}"}
            async with httpx.AsyncClient(base_url=server.url, headers=headers) as client:
                url = f"https://localhost:{receiver.port}/hook"
                secret = (await client.post(ENDPOINTS, json={"url": url})).json()["secret"]
                await client.post("/v1/accounts", json=TILL)
                await receiver.until_received(1)
            (request,) = receiver.received
            assert is_signed(request.body, request.headers["ledger-signature"], secret)
    finally:
        stop_server(server)


@holds("quotas-webhooks")
@pytest.mark.parametrize(("plan", "most"), [("free", 5), ("pro", 50)])
async def test_so_many_endpoints_and_not_one_more(quick: Server, plan: str, most: int) -> None:
    project = ledger_engine("projects", "create", "Stall", "--plan", plan, database=quick.database)["id"]
    keys = ("keys", "create", "--project", project, "--mode", "test")
    headers = {"Authorization": f"Bearer {ledger_engine(*keys, database=quick.database)['key']}"}
    statuses: list[int] = []
    async with httpx.AsyncClient(base_url=quick.url, headers=headers) as client:
        while len(statuses) <= most:
            answer = await client.post(ENDPOINTS, json={"url": "http://127.0.0.1:9/"})
            if answer.status_code == 429:
                await asyncio.sleep(int(answer.headers["Retry-After"]))
            else:
                statuses.append(answer.status_code)
        assert answer.json()["error"]["code"] == "quota_exceeded"
    assert statuses == [201] * most + [403]


@holds("webhooks-endpoints")
def test_an_endpoint_is_made_shown_rolled_disabled_and_deleted(project: Project) -> None:
    api = project.api
    made = api.post(ENDPOINTS, json={"url": "http://127.0.0.1:9/", "events": ["invoice.paid"]})
    assert made.status_code == 201
    endpoint = made.json()
    secret = endpoint.pop("secret")
    assert secret.startswith("whsec_")
    assert endpoint == {
        "id": endpoint["id"],
        "object": "webhook_endpoint",
        "url": "http://127.0.0.1:9/",
        "events": ["invoice.paid"],
        "status": "enabled",
        "disabled_reason": None,
        "disabled_at": None,
        "created": endpoint["created"],
        "livemode": False,
    }
    path = f"{ENDPOINTS}/{endpoint['id']}"
    assert api.get(path).json() == endpoint
    assert api.get(ENDPOINTS).json() == {"data": [endpoint], "has_more": False, "next_cursor": None}
    rolled = api.post(f"{path}/roll_secret").json()
    assert rolled["secret"].startswith("whsec_")
    assert rolled["secret"] != secret
    disabled = api.post(f"{path}/disable").json()
    assert (disabled["status"], disabled["disabled_reason"]) == ("disabled", "asked")
    assert api.post(f"{path}/enable").json() == endpoint
    assert api.get(f"{path}/deliveries").json() == {"data": [], "has_more": False, "next_cursor": None}
    for query in ({"cursor": "dlv_none"}, {"limit": 101}):
        assert api.get(f"{path}/deliveries", params=query).status_code == 400
    assert api.delete(path).json()["id"] == endpoint["id"]
    assert api.get(path).status_code == api.delete(path).status_code == 404
    answer = api.post(f"{path}/restore")
    restored = answer.json()
    assert restored.pop("secret") not in (secret, rolled["secret"])
    assert restored == api.get(path).json() == endpoint
    assert answer.headers["Cache-Control"] == "no-store"
    again = api.post(f"{path}/restore")
    assert (again.status_code, again.json()["error"]["code"]) == (409, "not_recoverable")


@holds("webhooks-urls")
@pytest.mark.parametrize(
    ("url", "in_test", "in_live"),
    [
        ("https://hooks.example/", 201, 201),
        ("https://93.184.216.34/", 201, 201),
        ("http://127.0.0.1:9/", 201, 400),
        ("https://127.0.0.1:9/", 201, 400),
        ("http://93.184.216.34/", 400, 400),
        ("https://10.0.0.1/", 400, 400),
        ("https://169.254.169.254/", 400, 400),
        ("http://2130706433/", 400, 400),
        ("http://0x7f.1/", 400, 400),
        ("https://localhost/", 201, 400),
        ("http://example.com/", 400, 400),
        ("https://[::ffff:127.0.0.1]/", 400, 400),
        ("https://[64:ff9b::7f00:1]/", 400, 400),
        ("https://[2002:7f00:1::]/", 400, 400),
        ("ftp://hooks.example/", 400, 400),
    ],
)
def test_where_a_mode_may_send(
    project: Project, make_client: MakeClient, cli: Cli, url: str, in_test: int, in_live: int
) -> None:
    key = cli("keys", "create", "--project", project.id, "--mode", "live")["key"]
    for client, status in ((project.api, in_test), (make_client(key), in_live)):
        answer = client.post(ENDPOINTS, json={"url": url})
        assert answer.status_code == status, answer.text
        if status == 400:
            assert answer.json()["error"]["param"] == "url"


@holds("webhooks-retries")
async def test_a_failed_delivery_is_tried_again_and_every_attempt_is_shown(client: httpx.AsyncClient) -> None:
    async with receiving(answering(500, b"no beans")) as receiver:
        endpoint = (await register(client, receiver))["id"]
        await client.post("/v1/accounts", json=TILL)
        (delivery,) = await looked_until(lambda: deliveries(client, endpoint), settled)
        assert [request.attempt for request in receiver.received] == [1, 2, 3]
    assert (delivery["status"], delivery["next_attempt_at"]) == ("failed", None)
    assert [attempt["number"] for attempt in delivery["attempts"]] == [1, 2, 3]
    for attempt, request in zip(delivery["attempts"], receiver.received, strict=True):
        assert (attempt["status"], attempt["error"]) == (500, "answered 500")
        assert attempt["latency_ms"] >= 0
        assert attempt["request"]["body"] == request.body.decode()
        assert attempt["request"]["headers"]["Ledger-Signature"] == request.headers["ledger-signature"]
        assert attempt["response"]["body"] == "no beans"


@holds("webhooks-retries")
async def test_a_redirect_is_a_failure_and_410_disables(client: httpx.AsyncClient) -> None:
    async with (
        receiving() as elsewhere,
        receiving(answering(302, b"", f"Location: {elsewhere.url}")) as moved,
        receiving(answering(410)) as gone,
    ):
        one, two = [(await register(client, each))["id"] for each in (moved, gone)]
        await client.post("/v1/accounts", json=TILL)
        (redirected,) = await looked_until(lambda: deliveries(client, one), settled)
        await looked_until(lambda: deliveries(client, two), settled)
        assert elsewhere.received == []
        assert len(gone.received) == 1
    assert redirected["status"] == "failed"
    assert {attempt["status"] for attempt in redirected["attempts"]} == {302}
    endpoint = await get(client, f"{ENDPOINTS}/{two}")
    assert (endpoint["status"], endpoint["disabled_reason"]) == ("disabled", "gone")


@holds("events-list")
async def test_events_are_listed_and_sent_again(client: httpx.AsyncClient) -> None:
    async with receiving() as receiver:
        endpoint = (await register(client, receiver))["id"]
        await client.post("/v1/accounts", json=TILL)
        await looked_until(lambda: deliveries(client, endpoint), settled)
        (event,) = (await get(client, "/v1/events"))["data"]
        assert await get(client, f"/v1/events/{event['id']}") == event
        answer = await client.post(f"/v1/events/{event['id']}/resend")
        assert [delivery["status"] for delivery in answer.json()["data"]] == ["pending"]
        await receiver.until_received(2)
        receiver.behave = answering(500)
        await client.post("/v1/accounts", json=TILL)
        await looked_until(lambda: deliveries(client, endpoint), lambda found: found[0]["status"] == "failed")
        receiver.behave = answering()
        for since, count in (("9999-01-01", 0), ("2026-01-01", 1)):
            answer = await client.post("/v1/events/resend", json={"since": since})
            assert (answer.status_code, answer.json()) == (200, {"deliveries": count, "skipped": []})
        found = await looked_until(lambda: deliveries(client, endpoint), settled)
        assert {delivery["status"] for delivery in found} == {"succeeded"}


@holds("webhooks-resend")
async def test_a_resend_in_the_last_attempt_is_sent_after_it(client: httpx.AsyncClient) -> None:
    may_answer = asyncio.Event()

    async def fail_late(request: Received, writer: asyncio.StreamWriter) -> None:
        if request.attempt == 3:
            await may_answer.wait()
        await answering(500 if request.attempt < 4 else 200)(request, writer)

    async with receiving(fail_late) as receiver:
        endpoint = (await register(client, receiver))["id"]
        await client.post("/v1/accounts", json=TILL)
        await receiver.until_received(3)
        (event,) = (await get(client, "/v1/events"))["data"]
        answer = (await client.post(f"/v1/events/{event['id']}/resend")).json()
        assert ([delivery["status"] for delivery in answer["data"]], answer["skipped"]) == (["pending"], [])
        may_answer.set()
        (delivery,) = await looked_until(lambda: deliveries(client, endpoint), settled)
    assert [attempt["status"] for attempt in delivery["attempts"]] == [500, 500, 500, 200]
    await client.post(f"{ENDPOINTS}/{endpoint}/disable")
    answer = await client.post(f"/v1/events/{event['id']}/resend")
    assert answer.json() == {"data": [], "skipped": [{"endpoint": endpoint, "reason": "disabled"}]}


async def messages(lines: AsyncIterator[str], count: int) -> list[dict[str, str]]:
    """Return the next server-sent events."""
    found: list[dict[str, str]] = [{}]
    async for line in lines:
        if line:
            name, _, value = line.partition(": ")
            found[-1][name] = value
        elif len(found) == count:
            return found
        else:
            found.append({})
    return found


@holds("events-stream")
async def test_a_listener_follows_the_events_and_resumes(client: httpx.AsyncClient) -> None:
    async with client.stream("GET", "/v1/events/stream") as response:
        assert response.headers["Content-Type"] == "text/event-stream"
        assert response.headers["Cache-Control"] == "no-store"
        assert response.headers["Request-Id"].startswith("req_")
        lines = response.aiter_lines()
        (session,) = await messages(lines, 1)
        await client.post("/v1/accounts", json=TILL)
        (heard,) = await messages(lines, 1)
    assert (session["event"], heard["event"]) == ("session", "event")
    data = json.loads(heard["data"])
    assert is_signed(data["body"].encode(), data["signature"], json.loads(session["data"])["secret"])
    assert json.loads(data["body"])["id"] == heard["id"]
    await client.post("/v1/accounts", json=TILL)
    last = {"Last-Event-ID": heard["id"]}
    async with client.stream("GET", "/v1/events/stream", headers=last) as response:
        _, missed = await messages(response.aiter_lines(), 2)
    assert json.loads(json.loads(missed["data"])["body"])["type"] == "account.created"
    assert missed["id"] > heard["id"]


@holds("request-log-entries", "request-log-filters")
async def test_requests_are_logged_with_what_they_caused(client: httpx.AsyncClient) -> None:
    answer = await client.post("/v1/accounts", json=TILL, headers={"Idempotency-Key": "once"})
    await client.post("/v1/accounts", json={"name": "Till"})

    async def entries(**filters: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = (await get(client, "/v1/requests", **filters))["data"]
        return found

    at_accounts = partial(entries, path="/v1/accounts")
    refused, made = await looked_until(at_accounts, lambda found: len(found) == 2)
    assert (made["id"], made["status"]) == (answer.headers["Request-Id"], 201)
    assert made["idempotency_key"] == "once"
    assert (refused["status"], refused["error_code"]) == (400, "missing_field")
    assert json.loads(made["request_body"]) == TILL
    assert json.loads(made["response_body"]) == answer.json()
    key = client.headers["Authorization"].removeprefix("Bearer ")
    assert made["credential"].startswith("sk_test_")
    assert made["credential"].endswith(key[-4:])
    assert key not in str(made)
    assert refused in await entries(status="400")
    assert refused in await entries(method="POST")
    assert await entries(method="DELETE") == []
    (event,) = (await get(client, "/v1/events"))["data"]
    assert event["request"] == made["id"]
    assert await get(client, f"/v1/requests/{made['id']}") == made | {"events": [event["id"]]}


@holds("request-log-entries")
async def test_in_live_mode_no_bodies_are_logged(quick: Server) -> None:
    key = ledger_engine("keys", "create", "--mode", "live", database=quick.database)["key"]
    headers = {"Authorization": f"Bearer {key}"}
    async with httpx.AsyncClient(base_url=quick.url, headers=headers) as live:
        await live.post("/v1/accounts", json=TILL)

        async def entries() -> list[dict[str, Any]]:
            found: list[dict[str, Any]] = (await get(live, "/v1/requests"))["data"]
            return found

        (entry,) = await looked_until(entries, lambda found: len(found) == 1)
    assert (entry["livemode"], entry["request_body"], entry["response_body"]) == (True, None, None)


@holds("events-stream")
async def test_a_server_that_stops_ends_its_streams_at_once(location: Location) -> None:
    server = start_server(location)
    key = ledger_engine("keys", "create", "--mode", "test", database=server.database)["key"]
    headers = {"Authorization": f"Bearer {key}"}
    async with (
        httpx.AsyncClient(base_url=server.url, headers=headers, timeout=60) as client,
        client.stream("GET", "/v1/events/stream") as response,
    ):
        lines = response.aiter_lines()
        await messages(lines, 1)
        server.process.terminate()
        # A stream that is broken off, when the server has waited for it long enough, raises here.
        assert [line async for line in lines if line] == []
    assert await asyncio.to_thread(server.process.wait, 30) == 0
    assert server.process.stdout is not None
    server.process.stdout.close()
