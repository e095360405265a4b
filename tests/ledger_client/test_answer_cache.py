"""Unchanged answers, which the client takes from its cache, and the hook that gets each attempt."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from ledger_client import AsyncLedger, LedgerError, answer_cache
from ledger_client.answer_cache import AnswerCache
from ledger_client.calls import Answer
from ledger_client.errors import InvalidRequest, NotConnected, RateLimited
from ledger_client.exchanges import SentRequest
from tests.ledger_tui.driving import until

TILL = b'{"id": "acc_1", "name": "Till"}'


def http(status: str, *headers: str, body: bytes = b"") -> bytes:
    return (
        "\r\n".join([f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers, "", ""]).encode() + body
    )


@asynccontextmanager
async def server(*replies: bytes | None) -> AsyncIterator[tuple[str, list[bytes]]]:
    """Run a server that gives one reply to each request, and hangs up for None; yield its URL and heads."""
    heads: list[bytes] = []
    left = [*replies]

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                heads.append((await reader.readuntil(b"\r\n\r\n")).lower())
                reply = left.pop(0) if left else await asyncio.Event().wait()
                if not isinstance(reply, bytes):
                    break
                writer.write(reply)
        except asyncio.IncompleteReadError:
            pass
        finally:
            writer.close()

    listener = await asyncio.start_server(answer, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}", heads
    finally:
        listener.close()


async def test_an_unchanged_answer_has_its_former_body_and_the_newer_headers() -> None:
    replies = (
        http("200 OK", 'ETag: "1"', "Content-Type: application/json", "X-Turn: 1", body=TILL),
        http("304 Not Modified", 'ETag: "1"', "Content-Type: text/plain", "X-Turn: 2"),
    )
    async with server(*replies) as (url, heads), AsyncLedger(url, "sk_test_a") as ledger:
        first, second = [await ledger.request("GET", "/v1/accounts/acc_1") for _ in range(2)]
    assert (second.status, second.content) == (200, first.content)
    assert second.headers["x-turn"] == "2"
    assert second.headers["content-type"] == "application/json"
    assert second.headers["content-length"] == str(len(TILL))
    assert [b'if-none-match: "1"' in head for head in heads] == [False, True]


async def test_another_request_is_not_answered_from_the_cache() -> None:
    whole = http("200 OK", 'ETag: "1"', body=TILL)
    async with server(*[whole] * 4) as (url, heads), AsyncLedger(url, "sk_test_a") as ledger:
        await ledger.request("GET", "/v1/accounts/acc_1")
        await ledger.request("GET", "/v1/accounts/acc_1", query={"at": "2026-01-01T00:00:00Z"})
        await ledger.request("GET", "/v1/accounts/acc_1", headers={"Accept": "text/csv"})
        await ledger.request("DELETE", "/v1/accounts/acc_1")
    assert not any(b"if-none-match" in head for head in heads)


async def test_a_condition_of_your_own_is_sent_and_its_304_is_yours() -> None:
    replies = http("200 OK", 'ETag: "1"', body=TILL), http("304 Not Modified", 'ETag: "0"')
    async with server(*replies) as (url, heads), AsyncLedger(url, "sk_test_a") as ledger:
        await ledger.request("GET", "/v1/accounts/acc_1")
        with pytest.raises(InvalidRequest) as unchanged:
            await ledger.request("GET", "/v1/accounts/acc_1", headers={"If-None-Match": '"0"'})
    assert unchanged.value.status == 304
    assert b'if-none-match: "0"\r\n' in heads[1]


def test_the_oldest_answers_leave_a_full_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer_cache, "ANSWERS_MAX", 2)
    monkeypatch.setattr(answer_cache, "BYTES_MAX", 10)
    cache = AnswerCache()

    def store(key: str, size: int) -> None:
        cache.store(key, Answer(200, {"ETag": key}, b"." * size))

    def keys() -> Sequence[str]:
        return [key for key in "abc" if cache.find(key) is not None]

    for key in "abac":
        store(key, 3)
    assert keys() == ["a", "c"]
    store("b", 8)  # together with another one it would be too large
    assert keys() == ["b"]
    store("b", 11)
    assert keys() == []
    store("a", 10)
    assert keys() == ["a"]


async def test_the_hook_gets_each_attempt_also_one_without_an_answer() -> None:
    refused = http("429 Too Many Requests", "Retry-After: 1", "Request-Id: req_1")
    attempts: list[tuple[SentRequest, Answer | LedgerError]] = []

    def note(request: SentRequest, answer: Answer | LedgerError) -> None:
        attempts.append((request, answer))

    async with (
        server(None, refused, http("201 Created", "Request-Id: req_2", body=TILL)) as (url, _heads),
        AsyncLedger(url, "sk_test_a", on_exchange=note) as ledger,
    ):
        await ledger.request("POST", "/v1/accounts", query={"a": "b c"}, body={"name": "Till"}, key="k1")
    requests = [request for request, _answer in attempts]
    assert [(request.status, request.request_id) for request in requests] == [
        (None, None), (429, "req_1"), (201, "req_2"),
    ]  # fmt: skip
    assert [request.error for request in requests] == ["connection lost", "", ""]
    assert {(request.method, request.url, request.body, request.idempotency_key) for request in requests} == {
        ("POST", f"{url}/v1/accounts?a=b+c", '{"name": "Till"}', "k1")
    }
    assert isinstance(attempts[0][1], NotConnected)
    assert not any(isinstance(answer, RateLimited) for _request, answer in attempts)
    assert "sk_test_a" not in repr(requests)


async def test_the_hook_does_not_get_an_attempt_that_was_cancelled() -> None:
    attempts: list[SentRequest] = []
    async with (
        server() as (url, heads),
        AsyncLedger(url, on_exchange=lambda request, _answer: attempts.append(request)) as ledger,
    ):
        reading = asyncio.create_task(ledger.request("GET", "/v1/accounts"))
        await until(lambda: heads)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
    assert attempts == []
