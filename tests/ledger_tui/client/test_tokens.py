"""Tokens are exchanged and rotated, one at a time."""

from __future__ import annotations

import asyncio

import pytest

from ledger_client.errors import AuthenticationError, LedgerError
from ledger_client.records import TokenPair
from ledger_tui.client.tokens import NoTokens, TokenManager, refusal_of
from tests.ledger_tui.client.test_api import client
from tests.ledger_tui.contract_server import KEY, ContractServer


async def test_however_many_ask_for_a_refresh_each_token_is_used_once(server: ContractServer) -> None:
    async with client(server.url) as (api, _session, _traffic):
        token_manager = TokenManager(api)
        token_manager.key = KEY
        await token_manager.exchange()
        await asyncio.gather(*(token_manager.refresh() for _ in range(10)))
        assert token_manager.tokens.rotations == 10
        assert len(server.refresh_tokens) == 1
        await api.call("GET", "/v1/accounts")


async def test_only_one_refreshes_when_it_is_due(server: ContractServer) -> None:
    server.token_seconds = 600
    async with client(server.url) as (api, _session, _traffic):
        token_manager = TokenManager(api)
        token_manager.key = KEY
        await token_manager.exchange()
        now = token_manager.tokens.clock() + 299
        token_manager.tokens.clock = lambda: now
        assert not await token_manager.refresh_when_due()
        now += 2
        done = await asyncio.gather(*(token_manager.refresh_when_due() for _ in range(5)))
        assert sorted(done) == [False] * 4 + [True]


async def test_a_refused_refresh_token_is_forgotten_and_the_key_used(server: ContractServer) -> None:
    async with client(server.url) as (api, _session, _traffic):
        token_manager = TokenManager(api)
        token_manager.key = KEY
        await token_manager.exchange()
        server.refresh_tokens.clear()
        server.access_tokens.clear()
        with pytest.raises(AuthenticationError):
            await token_manager.refresh()
        assert token_manager.tokens.pair is None
        assert "not accepted" in token_manager.tokens.problem
        await api.call("GET", "/v1/accounts")


async def test_a_server_that_is_away_costs_no_token(server: ContractServer) -> None:
    async with client(server.url) as (api, _session, _traffic):
        token_manager = TokenManager(api)
        token_manager.key = KEY
        await token_manager.exchange()
        pair = token_manager.tokens.pair
        server.refuse(503, {"error": {"code": "storage_unavailable", "message": "Disk full."}})
        server.stop()
        with pytest.raises(LedgerError):
            await token_manager.refresh()
        assert token_manager.tokens.pair is pair


async def test_an_answer_that_is_no_token_response_is_refused(server: ContractServer) -> None:
    async with client(server.url) as (api, _session, _traffic):
        token_manager = TokenManager(api)
        token_manager.key = KEY
        server.refuse(200, {"hello": "world"})
        with pytest.raises(NoTokens):
            await token_manager.exchange()
        with pytest.raises(NoTokens):
            await token_manager.refresh()


async def test_without_a_key_there_is_nothing_to_exchange(server: ContractServer) -> None:
    async with client(server.url) as (api, _session, _traffic):
        with pytest.raises(NoTokens):
            await TokenManager(api).exchange()


async def test_tokens_without_a_key_are_forgotten_when_they_are_refused(server: ContractServer) -> None:
    async with client(server.url) as (api, _session, _traffic):
        token_manager = TokenManager(api)
        token_manager.tokens.take(TokenPair(access_token="at_1", refresh_token="rt_1"))
        with pytest.raises(AuthenticationError):
            await token_manager.refresh()
        assert token_manager.tokens.pair is None
        assert (await api.call("GET", "/v1/accounts")).status == 200  # what was used before still is


@pytest.mark.parametrize(
    ("status", "sentence"),
    [
        (404, "This server issues no tokens."),
        (405, "This server issues no tokens."),
        (400, "Not so."),
    ],
)
async def test_a_server_that_issues_no_tokens_is_said_to_be_one(
    server: ContractServer, status: int, sentence: str
) -> None:
    async with client(server.url) as (api, _session, _traffic):
        token_manager = TokenManager(api)
        token_manager.key = KEY
        server.refuse(status, {"error": {"code": "x", "message": "Not so."}})
        with pytest.raises(LedgerError) as refused:
            await token_manager.exchange()
    assert refusal_of(refused.value) == sentence
