from __future__ import annotations

from tests.faults.conftest import server

__all__ = ["server"]
