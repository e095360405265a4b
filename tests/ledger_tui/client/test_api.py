import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from ledger_client.errors import AlreadyDone, AuthenticationError, InvalidRequest, NotConnected, NotFound
from ledger_tui.client import api as client_api
from ledger_tui.client.api import Api
from ledger_tui.client.errors import NotOffered
from ledger_tui.client.lists import NotAList, fetch_page
from ledger_tui.client.records import Want
from ledger_tui.client.session import ConnectionState, Mode, Session
from ledger_tui.client.traffic import Traffic
from tests.ledger_tui.contract_server import KEY, ContractServer
from tests.ledger_tui.driving import until
from tests.ledger_tui.line import Line


@pytest.fixture
def tries_again_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_api, "_BACKOFF_SECONDS", (0.01, 0.02))


@asynccontextmanager
async def client(url: str, key: str = KEY) -> AsyncIterator[tuple[Api, Session, Traffic]]:
    session, traffic = Session(), Traffic()
    api = Api(session, traffic)
    await api.open(url, key)
    try:
        yield api, session, traffic
    finally:
        await api.close()


async def test_an_answer_carries_the_record_and_the_session_learns_the_limits(server: ContractServer) -> None:
    account = server.add_account()
    async with client(server.url) as (api, session, _traffic):
        answer = await api.call("GET", f"/v1/accounts/{account['id']}")
        assert answer.record == account
        assert (session.state, session.limit, session.remaining) == (ConnectionState.ONLINE, 6000, 5999)
        assert session.mode is Mode.TEST


async def test_an_unchanged_answer_is_the_last_one_again(server: ContractServer) -> None:
    till = {"id": "acc_1", "name": "Till"}
    async with client(server.url) as (api, session, traffic):
        server.refuse(200, till, {"ETag": '"1"'})
        server.refuse(304, {}, {"ETag": '"1"', "X-RateLimit-Remaining": "7"})
        for _ in range(2):
            assert (await api.read("/v1/accounts/acc_1")).record == till
        assert [exchange.status for exchange in traffic] == [200, 304]
        assert session.remaining == 7
        assert server.conditions == [None, '"1"']


async def test_an_answer_to_the_former_credential_is_not_used_for_the_next_one(
    server: ContractServer,
) -> None:
    async with Line(server.port) as line, client(line.url) as (api, _session, _traffic):
        server.refuse(200, {"id": "acc_1", "name": "Till"}, {"ETag": '"1"'})
        line.hold.clear()
        reading = asyncio.create_task(api.call("GET", "/v1/accounts/acc_1"))
        await until(lambda: server.conditions)
        api.use("sk_test_other")
        line.hold.set()
        assert (await reading).record["name"] == "Till"
        server.refuse(200, {"id": "acc_1", "name": "Safe"}, {"ETag": '"2"'})
        assert (await api.call("GET", "/v1/accounts/acc_1")).record["name"] == "Safe"
        assert server.conditions == [None, None]


async def test_every_exchange_is_in_the_traffic_log_without_the_key(server: ContractServer) -> None:
    async with client(server.url) as (api, _session, traffic):
        await api.call("POST", "/v1/accounts", body={"name": "Till", "currency": "EUR"}, idempotency_key="k1")
        with pytest.raises(NotFound):
            await api.call("GET", "/v1/accounts/acc_none")
        created, missing = traffic
        assert (created.method, created.status, created.idempotency_key) == ("POST", 201, "k1")
        assert created.body == '{"name": "Till", "currency": "EUR"}'
        assert (missing.status, missing.duration_ms > 0) == (404, True)
        assert KEY not in repr([*traffic])


async def test_a_wrong_key_is_a_state_of_the_session(server: ContractServer) -> None:
    async with client(server.url, "sk_test_wrong") as (api, session, _traffic):
        with pytest.raises(AuthenticationError):
            await api.read("/v1/accounts")
        assert session.state is ConnectionState.REFUSED


async def test_a_rate_limit_is_waited_out_as_the_server_says(server: ContractServer) -> None:
    limited = {"error": "rate_limited", "message": "Try again in 1 seconds"}
    server.refuse(429, limited, {"Retry-After": "1", "X-RateLimit-Remaining": "0"})
    async with client(server.url) as (api, session, _traffic):
        reading = asyncio.create_task(api.read("/v1/accounts"))
        await until(lambda: session.waiting_seconds > 0)
        assert session.remaining == 0
        assert (await reading).status == 200
        assert session.waiting_seconds == 0


async def test_while_the_server_asks_to_wait_nothing_is_sent(server: ContractServer) -> None:
    async with client(server.url) as (api, session, _traffic):
        session.rate_limited(0.3)
        until_then = session.wait_until
        await api.call("GET", "/v1/accounts")
        assert session.clock() >= until_then


