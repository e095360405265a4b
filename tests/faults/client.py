"""A client that remembers what it was told, whatever happens to the server meanwhile."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

# What a client meets when the server goes away under it.
GONE = (OSError, EOFError, asyncio.IncompleteReadError)
# After this time a writer that got no answer, or that there is no storage, tries another posting.
AGAIN_S = 0.05
# How long a writer that rests does so after each answer.
REST_S = 0.2


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: dict[str, Any]


class Connection:
    """One keep-alive connection; requests one after the other. Raises one of GONE when the server is."""

    def __init__(self, key: str) -> None:
        self._key = key
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def request(
        self, port: int, method: str, path: str, body: object = None, *, idempotency_key: str | None = None
    ) -> Answer:
        """Send one request and read its answer, on a new connection where there is none."""
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", port)
        reader, writer = self._streams
        content = b"" if body is None else json.dumps(body).encode()
        lines = [f"{method} {path} HTTP/1.1", "Host: ledger", f"Authorization: Bearer {self._key}"]
        if idempotency_key is not None:
            lines.append(f"Idempotency-Key: {idempotency_key}")
        head = "\r\n".join([*lines, f"Content-Length: {len(content)}", "", ""])
        try:
            writer.write(head.encode() + content)
            return await self._read(reader)
        except BaseException:
            await self.close()
            raise

    async def _read(self, reader: asyncio.StreamReader) -> Answer:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        status, *lines = head.split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines if line)}
        content = await reader.readexactly(int(headers["content-length"]))
        return Answer(int(status.split()[1]), headers, json.loads(content))

    async def close(self) -> None:
        if self._streams is not None:
            _, writer = self._streams
            self._streams = None
            writer.close()


@asynccontextmanager
async def connected(key: str) -> AsyncIterator[Connection]:
    connection = Connection(key)
    try:
        yield connection
    finally:
        await connection.close()


@dataclass
class Memory:
    """What the client knows: what was acknowledged, by idempotency key, and what it cannot know."""

    acknowledged: dict[str, dict[str, Any]] = field(default_factory=dict)
    unanswered: dict[str, dict[str, Any]] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    surprises: list[str] = field(default_factory=list)


class Writers:
    """Many clients that post as fast as they are answered, each request with an idempotency key of its own.

    What is not answered is left as it is; `settle` finds out later what became of it. With `rests` they post
    as fast as that only while an `until` waits for them, and seldom while a test waits for something else.
    """

    def __init__(
        self, key: str, accounts: list[str], seed: int, port: Callable[[], int], *, rests: bool = False
    ) -> None:
        self._key = key
        self.accounts = accounts
        self._random = random.Random(seed)
        self.port = port
        self._rests = rests
        self._number = 0
        self.memory = Memory()
        self.accept_refusals = False
        self.has_seen_trouble = False
        self._news = asyncio.Event()
        self._awaited = False

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._key}"}

    @asynccontextmanager
    async def writing(self, count: int = 16) -> AsyncIterator[None]:
        """Let so many of them write meanwhile."""
        tasks = [asyncio.create_task(self._write()) for _ in range(count)]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def until(self, more: int, *, or_refused: bool = False) -> None:
        """Wait until so many more requests were acknowledged, or one refused for want of storage."""
        self.accept_refusals |= or_refused
        enough = len(self.memory.acknowledged) + more
        while len(self.memory.acknowledged) < enough and not (or_refused and self.memory.refused):
            assert not self.memory.surprises, self.memory.surprises
            await self._answered()

    async def until_refused(self) -> None:
        """Wait until a request was answered that there is no storage, whether the change was made or not."""
        self.accept_refusals = True
        while not self.has_seen_trouble:
            assert not self.memory.surprises, self.memory.surprises
            await self._answered()

    async def _answered(self) -> None:
        self._news.clear()
        self._awaited = True
        try:
            await self._news.wait()
        finally:
            self._awaited = False

    async def settle(self) -> None:
        """Send what was not answered again, each with its key, until it is known what became of it."""
        async with connected(self._key) as connection:
            for key, body in list(self.memory.unanswered.items()):
                answer = await connection.request(
                    self.port(), "POST", "/v1/transactions", body, idempotency_key=key
                )
                del self.memory.unanswered[key]
                if answer.status == 201:
                    self.memory.acknowledged[key] = answer.body
                else:
                    assert answer.status == 409, answer
                    original = answer.headers["idempotency-original"]
                    found = await connection.request(self.port(), "GET", f"/v1/transactions/{original}")
                    self.memory.acknowledged[key] = found.body

    async def _write(self) -> None:
        async with connected(self._key) as connection:
            while True:
                self._number += 1
                key, body = f"key {self._number}", self._posting()
                self.memory.unanswered[key] = body
                try:
                    answer = await connection.request(
                        self.port(), "POST", "/v1/transactions", body, idempotency_key=key
                    )
                except GONE as error:
                    if isinstance(error, ConnectionRefusedError):  # nothing was sent, and nobody is there
                        del self.memory.unanswered[key]
                    await asyncio.sleep(AGAIN_S)
                    continue
                self._remember(key, answer)
                if answer.status == 503:
                    await asyncio.sleep(AGAIN_S)
                elif self._rests and not self._awaited:
                    await asyncio.sleep(REST_S)

    def _remember(self, key: str, answer: Answer) -> None:
        self._news.set()
        body = self.memory.unanswered.pop(key)
        if answer.status == 201:
            self.memory.acknowledged[key] = answer.body
        elif answer.status == 503 and self.accept_refusals:
            self.has_seen_trouble = True
            error = answer.body["error"]
            if "is not known" in error["message"]:
                self.memory.unanswered[key] = body
            else:
                self.memory.refused[key] = error["code"]
        else:
            self.memory.surprises.append(f"{answer.status} {answer.body}")

    def _posting(self) -> dict[str, Any]:
        account, destination = self._random.sample(self.accounts, 2)
        body = {
            "account": account,
            "amount": self._random.randint(1, 1000),
            "type": self._random.choice(["credit", "debit"]),
        }
        if self._random.random() < 0.3:
            body["destination"] = destination
        return body


async def open_accounts(port: int, key: str, count: int = 4) -> list[str]:
    async with connected(key) as connection:
        made = [
            await connection.request(port, "POST", "/v1/accounts", {"name": f"Till {n}", "currency": "EUR"})
            for n in range(count)
        ]
    return [answer.body["id"] for answer in made]


async def read_all(port: int, key: str, path: str) -> list[dict[str, Any]]:
    """Every object of a list, page by page."""
    found: list[dict[str, Any]] = []
    after = ""
    async with connected(key) as connection:
        while True:
            answer = await connection.request(port, "GET", f"{path}?limit=100{after}")
            assert answer.status == 200, answer
            found += answer.body["data"]
            if not answer.body["has_more"]:
                return found
            after = f"&starting_after={answer.body['next_cursor']}"


@dataclass(frozen=True)
class Found:
    """What a server answers when it is asked for everything."""

    transactions: list[dict[str, Any]]
    accounts: list[dict[str, Any]]


async def assert_all_is_there_once(port: int, key: str, memory: Memory) -> Found:
    """Assert what `assert_found` does of all that the server has; return that."""
    found = Found(await read_all(port, key, "/v1/transactions"), await read_all(port, key, "/v1/accounts"))
    assert_found(found, memory)
    return found


def assert_a_loss_is_seen(found: Found, memory: Memory) -> None:
    """Assert that `assert_found` fails where one is lost, or another."""
    some = next(iter(memory.acknowledged.values()))
    for other in ({**some, "id": "txn_lost"}, {**some, "amount": some["amount"] + 1}):
        wrong = replace(memory, acknowledged={**memory.acknowledged, "a key that was lost": other})
        try:
            assert_found(found, wrong)
        except (AssertionError, KeyError):
            continue
        raise AssertionError(f"nobody sees that {other} is not there")


def assert_found(found: Found, memory: Memory) -> None:
    """The transactions are those that were acknowledged, each once, and the balances their sums."""
    by_id = {each["id"]: each for each in found.transactions}
    assert len(by_id) == len(found.transactions)
    acknowledged = list(memory.acknowledged.values())
    assert len({each["id"] for each in acknowledged}) == len(acknowledged)
    for each in acknowledged:
        assert by_id[each["id"]] == each
    # A transfer has a second side, which no answer told of.
    sides = sum(1 if each["transfer"] is None else 2 for each in acknowledged)
    assert len(found.transactions) == sides
    balances: dict[str, int] = {}
    for each in acknowledged:
        change = each["amount"] if each["type"] == "credit" else -each["amount"]
        balances[each["account"]] = balances.get(each["account"], 0) + change
        if each["destination"] is not None:
            balances[each["destination"]] = balances.get(each["destination"], 0) - change
    assert {each["id"]: each["balance"] for each in found.accounts} == {
        each["id"]: balances.get(each["id"], 0) for each in found.accounts
    }
