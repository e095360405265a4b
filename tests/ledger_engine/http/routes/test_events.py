"""Routes of webhook endpoints and of events."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any

import httpx
import pytest
from quart import Quart

from ledger_engine.access import api_keys
from ledger_engine.core.settings import Location
from ledger_engine.core.tenant import Tenant
from ledger_engine.events import following, outbox
from ledger_engine.events.following import Followers
from ledger_engine.events.webhooks import deliveries, endpoints
from ledger_engine.http.routes import events as routes
from ledger_engine.ledger import accounts, users
from ledger_engine.store import pages
from ledger_engine.store.engine import Engine, open_engine
from tests.contract.conftest import refusal
from tests.contract.rules import holds
from tests.ledger_engine.conftest import MakeKey, Run
from tests.ledger_engine.events.webhooks.test_attempts import begin
from tests.ledger_engine.http.served import served
from tests.ledger_engine.waiting import looked_until, until

TILL = accounts.NewAccount("Till ☕", "EUR", {"note": "one\r\ntwo\u2028three"})


@pytest.fixture
def happen(engine: Engine, tenant: Tenant) -> Run:
    """Return a function that creates so many accounts and returns the ids of their events."""

    async def create(count: int = 1, *, by: Tenant = tenant, at: Engine = engine) -> list[str]:
        before = await at.read(partial(outbox.resume, tenant=by, last=None))
        for _ in range(count):
            await at.write(partial(accounts.create, tenant=by, new=TILL))
        found, _ = await at.read(lambda unit: outbox.after(unit, by, before, count))
        return [message.id for message in found]

    return create


# The list


async def test_events_are_listed_newest_first_as_they_are_sent(
    api: httpx.AsyncClient, engine: Engine, tenant: Tenant, till: str, happen: Run
) -> None:
    await happen(2)
    answer = (await api.get("/v1/events")).json()
    messages, _ = await engine.read(lambda unit: outbox.after(unit, tenant, "", 10))
    requests = [event.pop("request") for event in answer["data"]]
    assert answer["data"] == [json.loads(message.body) for message in reversed(messages)]
    assert requests[:2] == [None, None], "a command's events have no request"
    assert requests[2].startswith("req_")
    assert (answer["has_more"], answer["next_cursor"]) == (False, None)
    first = (await api.get("/v1/events", params={"limit": "2"})).json()
    rest = (await api.get("/v1/events", params={"limit": "2", "cursor": first["next_cursor"]})).json()
    listed = [event["id"] for event in answer["data"]]
    assert [[event["id"] for event in page["data"]] for page in (first, rest)] == [listed[:2], listed[2:]]


@pytest.mark.parametrize(
    ("cursor", "kinds", "expected"),
    [("cursor", "aauuuuuuuuaa", [2, 0, 2]), ("ending_before", "aauuuuuuuuaaa", [1, 0, 3])],
)
async def test_a_page_without_events_of_users_looks_at_so_many_and_then_goes_on(
    api: httpx.AsyncClient,
    api_with: Run,
    monkeypatch: pytest.MonkeyPatch,
    cursor: str,
    kinds: str,
    expected: list[int],
) -> None:
    monkeypatch.setattr(pages, "LOOKED_AT_MAX", 4)
    for number, kind in enumerate(kinds):
        if kind == "a":
            await api.post("/v1/accounts", json={"name": "Till", "currency": "EUR"})
        else:
            await api.post("/api/users", json={"name": "Ada", "email": f"ada{number}@example.com"})
    oldest = (await api.get("/v1/events")).json()["data"][-1]["id"]
    reader = await api_with(scopes=["read:projects"])
    query = {"limit": "3"} | ({cursor: oldest} if cursor == "ending_before" else {})
    counts: list[int] = []
    while True:
        page = (await reader.get("/v1/events", params=query)).json()
        counts.append(len(page["data"]))
        if not page["has_more"]:
            break
        query[cursor] = page["next_cursor"]
    assert counts == expected


@holds("events-links")
async def test_the_deliveries_of_one_event_are_listed(
    api: httpx.AsyncClient, happen: Run, write: Run
) -> None:
    (event,) = await happen()
    for number in range(2):
        new = endpoints.NewEndpoint(f"https://hooks.example/{number}", ["*"])
        await write(endpoints.create, new=new, secret="whsec_x", sealed_secret="whsec_x")
    assert (await api.get(f"/v1/events/{event}/deliveries")).json() == {"data": []}
    sent = (await api.post(f"/v1/events/{event}/resend")).json()["data"]
    assert len(sent) == 2
    assert (await api.get(f"/v1/events/{event}/deliveries")).json() == {"data": sent}
    endpoint = {"endpoint": sent[0]["endpoint"]}
    assert (await api.post(f"/v1/events/{event}/resend", params=endpoint)).json() == {
        "data": sent[:1],
        "skipped": [],
    }
    assert (await api.get("/v1/events/evt_none/deliveries")).status_code == 404
    refused = await api.post("/v1/events/resend", json={"since": "yesterday"})
    assert refusal(refused) == (400, "invalid_value", "since")


async def test_events_of_users_are_for_those_who_may_read_users(
    api: httpx.AsyncClient, api_with: Run
) -> None:
    user = await api.post("/api/users", json={"name": "Ada", "email": "ada@example.com"})
    (event,) = (await api.get("/v1/events")).json()["data"]
    assert event["data"]["object"]["id"] == user.json()["id"]
    for scopes, shown in ((["read:projects"], False), (["read:projects", "read:users"], True)):
        client = await api_with(scopes=scopes)
        listed = (await client.get("/v1/events")).json()["data"]
        assert [each["id"] for each in listed] == ([event["id"]] if shown else [])
        about = await client.get("/v1/events", params={"object": user.json()["id"]})
        assert about.json()["data"] == listed
        for path in (f"/v1/events/{event['id']}", f"/v1/events/{event['id']}/deliveries"):
            assert (await client.get(path)).status_code == (200 if shown else 403)


# The stream


@pytest.fixture
async def port(app: Quart, engine: Engine) -> AsyncIterator[int]:
    """Return the port of the application's server, whose streams end when it stops."""
    async with served(app) as port:
        yield port
        Followers.of(engine).end()


