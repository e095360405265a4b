"""Failovers and switchovers of three nodes under Patroni, while two servers are posted to."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time

import pytest

from tests.faults.client import Writers, assert_all_is_there_once, open_accounts
from tests.faults.patroni import HighlyAvailable, missing
from tests.faults.server import Server
from tests.faults.several import under_load

WRITERS = 16


@pytest.mark.timeout(3600)
async def test_failovers_of_patroni_lose_nothing_that_was_acknowledged(soak: int, seed: int) -> None:
    """A node is asked to step down, is killed, hangs, or is cut off from all others, and comes back."""
    if soak == 1:
        pytest.skip("a long run: `make test-ha`")
    if absent := missing():
        pytest.skip(f"needs {', '.join(absent)}")
    chance = random.Random(seed)
    waits: dict[str, list[float]] = {"switchover": [], "kill": [], "hang": [], "cut": []}
    cluster = await asyncio.to_thread(HighlyAvailable)
    running = [Server(cluster.address) for _ in range(2)]
    try:
        for each in running:
            await asyncio.to_thread(each.start)
        key = running[0].make_key()
        accounts = await open_accounts(running[0].port, key)
        writers = Writers(key, accounts, seed, lambda: chance.choice(running).port)
        async with under_load(writers, WRITERS):
            for number in range(soak):
                await writers.until(100)
                kind = list(waits)[number % len(waits)]
                primary = await asyncio.to_thread(cluster.primary)
                assert primary is not None
                began = time.monotonic()
                if kind == "switchover":
                    await asyncio.to_thread(cluster.switch_over, primary)
                if kind == "kill":
                    primary.kill()
                away = {"hang": primary.stopped, "cut": primary.cut_off}.get(kind, contextlib.nullcontext)
                with away():
                    await asyncio.to_thread(cluster.until_another, primary)
                    await writers.until(WRITERS + 1)  # some may have been answered before
                    waits[kind].append(time.monotonic() - began)
                if kind == "kill":
                    primary.start()
                await asyncio.to_thread(cluster.until_whole)
        await writers.settle()
        running[0].assert_books_are_right()
        await assert_all_is_there_once(running[1].port, key, writers.memory)
    finally:
        for each in running:
            each.kill()
        await asyncio.to_thread(cluster.remove)
    memory = writers.memory
    print(f"{soak} failovers: {len(memory.acknowledged)} acknowledged, {len(memory.refused)} refused")
    for kind, seconds in waits.items():
        if seconds:
            print(f"{kind}: {len(seconds)}, posting again after {min(seconds):.1f} to {max(seconds):.1f} s")
