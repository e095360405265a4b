"""Leases that other servers have."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from ledger_engine.store.engine import Engine


@dataclass
class Leases:
    """What one of several servers holds; other servers have the rest, and were there before.

    `named` is what it was last asked for.
    """

    held: frozenset[str] = frozenset()
    leader: bool = False
    first: bool = False
    until: float = float("inf")
    releasing: frozenset[str] = frozenset()
    named: frozenset[str] = frozenset()

    async def hold(self, kind: str, names: Collection[str]) -> Collection[str]:
        self.named = frozenset(names)
        return self.held & self.named

    async def leads(self) -> bool:
        return self.leader

    async def end(self) -> None:
        return


def leave_to_others(engine: Engine) -> Leases:
    """Have this server be one of several; what it holds can be changed at any time."""
    leases = Leases()
    engine.shared_state = replace(engine.shared_state, leases=leases)
    return leases
