"""A pull from a server that shows too little, or something else each time it is asked."""

from __future__ import annotations

import httpx
import pytest

from ledger_engine.tools.pull import pull
from ledger_engine.tools.pull.remote import PullFailed, Remote
from ledger_engine.tools.pull.staging import Origin
from tests import auditing
from tests.ledger_engine.tools.pull.conftest import URL, no_wait, nothing
from tests.ledger_engine.tools.pull.test_pull import NOTHING, Copied, contract_pull
from tests.ledger_tui.contract_server import KEY, ContractServer


@pytest.mark.parametrize("livemode", [True, False])
async def test_the_mode_of_a_key_of_another_form_is_what_the_server_says(livemode: bool) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        whoami = {"project": None, "livemode": livemode}
        return httpx.Response(200, json=whoami if request.url.path == "/v1/whoami" else NOTHING)

    async with Remote(URL, "at_1", no_wait, httpx.MockTransport(answer)) as remote:
        assert await pull.identify(remote, "at_1") == Origin(URL, livemode, None)


@pytest.mark.parametrize("whoami", [httpx.Response(404), httpx.Response(200, json={"livemode": "yes"})])
async def test_a_key_whose_mode_cannot_be_told_is_refused(whoami: httpx.Response) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        return whoami if request.url.path == "/v1/whoami" else httpx.Response(200, json=NOTHING)

    async with Remote(URL, "at_1", no_wait, httpx.MockTransport(answer)) as remote:
        with pytest.raises(PullFailed, match="Give a key that begins with sk_test_ or sk_live_"):
            await pull.identify(remote, "at_1")


async def test_a_source_without_the_account_that_the_copy_has_is_another_project(copied: Copied) -> None:
    with ContractServer() as server:
        account = server.add_account()["id"]
        async with copied() as engine:
            await contract_pull(server, engine)
            server.accounts.clear()
            server.add_account("Other")
            with pytest.raises(PullFailed, match=rf"no longer has the account {account}.*another project"):
                await contract_pull(server, engine)


async def test_a_list_of_invoices_whose_numbers_have_a_gap_is_read_some_times_and_refused(
    copied: Copied,
) -> None:
    asked: list[str] = []
    invoice = {"id": "inv_01ka0000000000000000000000", "number": "INV-000002"}

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.path)
        found = [invoice] if request.url.path == "/v1/invoices" else []
        return httpx.Response(200, json=NOTHING | {"data": found})

    async with Remote(URL, KEY, no_wait, httpx.MockTransport(answer)) as remote, copied() as engine:
        with pytest.raises(PullFailed, match="invoices have a gap"):
            await pull.pull(remote, engine, Origin(URL, livemode=False, project=None), nothing)
    assert asked.count("/v1/invoices") == pull._READ_AGAIN_MAX


async def test_an_account_that_is_posted_to_while_it_is_compared_is_left_to_the_next_pull(
    copied: Copied,
) -> None:
    with ContractServer() as server:
        account = server.add_account()
        server.post(account, 1)

        async def answer(request: httpx.Request) -> httpx.Response:
            if request.url.path == f"/v1/accounts/{account['id']}":  # asked before the lists and after them
                server.post(account, 5)
            async with httpx.AsyncClient(trust_env=False) as client:
                found = await client.get(request.url, headers=request.headers)
            return httpx.Response(found.status_code, headers=found.headers, content=found.content)

        async with copied() as engine:
            await contract_pull(server, engine)
            async with Remote(server.url, KEY, no_wait, httpx.MockTransport(answer)) as remote:
                origin = await pull.identify(remote, KEY)
                pulls = [await pull.pull(remote, engine, origin, nothing) for _ in range(2)]
            assert [each.applied.new["transactions"] for each in pulls] == [1, 2]
            assert (await engine.read(auditing.verify)).fault is None


@pytest.mark.parametrize("status", [400, 404])
async def test_a_list_whose_cursor_the_source_no_longer_knows_is_read_from_its_beginning(
    copied: Copied, status: int
) -> None:
    refusing: int | None = 500  # the answer to every cursor
    gone: set[str] = set()

    async def answer(request: httpx.Request) -> httpx.Response:
        cursor = request.url.params.get("starting_after")
        if cursor is not None and (refusing or cursor in gone):
            gone.add(cursor)
            return httpx.Response(refusing or status)
        async with httpx.AsyncClient(trust_env=False) as client:
            found = await client.get(request.url, headers=request.headers)
        return httpx.Response(found.status_code, headers=found.headers, content=found.content)

    with ContractServer() as server:
        for number in range(150):
            server.add_account(f"Account {number}")
        async with (
            copied() as engine,
            Remote(server.url, KEY, no_wait, httpx.MockTransport(answer)) as remote,
        ):
            origin = await pull.identify(remote, KEY)
            with pytest.raises(PullFailed, match="Run the command again to go on from here"):
                await pull.pull(remote, engine, origin, nothing)
            refusing = status
            server.add_account("Another, so that the second page begins elsewhere")
            with pytest.raises(PullFailed, match=f"/v1/accounts: it answered {status}"):
                await pull.pull(remote, engine, origin, nothing)
            refusing = None
            server.add_account("Yet another")
            pulled = await pull.pull(remote, engine, origin, nothing)
            assert pulled.applied.new["accounts"] == 152
            assert (await engine.read(auditing.verify)).fault is None
