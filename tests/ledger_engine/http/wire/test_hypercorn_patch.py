"""Hypercorn is the one that the patch was written for."""

from __future__ import annotations

import hashlib
from importlib.util import find_spec
from pathlib import Path

import pytest

from ledger_engine.http.wire.hypercorn_patch import SOURCES


@pytest.mark.parametrize("module", SOURCES)
def test_what_is_patched_has_not_changed_underneath(module: str) -> None:
    spec = find_spec(module)
    assert spec is not None, f"{module} is gone: see http/wire/hypercorn_patch.py"
    assert spec.origin is not None
    source = hashlib.sha256(Path(spec.origin).read_bytes()).hexdigest()
    assert source == SOURCES[module], (
        f"{module} has changed. Read what is new in it against http/wire/serving.py, which takes the"
        f" place of Hypercorn's worker, then write {source} in hypercorn_patch.py."
    )
