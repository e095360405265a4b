"""A database of another program, or one that is not complete, is refused by every command and left alone."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import click
import psycopg
import pytest
from click.testing import CliRunner

from ledger_engine.cli import main
from tests.made_once import put_empty_ledger
from tests.permissions import bound_by_permissions
from tests.postgres_server import bare_database

ID = "apps_1"
# Without a database, or with one that is opened after a server was asked.
LEFT_OUT = {("completion",), ("conform",), ("check-proof",), ("witness",)}
# These have no use for a database without a log, or without a server.
OF_A_SERVER = {("listen",), ("tail",), ("api",), ("post",), ("trigger",)}
IN_OTHER_WORDS = {
    ("recover",): "contains nothing to recover",
    **dict.fromkeys(OF_A_SERVER, "No server serves"),
}
WORDS: dict[tuple[str, ...], tuple[str, ...]] = {
    ("serve",): ("--port", "0"),
    ("projects", "create"): ("Roastery",),
    ("keys", "create"): ("--mode", "test"),
    ("users", "set-password"): ("ada@example.com", "--password-stdin"),
    ("apps", "create"): ("Till", "--redirect-uri", "https://example.com/"),
    ("webhooks", "create"): ("https://example.com/",),
    ("events", "resend"): ("evt_1",),
    ("listen",): ("--forward-to", "localhost:1"),
    ("api",): ("get", "/v1/accounts"),
    ("post",): ("acc_1", "1", "credit"),
    ("trigger",): ("invoice.paid",),
    ("users", "create"): ("Ada", "ada@example.com"),
    ("seed",): ("minimal",),
    ("export",): ("--format", "csv"),
}
TABLES = (
    "CREATE TABLE users (name TEXT); CREATE TABLE accounts (name TEXT); CREATE TABLE projects (name TEXT)"
)
SAID = (
    "it contains tables of another program (accounts, projects, users); give the ledger a database of its own"
)


def leaves(
    command: click.Command, name: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    if isinstance(command, click.Group):
        for each, below in command.commands.items():
            yield from leaves(below, (*name, each))
    else:
        yield name, command


def commands(database: str, folder: Path) -> Iterator[tuple[tuple[str, ...], list[str]]]:
    """Return each command that opens a database, with words that it accepts."""
    backup = str(put_empty_ledger(folder / "backup.db"))
    given = {**WORDS, ("backup",): (str(folder / "new.db"),), ("recover",): (str(folder / "new.db"),)}
    given[("restore",)] = (backup,)
    for name, command in leaves(main):
        if name in LEFT_OUT:
            continue
        if name == ("migrate",):
            other = str(folder / "other.db") if "://" in database else "postgresql://127.0.0.1:1/ledger"
            yield name, [*name, database, other]
            continue
        needed = sum(each.required for each in command.params if isinstance(each, click.Argument))
        words = given.get(name, (ID,) * needed)
        yield name, [*name, *words, "--database", database]


def refused(words: list[str], status: int = 1) -> str:
    done = CliRunner().invoke(main, words, input="secret-enough\nsecret-enough\n", prog_name="ledger-engine")
    assert done.exit_code == status, (words, done.output, done.exception)
    if threading.current_thread() is threading.main_thread():  # elsewhere `listen` cannot have its signals
        assert isinstance(done.exception, SystemExit), (words, done.exc_info)  # and no traceback
    return done.stderr


@pytest.mark.sqlite
@pytest.mark.parametrize("journal", ["delete", "wal"])
def test_a_file_with_tables_of_another_program_is_refused_by_every_command_and_stays(
    tmp_path: Path, journal: str
) -> None:
    path = tmp_path / "theirs.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA journal_mode={journal}")
        connection.executescript(TABLES)
    before = path.read_bytes()
    for name, words in commands(str(path), tmp_path):
        assert IN_OTHER_WORDS.get(name, SAID) in refused(words), words
        assert path.read_bytes() == before, words
    assert not (tmp_path / "new.db").exists()
    assert not (tmp_path / "theirs.db.lock").exists()


@pytest.mark.sqlite
def test_a_file_that_is_no_database_is_refused_by_every_command_and_gets_no_lock_file(tmp_path: Path) -> None:
    path = tmp_path / "text.db"
    path.write_text("no database" * 100)
    for name, words in commands(str(path), tmp_path):
        if name != ("restore",):  # which keeps it, and puts a backup in its place
            assert "not a database" in refused(words) or name in IN_OTHER_WORDS, words
            assert not (tmp_path / "text.db.lock").exists(), words


@pytest.mark.sqlite
def test_a_file_that_cannot_be_reached_is_named_by_every_command(tmp_path: Path) -> None:
    closed, loop, pipe = (tmp_path / name for name in ("closed", "loop", "pipe"))
    os.mkfifo(pipe)
    closed.mkdir(mode=0o000)
    loop.symlink_to(loop)
    refusals = {
        loop: ": too many levels of symbolic links",
        closed / "ledger.db": ": permission denied",
        pipe: " is not a regular file",
    }
    for path, why in refusals.items():
        for name, words in commands(str(path), tmp_path):
            said = bound_by_permissions(partial(refused, words))
            assert f"{path}{why}" in said.replace("Perm", "perm") or name in OF_A_SERVER, words


@pytest.mark.sqlite
def test_a_source_or_target_that_is_no_file_is_named(tmp_path: Path) -> None:
    path, loop, nowhere = (put_empty_ledger(tmp_path / "ledger.db"), tmp_path / "loop", tmp_path / "nowhere")
    loop.symlink_to(loop)
    nowhere.symlink_to(tmp_path / "missing")
    for command in ("backup", "restore", "recover"):
        assert f"{loop}: too many levels of symbolic links" in refused(
            [command, str(loop), "--database", str(path)]
        )
    assert f"{nowhere} already exists" in refused(["backup", str(nowhere), "--database", str(path)])
    for name, why in (("/", "File '/' is a directory."), ("", "must not be empty.")):
        assert f"Invalid value for 'SRC': {why}" in refused(
            ["restore", name, "--database", str(path)], status=2
        )


@pytest.mark.process
def test_a_database_with_tables_of_another_program_is_refused_by_every_command_and_stays(
    tmp_path: Path,
) -> None:
    address = bare_database()
    with psycopg.connect(address, autocommit=True) as connection:
        for statement in TABLES.split(";"):
            connection.execute(statement.encode())
        for name, words in commands(address, tmp_path):
            # These take no such address.
            if name not in {*OF_A_SERVER, ("backup",), ("recover",), ("restore",)}:
                assert SAID in refused(words), words
        found = connection.execute("SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace")
        assert {name for (name,) in found} == {"users", "accounts", "projects"}


@pytest.mark.process
def test_tables_of_an_extension_are_no_other_programs() -> None:
    address = bare_database()
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("CREATE TABLE spatial_ref_sys (id BIGINT)")
        connection.execute("CREATE VIEW of_theirs AS SELECT 1 AS one")
        connection.execute("CREATE EXTENSION IF NOT EXISTS plpgsql")
        for kind, name in (("TABLE", "spatial_ref_sys"), ("VIEW", "of_theirs")):
            connection.execute(f"ALTER EXTENSION plpgsql ADD {kind} {name}".encode())
        try:
            done = CliRunner().invoke(main, ["projects", "list", "--database", address])
            assert done.exit_code == 0, done.output
        finally:
            for kind, name in (("TABLE", "spatial_ref_sys"), ("VIEW", "of_theirs")):
                connection.execute(f"ALTER EXTENSION plpgsql DROP {kind} {name}".encode())