class Stream:
    """The messages of one listener."""

    def __init__(self, response: httpx.Response) -> None:
        self.response = response
        self._lines = response.aiter_lines()
        self.first: dict[str, str] = {}
        self.comments = 0

    async def next(self) -> dict[str, str]:
        """Return the fields of the next message; empty when the stream has ended."""
        fields: dict[str, str] = {}
        async with asyncio.timeout(60):
            async for line in self._lines:
                if line.startswith(":"):
                    self.comments += 1
                elif line:
                    name, _, value = line.partition(": ")
                    fields[name] = value
                elif fields:
                    return fields
        return fields

    async def events(self, count: int) -> list[str]:
        return [(await self.next())["id"] for _ in range(count)]


Listening = Callable[..., AbstractAsyncContextManager[Stream]]


@pytest.fixture
async def client(port: int, make_key: MakeKey) -> AsyncIterator[httpx.AsyncClient]:
    """Return a client of the served application, with an admin's key."""
    headers = {"Authorization": f"Bearer {await make_key()}"}
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=60) as client:
        yield client


@pytest.fixture
def listening(client: httpx.AsyncClient) -> Listening:
    """Return a function that connects a listener, which has received its first message."""

    @asynccontextmanager
    async def connect(last: str | None = None, key: str | None = None) -> AsyncIterator[Stream]:
        headers = {} if last is None else {"Last-Event-ID": last}
        if key is not None:
            headers["Authorization"] = f"Bearer {key}"
        async with client.stream("GET", "/v1/events/stream", headers=headers) as response:
            assert response.status_code == 200
            stream = Stream(response)
            stream.first = await stream.next()
            yield stream

    return connect


async def test_each_session_has_a_secret_of_its_own(listening: Listening) -> None:
    async with listening() as one, listening() as other:
        assert json.loads(one.first["data"])["secret"] != json.loads(other.first["data"])["secret"]


