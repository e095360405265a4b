"""The environment of the programs that this one starts."""

from __future__ import annotations

import os


def without_settings(*kept: str) -> dict[str, str]:
    """Return our environment without the variables `LEDGER_…`, which have secrets, except the kept ones."""
    return {
        name: value for name, value in os.environ.items() if name in kept or not name.startswith("LEDGER_")
    }
