"""Three clients over HTTP see one ledger: what they were answered happened in one order."""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import replace

import pytest

from tests.conftest import Tally
from tests.faults.client import connected, open_accounts
from tests.faults.server import Server
from tests.trust.linearizability import Step, is_linearizable

CLIENTS = 3
STEPS = 20  # of each client in a round, which begins with new accounts


async def _client(port: int, key: str, accounts: list[str], seed: int) -> list[Step]:
    """Post, move and read by chance, and return what was done and answered."""
    chance, steps = random.Random(seed), list[Step]()
    async with connected(key) as connection:
        for _ in range(STEPS):
            account, other = chance.sample(accounts, 2)
            began = time.monotonic()
            if chance.random() < 0.4:
                answer = await connection.request(port, "GET", f"/v1/accounts/{account}")
                steps.append(Step(began, time.monotonic(), {}, account, answer.body["balance"]))
                continue
            amount, credit = chance.randint(1, 9), chance.random() < 0.5
            body = {"account": account, "amount": amount, "type": "credit" if credit else "debit"}
            change = amount if credit else -amount
            changes = {account: change}
            if chance.random() < 0.3:
                body["destination"] = other
                changes[other] = -change
            answer = await connection.request(port, "POST", "/v1/transactions", body)
            steps.append(Step(began, time.monotonic(), changes, account, answer.body["balance_after"]))
    return steps


async def _round(port: int, key: str, seed: int) -> list[list[Step]]:
    accounts = await open_accounts(port, key, 2)
    clients = (_client(port, key, accounts, seed * CLIENTS + number) for number in range(CLIENTS))
    return list(await asyncio.gather(*clients))


def stale(clients: list[list[Step]], chance: random.Random) -> list[list[Step]]:
    """Return what would have been seen of a server that once answers a read with an older balance."""
    changed = [list(steps) for steps in clients]
    reads = [
        (client, at)
        for client, steps in enumerate(changed)
        for at, step in enumerate(steps)
        if not step.changes and any(each.changes.get(step.account) for each in steps[:at])
    ]
    client, at = chance.choice(reads)
    step = changed[client][at]
    # The client has itself changed the account, and is shown what was there before.
    own = next(each for each in reversed(changed[client][:at]) if each.changes.get(step.account))
    balance = own.balance - own.changes[own.account] if own.account == step.account else step.balance + 1000
    changed[client][at] = replace(step, balance=balance if balance != step.balance else step.balance + 1000)
    return changed


@pytest.mark.process
@pytest.mark.timeout(3600)
async def test_the_answers_to_three_clients_fit_one_order(
    server: Server, soak: int, seed: int, tally: Tally
) -> None:
    key, chance, refused = server.make_key(), random.Random(seed), 0
    for number in range(5 * soak):
        clients = await _round(server.port, key, seed + number)
        assert is_linearizable(clients), f"round {number} of seed {seed}: {clients}"
        tally(steps=sum(map(len, clients)), rounds=1)
        # The control: what a stale cache would have shown is told apart, where no other order explains it.
        if number < 5:
            refused += sum(not is_linearizable(stale(clients, chance)) for _ in range(10))
    assert refused >= 25, "the checker does not find a stale read"
    server.assert_books_are_right()


def test_a_balance_that_no_order_explains_is_found() -> None:
    first = Step(0, 1, {"a": 5}, "a", 5)
    assert is_linearizable([[first], [Step(0.5, 2, {}, "a", 0)]])
    assert not is_linearizable([[first], [Step(1.5, 2, {}, "a", 0)]])
    assert not is_linearizable([[first], [Step(0.5, 2, {}, "a", 3)]])
    assert is_linearizable([[first], [Step(0, 3, {"a": -5, "b": 5}, "b", 5)], [Step(4, 5, {}, "a", 0)]])