@pytest.mark.usefixtures("tries_again_soon")
async def test_a_reader_gets_its_answer_when_the_lost_server_is_back(server: ContractServer) -> None:
    port = server.port
    async with client(server.url) as (api, session, _traffic):
        await api.read("/v1/accounts")
        server.stop()
        reading = asyncio.create_task(api.read("/v1/accounts"))
        await until(lambda: session.state is ConnectionState.LOST and session.retries >= 2)
        assert session.sentence in ("connection refused", "connection lost")
        with ContractServer(port=port) as again:
            again.add_account()
            assert len((await reading).record["data"]) == 1
        assert (session.state, session.retries) == (ConnectionState.ONLINE, 0)


@pytest.mark.usefixtures("tries_again_soon")
async def test_however_many_readers_wait_one_probe_asks(server: ContractServer) -> None:
    async with Line(server.port) as line, client(line.url) as (api, session, traffic):
        line.swallows_answers = True
        readers = [asyncio.create_task(api.read("/v1/accounts")) for _ in range(5)]
        await until(lambda: session.retries >= 2)
        probes = [exchange for exchange in traffic if exchange.url.endswith("/api/health")]
        assert len(probes) <= session.retries
        line.swallows_answers = False
        assert [answer.status for answer in await asyncio.gather(*readers)] == [200] * 5


async def test_a_write_that_was_refused_for_its_rate_is_sent_again_with_its_key(
    server: ContractServer,
) -> None:
    server.refuse(429, {"error": "rate_limited", "message": "Wait 1 seconds"}, {"Retry-After": "1"})
    async with client(server.url) as (api, session, traffic):
        writing = asyncio.create_task(
            api.write("POST", "/v1/accounts", {"name": "A", "currency": "EUR"}, "k")
        )
        await until(lambda: session.waiting_seconds > 0)
        assert (await writing).status == 201
    assert [exchange.idempotency_key for exchange in traffic] == ["k", "k"]
    assert len(server.accounts) == 1


async def test_a_second_use_of_a_key_is_said_to_be_done_already(server: ContractServer) -> None:
    async with client(server.url) as (api, _session, _traffic):
        made = await api.write("POST", "/v1/accounts", {"name": "A", "currency": "EUR"}, "k")
        with pytest.raises(AlreadyDone) as again:
            await api.write("POST", "/v1/accounts", {"name": "A", "currency": "EUR"}, "k")
        assert again.value.original == made.record["id"]
    assert len(server.accounts) == 1


async def test_a_write_whose_answer_was_lost_is_not_sent_again_by_itself(server: ContractServer) -> None:
    async with Line(server.port) as line, client(line.url) as (api, _session, _traffic):
        line.swallows_answers = True
        with pytest.raises(NotConnected):
            await api.write("POST", "/v1/accounts", {"name": "A", "currency": "EUR"}, "k")
    assert [method for method, _path, _args in server.requests].count("POST") == 1


async def test_a_part_the_server_lacks_is_noted(server: ContractServer) -> None:
    async with client(server.url) as (api, session, _traffic):
        with pytest.raises(NotOffered):
            await api.read("/v1/whoami", part="whoami")
        assert session.missing_parts == {"whoami"}


async def test_an_invalid_request_names_its_parameter(server: ContractServer) -> None:
    async with client(server.url) as (api, _session, _traffic):
        with pytest.raises(InvalidRequest) as refused:
            await api.call("POST", "/v1/accounts", body={"name": "Till"})
        assert (refused.value.code, refused.value.param) == ("missing_field", "currency")


async def test_a_list_is_paged_by_its_cursor(server: ContractServer) -> None:
    for _ in range(25):
        server.add_account()
    async with client(server.url) as (api, _session, _traffic):
        first = await fetch_page(api, "/v1/accounts", {}, Want(1, "page", 0, None, 20))
        rest = await fetch_page(api, "/v1/accounts", {}, Want(1, "page", 1, first.older, 20))
    assert (len(first.rows), len(rest.rows), rest.older) == (20, 5, None)


async def test_another_program_at_the_address_is_distinguished_from_a_ledger(server: ContractServer) -> None:
    async with client(server.url) as (api, _session, _traffic):
        with pytest.raises(NotAList):
            await fetch_page(api, "/api/health", {}, Want(1, "page", 0, None, 20))


@pytest.mark.parametrize("told", [{"next_cursor": "acc_7"}, {}])
@pytest.mark.parametrize(
    "want", [Want(1, "page", 1, "acc_7"), Want(1, "page", 2, "acc_5", met=frozenset(["acc_7"]))]
)
async def test_a_list_whose_cursors_form_a_circle_is_refused(
    server: ContractServer, want: Want, told: dict[str, str]
) -> None:
    async with client(server.url) as (api, session, _traffic):
        server.refuse(200, {"data": [{"id": "acc_7"}], "has_more": True, **told})
        with pytest.raises(NotAList, match="The pages of this list repeat"):
            await fetch_page(api, "/v1/accounts", {}, want)
        assert session.state is ConnectionState.FOREIGN
