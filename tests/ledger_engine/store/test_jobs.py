"""Works that are given up when they take too long."""

from __future__ import annotations

import asyncio

from ledger_engine.store.jobs import Job, Pending
from tests.ledger_engine.waiting import until


async def test_what_was_answered_in_time_is_not_given_up_with_what_was_not() -> None:
    loop = asyncio.get_running_loop()
    given_up: list[Job] = []
    pending = Pending(loop, 0.01, given_up.append)
    answered, slow = (Job(lambda unit: None, loop.create_future(), loop, writes=True) for _ in range(2))
    for job in (answered, slow):
        pending.add(job)
    answered.outcome.set_result("done")
    await until(lambda: given_up != [])
    assert given_up == [slow]