async def test_a_listener_receives_what_happens_from_then_on_in_order_and_nothing_of_others(
    listening: Listening, happen: Run, stranger: Tenant
) -> None:
    await happen(3)
    async with listening() as stream:
        await happen(5, by=stranger)
        happened = await happen(100)
        assert await stream.events(100) == happened


async def test_a_listener_goes_on_at_once_behind_many_events_of_users_that_it_may_not_see(
    listening: Listening, happen: Run, write: Run, make_key: MakeKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "LOOKED_AT_MAX", 2)
    monkeypatch.setattr(following, "POLL_INTERVAL_S", 1000)
    (first,) = await happen()
    for number in range(7):
        await write(users.create, users.NewUser("Ada", f"ada{number}@example.com"))
    happened = await happen(3)
    async with listening(first, await make_key(scopes=["read:projects"])) as stream:
        assert await stream.events(3) == happened


@pytest.mark.parametrize("before", [0, 2])
async def test_a_listener_that_had_nothing_yet_goes_on_from_where_it_began(
    listening: Listening, happen: Run, before: int
) -> None:
    await happen(before)
    async with listening() as stopped:
        pass
    happened = await happen(2)
    async with listening(stopped.first["id"]) as stream:
        assert await stream.events(2) == happened


async def test_an_id_that_is_no_event_of_theirs_is_a_400(
    api: httpx.AsyncClient, happen: Run, stranger: Tenant
) -> None:
    (other,) = await happen(by=stranger)
    for last in (other, "evt_none", "", "acc_1"):
        answer = await api.get("/v1/events/stream", headers={"Last-Event-ID": last})
        assert refusal(answer) == (400, "invalid_cursor", "Last-Event-ID")


async def test_another_processs_events_are_received(
    listening: Listening, engine: Engine, happen: Run, location: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "POLL_INTERVAL_S", 0.02)
    beside = open_engine(location, clock=engine.clock)
    async with listening() as stream:
        assert await happen(3, at=beside) == await stream.events(3)
    await beside.close()


async def test_a_silent_stream_is_kept_alive(
    listening: Listening, happen: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "POLL_INTERVAL_S", 0.01)
    monkeypatch.setattr(routes, "KEEP_ALIVE_S", 0.03)
    async with listening() as stream:
        reading = asyncio.ensure_future(stream.next())
        await until(lambda: stream.comments)
        await happen()
        assert (await reading)["event"] == "event"


async def test_a_revoked_key_receives_nothing_more(
    listening: Listening, engine: Engine, tenant: Tenant, write: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "POLL_INTERVAL_S", 0.01)
    monkeypatch.setattr(routes, "CHECKED_EVERY_S", 0.02)
    async with listening() as stream:
        (key,) = await engine.read(lambda unit: api_keys.every(unit, tenant.project))
        await write(api_keys.revoke, key.id)
        assert await stream.next() == {}


@pytest.mark.parametrize("limit", ["FOLLOWERS_MAX", "FOLLOWERS_OF_ONE_MAX"])
async def test_more_listeners_than_there_is_room_for_are_refused(
    listening: Listening,
    client: httpx.AsyncClient,
    engine: Engine,
    monkeypatch: pytest.MonkeyPatch,
    limit: str,
) -> None:
    monkeypatch.setattr(following, limit, 2)
    async with listening(), listening():
        answer = await client.get("/v1/events/stream")
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "quota_exceeded")

    async def count() -> int:
        return Followers.of(engine).count

    await looked_until(count, lambda left: left == 0)  # that they went away is noticed
    async with listening():
        pass


async def test_of_listeners_that_come_together_no_more_are_let_in_than_there_is_room_for(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "FOLLOWERS_OF_ONE_MAX", 2)
    async with AsyncExitStack() as stack:
        streams: list[Stream] = []  # one that nobody holds is closed

        async def ask() -> tuple[int, bool]:
            """Return the status, and whether a first message comes."""
            response = await stack.enter_async_context(client.stream("GET", "/v1/events/stream"))
            streams.append(stream := Stream(response))
            return response.status_code, response.status_code == 200 and bool(await stream.next())

        answers = Counter(await asyncio.gather(*(ask() for _ in range(20))))
        assert answers == {(200, True): 2, (403, False): 18}


