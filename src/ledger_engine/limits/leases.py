"""Leases: which of the tasks that only one server may do this server has.

A process that serves a file alone has all of them (`AllLeases`). Servers that share a database agree there
(`store/postgres/leases.py`).
"""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Protocol


class Leases(Protocol):
    """The leases of this server. One that ends without giving its leases back loses them after some seconds.

    `first` is whether no other server was at work when this one took its first leases. `until` is the moment
    of the monotonic clock, in seconds, up to which this server has what it holds; it moves on as leases are
    renewed. `surplus` are those that a server with fewer is to have: this one ends what it has begun with
    them, and then does not name them as long as they are in it.
    """

    @property
    def first(self) -> bool: ...
    @property
    def until(self) -> float: ...
    @property
    def surplus(self) -> Collection[str]: ...

    async def hold(self, kind: str, names: Collection[str]) -> Collection[str]:
        """Hold of these leases what no other server has, up to this one's share; return those held now.

        From now on they are renewed, and the others taken when they become free. Those of this kind that are
        not named any more are given back. Raises StorageUnavailable.
        """
        ...

    async def leads(self) -> bool:
        """Return whether this server does what one does for all. Raises StorageUnavailable."""
        ...

    async def end(self) -> None:
        """Give all leases back."""
        ...


class AllLeases:
    """The leases of the only server: it has them all."""

    first = True
    until = math.inf
    surplus: Collection[str] = ()

    async def hold(self, kind: str, names: Collection[str]) -> Collection[str]:
        return names

    async def leads(self) -> bool:
        return True

    async def end(self) -> None:
        return
