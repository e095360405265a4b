"""Makes expensive things that all tests need, once in each process."""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Callable
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any

from werkzeug.routing import Rule

from ledger_engine.store.sqlite.connection import connect, make_private
from ledger_engine.store.sqlite.migrations import SqliteTables


def put_empty_ledger(path: Path) -> Path:
    """Write an empty ledger with all migrations to `path`.

    Opening it takes a quarter of the CPU time of migrating a new file, and a twentieth of the wait.
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
            SqliteTables(connection).bring_up_to_date()
        return path.read_bytes()


@cache
def tables() -> tuple[str, ...]:
    """Return the names of a ledger's tables, on either engine."""
    with (
        tempfile.TemporaryDirectory(prefix="ledger-empty-") as folder,
        closing(sqlite3.connect(put_empty_ledger(Path(folder, "ledger.db")))) as connection,
    ):
        rows = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    return tuple(name for (name,) in rows if not name.startswith(("sqlite_", "_sqlite_")))


def compile_routes_once() -> None:
    """Make werkzeug cache its compiled code for a route, which depends only on the route's text.

    Compiling is nine tenths of the cost of creating an application.
    """
    compile_rule: Callable[[Rule], None] = Rule.compile
    compiled: dict[Any, dict[str, Any]] = {}

    def compile_once(rule: Rule) -> None:
        key = (rule.rule, rule.merge_slashes, rule.subdomain, rule.host, repr(rule.defaults))
        if key not in compiled:
            compile_rule(rule)
            made = {name: getattr(rule, name) for name in ("_parts", "_trace", "_converters", "arguments")}
            builders = {name: getattr(rule, name).__func__ for name in ("_build", "_build_unknown")}
            compiled[key] = {"made": made, "builders": builders}
        for name, value in compiled[key]["made"].items():
            setattr(rule, name, value)
        for name, builder in compiled[key]["builders"].items():
            setattr(rule, name, builder.__get__(rule, None))

    Rule.compile = compile_once  # type: ignore[method-assign]
