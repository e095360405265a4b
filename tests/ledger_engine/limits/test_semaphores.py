"""Semaphores: how many may do something at a time."""

from __future__ import annotations

import asyncio

import pytest

from ledger_engine.limits import Full, Semaphore, Semaphores

SEAT = Semaphore("seats", 2)


async def test_a_semaphore_is_acquired_no_more_often_than_it_may_be() -> None:
    semaphores = Semaphores()
    async with semaphores.hold(SEAT), semaphores.hold(SEAT):
        with pytest.raises(Full):
            async with semaphores.hold(SEAT):
                pass
        async with semaphores.hold(Semaphore("tables", 1)):
            pass
    async with semaphores.hold(SEAT), semaphores.hold(SEAT):
        pass


async def test_of_several_semaphores_none_is_acquired_when_one_is_full() -> None:
    semaphores = Semaphores()
    table = Semaphore("tables", 1)
    async with semaphores.hold(table):
        with pytest.raises(Full) as refused:
            await semaphores.acquire([SEAT, table])
    assert refused.value.semaphore == table
    async with semaphores.hold(SEAT), semaphores.hold(SEAT):
        pass


async def test_a_waiting_caller_acquires_the_semaphore_when_it_is_released() -> None:
    semaphores = Semaphores()
    lease = Semaphore("lease", 1)
    order = []

    async def work(name: str) -> None:
        async with semaphores.hold(lease, wait=True):
            order.append(f"{name} begins")
            await asyncio.sleep(0)
            order.append(f"{name} ends")

    await semaphores.acquire([lease])
    first, second = asyncio.create_task(work("first")), asyncio.create_task(work("second"))
    given_up = asyncio.create_task(work("given up"))
    await asyncio.sleep(0)
    given_up.cancel()
    assert order == []
    semaphores.release([lease])
    await asyncio.gather(first, second)
    assert order == ["first begins", "first ends", "second begins", "second ends"]
