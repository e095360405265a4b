"""What all tests need alike and is expensive: made once in each process."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any

from werkzeug.routing import Rule

from ledger_engine.database import migrations
from ledger_engine.database.connection import connect, make_private


def put_empty_ledger(path: Path) -> Path:
    """Write a ledger with every migration applied and nothing in it to `path`.

    Opening it takes a quarter of the CPU time that migrating a new file takes, and a twentieth of the wait.
    """
    make_private(path)
    path.write_bytes(_empty_ledger())
    return path


@cache
def _empty_ledger() -> bytes:
    with tempfile.TemporaryDirectory(prefix="ledger-empty-") as folder:
        path = Path(folder, "ledger.db")
        make_private(path)
        with closing(connect(path, checkpoints=True)) as connection:
            migrations.apply(connection)
        return path.read_bytes()


def compile_routes_once() -> None:
    """Make werkzeug keep the functions that it compiles for routes, which depend only on the route's text.

    They are nine tenths of the cost of creating an application.
    """
    compile_builder: Callable[..., Any] = Rule._compile_builder
    compiled: dict[Any, Any] = {}

    def look_up_builder(rule: Rule, append_unknown: bool = True) -> Any:
        key = (append_unknown, *rule._trace, *(rule.defaults or {}).items())
        if key not in compiled:
            compiled[key] = compile_builder(rule, append_unknown)
        return compiled[key]

    Rule._compile_builder = look_up_builder  # type: ignore[method-assign]
