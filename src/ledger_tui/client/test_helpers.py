"""Reads the server's test helpers: its clock, the snapshots there are, and the faults."""

from __future__ import annotations

from typing import Any, NamedTuple

from ledger_tui.client.api import Api
from ledger_tui.state.window import Record

_PAGE = {"limit": "100"}


class HelperState(NamedTuple):
    """The ledger's time, and the newest snapshots and faults."""

    clock: Record
    snapshots: list[Record]
    faults: list[Record]


async def read_helpers(api: Api, root: str, part: str) -> HelperState:
    """Read the clock, the snapshots and the faults. Raises NotOffered where there are none."""
    clock = (await api.read(f"{root}/clock", part=part)).record
    snapshots = (await api.read(f"{root}/snapshots", _PAGE)).record.get("data")
    faults = (await api.read(f"{root}/faults", _PAGE)).record.get("data")
    return HelperState(clock, _records(snapshots), _records(faults))


def _records(found: Any) -> list[Record]:
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []
