"""A remote server is read within its rate limit, and again after a failure that may pass."""

from __future__ import annotations

from collections.abc import Callable

import httpx
import pytest

from ledger_client.calls import ATTEMPTS
from ledger_engine.tools.pull import remote as reading
from ledger_engine.tools.pull.remote import LISTS, PullFailed, Remote

ACCOUNTS = LISTS[-1]
Answer = Callable[[int], httpx.Response | Exception]


class Server:
    """Answers each request by its number."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.asked = 0

    async def read(self, pages: int = 1) -> None:
        transport = httpx.MockTransport(self._serve)
        async with Remote("http://remote.test/v1/", "sk_test_1", transport) as remote:
            for _ in range(pages):
                await remote.page(ACCOUNTS, None)

    def _serve(self, request: httpx.Request) -> httpx.Response:
        assert request.url.path == "/v1/accounts"
        self.asked += 1
        answer = self.answer(self.asked)
        if isinstance(answer, Exception):
            raise answer
        return answer


def page(**headers: str) -> httpx.Response:
    return httpx.Response(200, json={"data": [], "has_more": False, "next_cursor": None}, headers=headers)


async def test_requests_are_spread_over_the_limit(waits: list[float]) -> None:
    server = Server(lambda _: page(**{"X-RateLimit-Limit": "60", "X-RateLimit-Remaining": "59"}))
    await server.read(3)
    assert [round(wait, 1) for wait in waits] == [1.1, 1.1]  # 54 a minute, and not 10 in a second


async def test_when_nothing_is_left_the_next_window_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, waits: list[float]
) -> None:
    monkeypatch.setattr(reading.time, "time", lambda: 1_000_000.0)
    headers = {
        "X-RateLimit-Limit": "6000",
        "X-RateLimit-Remaining": "0",
        "X-RateLimit-Reset": "1000042",
    }
    server = Server(lambda _: page(**headers))
    await server.read(2)
    assert [round(wait) for wait in waits] == [42]


@pytest.mark.parametrize("failure", [httpx.Response(503), httpx.ConnectError("refused")])
async def test_a_failure_is_tried_again_and_then_told(failure: httpx.Response | Exception) -> None:
    await Server(lambda number: failure if number < 4 else page()).read()
    server = Server(lambda _: failure)
    with pytest.raises(PullFailed, match="Run the command again"):
        await server.read()
    assert server.asked == ATTEMPTS


async def test_a_refused_key_is_told_at_once() -> None:
    body = {"error": {"type": "authentication_error", "code": "x", "message": "No.", "param": None}}
    server = Server(lambda _: httpx.Response(401, json=body))
    with pytest.raises(PullFailed, match=r"401: No\."):
        await server.read()
    assert server.asked == 1


@pytest.mark.parametrize(
    "text", ["<html>", "7", '{"data": 7}', '{"data": [7]}', '{"data": [], "has_more": true}']
)
async def test_what_is_no_list_is_refused(text: str) -> None:
    server = Server(lambda _: httpx.Response(200, text=text))
    with pytest.raises(PullFailed):
        await server.read()


@pytest.mark.parametrize(
    "text", [r'"\ud800"', r'"\u0000"', "NaN", "1e999", r'{"\udfff": 1}', '"' + "9" * 10 + '\\u0000"']
)
async def test_what_no_ledger_can_hold_is_refused(text: str) -> None:
    server = Server(
        lambda _: httpx.Response(200, text=f'{{"data": [{{"id": [{text}]}}], "has_more": false}}')
    )
    with pytest.raises(PullFailed, match=r"what no ledger can hold|not JSON"):
        await server.read()


async def test_a_redirect_is_not_followed_so_the_key_stays_with_its_server() -> None:
    server = Server(lambda _: httpx.Response(302, headers={"Location": "http://other.test/v1/accounts"}))
    with pytest.raises(PullFailed, match="302"):
        await server.read()
    assert server.asked == 1


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (httpx.Response(401, json={"error": "unauthorized", "message": "No."}), r"/v1/whoami: .*401: No\."),
        (httpx.Response(200, json=[]), "did not answer with an object. Is it a ledger"),
    ],
)
async def test_what_is_no_object_is_refused(answer: httpx.Response, words: str) -> None:
    transport = httpx.MockTransport(lambda _request: answer)
    async with Remote("http://remote.test", "sk_test_1", transport) as remote:
        with pytest.raises(PullFailed, match=words):
            await remote.get("/v1/whoami")


async def test_an_object_that_is_not_shown_is_none() -> None:
    transport = httpx.MockTransport(lambda _request: httpx.Response(404))
    async with Remote("http://remote.test", "sk_test_1", transport) as remote:
        assert await remote.get("/v1/whoami") is None
