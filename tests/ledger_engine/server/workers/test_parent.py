"""Requests that workers have answered are counted by their parent."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from ledger_engine.core.errors import NotFound
from ledger_engine.limits import Full, Semaphore
from ledger_engine.server.workers.parent import (
    ANSWER,
    REFUSAL,
    Channel,
    Measured,
    Message,
    Parent,
    ParentsMeter,
    ParentsSemaphores,
)
from tests.ledger_engine.waiting import until


class Told:
    """What a worker tells its parent, and what the parent's meter counts of it."""

    def __init__(self) -> None:
        self.reports: list[tuple[str, Measured]] = []
        self.counted: list[tuple[Any, ...]] = []

    def tell(self, kind: str, content: Measured) -> None:
        self.reports.append((kind, content))

    def answered(self, *request: Any) -> None:
        self.counted.append(request)

    def refused(self, limit: str) -> None:
        self.counted.append((limit,))


async def test_each_request_is_reported_once_and_counted_as_it_was_noted() -> None:
    told: Any = Told()
    meter = ParentsMeter(told)
    meter.report()
    assert told.reports == [], "nothing was noted"
    meter.answered("GET", "/v1/accounts", 200, 0.5)
    meter.answered("POST", "/v1/accounts", 429, 0.25)
    meter.refused("minute")
    meter.report()
    meter.report()
    ((kind, noted),) = told.reports
    assert kind == "measured"
    noted.count_in(told)
    assert told.counted == [
        ("GET", "/v1/accounts", 200, 0.5), ("POST", "/v1/accounts", 429, 0.25), ("minute",),
    ]  # fmt: skip


#


class End:
    """The parent's end; it keeps what arrived, each piece as it came."""

    def __init__(self) -> None:
        self.arrived: list[list[Message]] = []
        self.is_lost = False
        self.channel = Channel(
            self.arrived.append, self._lose, lambda message, _: ("instead", message[1], None)
        )

    @property
    def messages(self) -> list[Message]:
        return [message for together in self.arrived for message in together]

    def _lose(self) -> None:
        self.is_lost = True


@asynccontextmanager
async def connected() -> AsyncIterator[tuple[Parent, list[Message], End]]:
    """A worker's view of its parent, what it was told, and the parent's end."""
    told: list[Message] = []
    ours, theirs = socket.socketpair()
    end = End()
    await end.channel.open(theirs)
    parent = Parent(told.append, lambda: None)
    await parent.open(ours)
    yield parent, told, end
    parent.close()
    await until(lambda: end.is_lost)


async def test_what_is_sent_in_one_iteration_travels_together_and_in_order() -> None:
    async with connected() as (parent, told, end):
        for number in range(100):
            parent.tell("note", number)
            end.channel.send("word", number)
        await until(lambda: end.arrived and told)
        assert end.arrived == [[("note", 0, number) for number in range(100)]]
        assert told == [("word", 0, number) for number in range(100)]


async def test_a_message_of_any_size_arrives_whole() -> None:
    async with connected() as (parent, _, end):
        parent.tell("large", b"x" * 5_000_000)
        parent.tell("small")
        await until(lambda: len(end.messages) == 2)
        assert len(end.messages[0][2]) == 5_000_000


async def test_an_answer_goes_to_its_request_and_a_refusal_is_raised() -> None:
    async with connected() as (parent, _, end):
        first, second = asyncio.create_task(parent.ask("a")), asyncio.create_task(parent.ask("b"))
        await until(lambda: len(end.messages) == 2)
        (_, a, _), (_, b, _) = end.messages
        end.channel.send(REFUSAL, NotFound("account", "acc_1"), b)
        end.channel.send(ANSWER, "done", a)
        assert await first == "done"
        with pytest.raises(NotFound) as refused:
            await second
        assert refused.value.message == "No such account: 'acc_1'."
        assert parent.waiting == 0


async def test_what_cannot_be_sent_fails_alone() -> None:
    async with connected() as (parent, told, end):
        lost = asyncio.create_task(parent.ask("work", lambda: None))
        parent.tell("note")
        with pytest.raises(Exception, match=r"pickle|local object"):  # as Python words it
            await lost
        await until(lambda: end.messages)
        assert end.messages == [("note", 0, None)]
        end.channel.send(ANSWER, lambda: None, 7)
        end.channel.send("word", "kept")
        await until(lambda: told)
        assert told == [("instead", 7, None), ("word", 0, "kept")]


async def test_a_semaphore_is_released_also_when_nobody_waits_for_the_answer_any_more() -> None:
    async with connected() as (parent, _, end):
        semaphores, seat = ParentsSemaphores(parent), Semaphore("seats", 1)

        async def sit() -> None:
            async with semaphores.hold(seat):
                await asyncio.Event().wait()

        waiting = asyncio.create_task(sit())
        await until(lambda: end.messages)
        waiting.cancel()
        with suppress(asyncio.CancelledError):
            await waiting
        await until(lambda: len(end.messages) == 2)
        (asked, number, content), released = end.messages
        assert (asked, content) == ("acquire", ((seat,), False))
        assert released == ("release", number, None)

        refused = asyncio.create_task(sit())
        await until(lambda: len(end.messages) == 3)
        end.channel.send(REFUSAL, Full(seat), end.messages[2][1])
        with pytest.raises(Full) as full:
            await refused
        assert full.value.semaphore == seat
