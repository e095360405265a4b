"""Whether what clients saw could have happened in one order, one operation after the other.

Each client does one thing after the other. What it did happened at some moment between its sending and its
being answered. The search goes through the orders that this allows (Wing and Gong's), and as the accounts
only add up, it needs to remember no more than how far each client is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Step:
    """What a client did between two times: the change of each account, and the balance that it was shown."""

    began: float
    ended: float
    changes: Mapping[str, int]
    account: str
    balance: int


def is_linearizable(clients: Sequence[Sequence[Step]]) -> bool:
    """Return whether one order of all steps explains each balance; all accounts begin with nothing."""
    seen: set[tuple[int, ...]] = set()
    waiting = [tuple(0 for _ in clients)]
    while waiting:
        done = waiting.pop()
        if done in seen:
            continue
        seen.add(done)
        following = [steps[at] if at < len(steps) else None for steps, at in zip(clients, done, strict=True)]
        first_end = min((step.ended for step in following if step is not None), default=None)
        if first_end is None:
            return True
        for client, step in enumerate(following):
            if step is not None and step.began <= first_end and _balance(clients, done, step) == step.balance:
                waiting.append((*done[:client], done[client] + 1, *done[client + 1 :]))
    return False


def _balance(clients: Sequence[Sequence[Step]], done: Sequence[int], step: Step) -> int:
    """Return what the step would be shown after what is done."""
    return step.changes.get(step.account, 0) + sum(
        each.changes.get(step.account, 0)
        for steps, at in zip(clients, done, strict=True)
        for each in steps[:at]
    )