async def test_a_head_request_is_not_counted_among_the_listeners(
    client: httpx.AsyncClient, engine: Engine
) -> None:
    assert (await client.head("/v1/events/stream")).status_code == 200
    assert Followers.of(engine).count == 0


@pytest.mark.slow
async def test_a_listener_that_reads_nothing_costs_little_and_harms_nobody(
    port: int, listening: Listening, write: Run, make_key: MakeKey
) -> None:
    key = await make_key()
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024)
    writer.write(f"GET /v1/events/stream HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\n\r\n".encode())
    await reader.readuntil(b"whsec_")
    large = accounts.NewAccount("x", "EUR", {f"{n}": "y" * 1000 for n in range(20)})
    async with listening() as stream:
        await asyncio.gather(*(write(accounts.create, large) for _ in range(500)))
        received = await stream.events(500)
    assert received == sorted(set(received))
    # 10 MB happened; what was not taken is in the buffers of two sockets and one write, or not read yet.
    taken = 0
    data = b""
    async with asyncio.timeout(60):
        while received[-1].encode() not in data:
            data = data[-64:] + await reader.read(1 << 16)
            taken += len(data) - 64
    assert taken > 5_000_000
    writer.close()


async def test_a_resent_event_is_received_once(
    listening: Listening, engine: Engine, tenant: Tenant, happen: Run, write: Run, clock: Any
) -> None:
    """The stream tells what happened; sending again is for endpoints."""
    await begin(engine, clock, tenant, ["*"])
    async with listening() as stream:
        (event,) = await happen()
        await write(deliveries.resend, event=event)
        (later,) = await happen()
        assert await stream.events(2) == [event, later]


async def test_events_are_followed_by_the_id_of_the_last_one(api: httpx.AsyncClient, happen: Run) -> None:
    async def newer(than: str, **more: str) -> httpx.Response:
        return await api.get("/v1/events", params={"ending_before": than, "limit": "2", **more})

    first, *happened = await happen(4)
    seen = [(await newer(than)).json() for than in (first, happened[1], happened[2])]
    assert [[event["id"] for event in page["data"]] for page in seen] == [happened[1::-1], happened[2:], []]
    more = [(page["has_more"], page["next_cursor"]) for page in seen]
    assert more == [(True, happened[1]), (False, None), (False, None)]
    refused = await newer(first, cursor=first)
    assert refusal(refused) == (400, "invalid_value", "ending_before")
    assert refused.json()["error"]["message"] == "Give cursor or ending_before, not both."


PATH = "/v1/webhook_endpoints"
URL = "http://127.0.0.1:4242/hook"


async def test_with_a_key_no_secret_is_readable_in_the_file(
    api: httpx.AsyncClient, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEDGER_SECRET_KEY", "correct horse")
    made = (await api.post(PATH, json={"url": URL})).json()
    rolled = (await api.post(f"{PATH}/{made['id']}/roll_secret")).json()
    ((_, stored),) = await engine.read(endpoints.sealed_secrets)
    assert not {made["secret"], rolled["secret"]} & {stored}
    assert rolled["secret"] not in stored


async def test_a_credential_that_may_not_read_users_is_not_sent_their_events(api_with: Run) -> None:
    others = [kind for kind in outbox.KINDS if kind not in outbox.USER_KINDS]
    for scopes, wanted, events in (
        (["write:projects"], ["order.paid"], ["order.paid"]),
        (["write:projects"], None, others),
        (["write:projects", "read:users"], ["*"], ["*"]),
    ):
        answer = await (await api_with(scopes=scopes)).post(PATH, json={"url": URL, "events": wanted})
        assert (answer.status_code, answer.json()["events"]) == (201, events)
    body = {"url": URL, "events": ["order.paid", "user.created"]}
    answer = await (await api_with(scopes=["write:projects"])).post(PATH, json=body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "missing_scope")
