"""`ledger-engine seed`, `verify`, `backup` and `restore`; what they rest on has tests of its own."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import pty
import re
import signal
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ledger_engine.core.settings import Location
from ledger_engine.core.tenant import Tenant
from ledger_engine.events.webhooks.signing import Seal
from ledger_engine.ledger import accounts
from ledger_engine.ledger.accounts import NewAccount
from ledger_engine.log.sealer import Sealer
from ledger_engine.store.engine import open_engine
from ledger_engine.tools.seed import reading
from ledger_engine.upkeep import backups
from ledger_engine.verify import audit, kept
from tests.forking import Process
from tests.ledger_engine.cli.conftest import Command, RunJson, only_line
from tests.ledger_engine.upkeep.test_backups import post_and_be_killed
from tests.locations import execute
from tests.made_once import put_empty_ledger
from tests.permissions import bound_by_permissions

pytestmark = pytest.mark.process


@pytest.mark.parametrize("name", reading.names())
def test_every_data_set_that_comes_with_the_program_loads_and_verifies(run_json: RunJson, name: str) -> None:
    loaded = run_json("seed", name)
    report = run_json("verify")
    assert report["ok"] is True
    assert report["checked"]["transactions"] == loaded["transactions"] > 0
    assert {"accounts", "invoices", "users", "orders"} <= set(loaded)


def test_a_data_set_makes_the_first_project_or_goes_into_the_one_named(run_json: RunJson) -> None:
    first = run_json("seed", "minimal")["project"]
    assert [project["id"] for project in run_json("projects", "list")] == [first]
    other = run_json("projects", "create", "Bakery")["id"]
    assert run_json("seed", "minimal", "--project", other)["project"] == other


def test_a_data_set_says_what_it_loaded(command: Command) -> None:
    done = command("seed", "minimal")
    assert only_line(done.stdout).startswith(
        "A first ledger: 2 accounts, 16 transactions, 2 invoices, 1 user"
    )
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("words", "label"), [(("seed", "minimal"), b"Loading minimal"), (("verify",), b"Verifying")]
)
def test_in_a_terminal_a_bar_shows_how_far_it_has_come(
    command: Command, database: Location, words: tuple[str, ...], label: bytes
) -> None:
    if words == ("verify",):
        command("seed", "minimal")
    terminal, stderr = pty.openpty()
    process = Process((*words, "--database", str(database)), stderr=stderr)
    os.close(stderr)
    seen = b""
    # A terminal that nobody writes to any more ends with an error.
    with contextlib.suppress(OSError):
        while more := os.read(terminal, 4096):
            seen += more
    os.close(terminal)
    assert process.wait(60) == 0
    assert label in seen
    assert b"100%" in seen


def test_a_data_set_is_loaded_once(command: Command, run_json: RunJson) -> None:
    command("seed", "minimal")
    before = run_json("verify")
    done = command("seed", "minimal", status=1)
    assert "was loaded into" in only_line(done.stderr)
    assert run_json("verify") == before


def test_an_unknown_data_set_is_reported_with_those_there_are(command: Command, database: Location) -> None:
    done = command("seed", "nonsense", status=1)
    assert "roastery" in only_line(done.stderr)
    assert not isinstance(database, Path) or not database.exists()


def test_a_mistake_in_a_data_set_is_reported_with_its_place_and_loads_nothing(
    command: Command, run_json: RunJson, tmp_path: Path
) -> None:
    account = {"ref": "a", "name": "A", "currency": "EUR"}
    bad = {"title": "Bad", "days": 3, "accounts": [account, {"ref": "b", "name": "B", "currency": "XYZ"}]}
    file = tmp_path / "bad.json"
    file.write_text(json.dumps(bad))
    command("projects", "create", "Roastery")
    done = command("seed", str(file), status=1)
    assert "accounts[1].currency: " in done.stderr.splitlines()[-1]
    assert run_json("verify")["checked"]["accounts"] == 0

    new = tmp_path / "new" / "new.db"
    new.parent.mkdir()
    done = command("seed", str(file), "--database", str(new), status=1)
    assert "accounts[1].currency: " in done.stderr.splitlines()[-1]
    command("seed", "minimal", "--project", "prj_x", "--database", str(new), status=1)
    assert list(new.parent.iterdir()) == []


def test_right_books_are_0_and_wrong_ones_1_with_the_first_bad_row(
    command: Command, database: Location
) -> None:
    command("seed", "minimal")
    assert only_line(command("verify").stdout).startswith("The books are correct: 2 accounts")
    execute(database, "UPDATE accounts SET balance = balance + 1 WHERE name = 'Bank'")
    done = command("verify", status=1)
    assert ["acc_" in line for line in done.stderr.splitlines()] == [True, False]
    assert done.stdout == ""


def test_mistakes_are_reported_to_programs_too(command: Command, database: Location) -> None:
    command("seed", "minimal")
    execute(database, "UPDATE accounts SET balance = balance + 1 WHERE name = 'Bank'")
    report = json.loads(command("verify", "--json", status=1).stdout)
    assert list(report) == ["ok", "faults", "checked"]
    assert report["ok"] is False
    assert [each["kind"] for each in report["faults"]] == ["account", "settlement"]
    assert report["faults"][0].keys() == {"kind", "object", "message"}
    assert report["faults"][0]["object"].startswith("acc_")


@pytest.mark.sqlite
def test_a_file_that_cannot_be_read_is_reported_to_programs_too(command: Command, database: Path) -> None:
    database.write_text("dear diary, " * 100)
    report = json.loads(command("verify", "--json", status=1).stdout)
    assert report["ok"] is False
    assert [each["kind"] for each in report["faults"]] == ["damage"]


def test_a_saved_checkpoint_proves_what_came_before_and_is_where_the_next_check_begins(
    command: Command, run_json: RunJson, database: Location, tmp_path: Path
) -> None:
    command("seed", "minimal")
    file = str(tmp_path / "proven")
    assert "no checkpoint to save" in only_line(command("verify", "--save", file, status=1).stderr)
    asyncio.run(_seal(database))
    whole = run_json("verify", "--save", file)
    assert whole == run_json("verify", "--checkpoint", file) | {"checked": whole["checked"]}
    since = run_json("verify", "--since", file, "--checkpoint", file)
    assert (since["ok"], since["checked"]["events"]) == (True, 0)
    assert "were not read again" in only_line(command("verify", "--since", file).stdout)
    other = tmp_path / "other"
    other.write_text(re.sub("prj_[0-9a-z]*", "prj_x", Path(file).read_text("utf-8")), "utf-8")
    assert "contains no such log" in only_line(command("verify", "--checkpoint", str(other), status=2).stderr)
    execute(database, "UPDATE settlements SET balance = balance + 1")
    execute(database, "UPDATE transactions SET description = 'x'")
    before = Path(file).read_bytes()
    done = command("verify", "--checkpoint", file, "--save", file, status=1)
    lines = done.stderr.splitlines()
    assert len(lines) > 2
    assert all(line.startswith("ledger-engine: ") for line in lines)
    assert any(f"{file} does not match" in line for line in lines)
    assert Path(file).read_bytes() == before


def test_a_checkpoint_is_saved_right_after_the_first_posting(
    command: Command, database: Location, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command("projects", "create", "Roastery")
    asyncio.run(_seal(database))  # a server that runs has made the key
    command("seed", "minimal")
    pauses: list[None] = []

    def seal_meanwhile() -> None:
        pauses.append(None)
        thread = threading.Thread(target=lambda: asyncio.run(_seal(database)))
        thread.start()
        thread.join()

    monkeypatch.setattr("ledger_engine.cli.verify.pause", seal_meanwhile)
    command("verify", "--save", str(tmp_path / "proven"))
    assert len(pauses) == 1
    command("verify", "--checkpoint", str(tmp_path / "proven"))


def test_a_checkpoint_is_saved_of_what_was_audited_and_not_of_what_came_later(
    command: Command, run_json: RunJson, database: Location, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command("seed", "minimal")
    asyncio.run(_seal(database))
    audited = audit.verify_all

    def audit_and_grow(*arguments: Any) -> audit.AuditReport:
        report = audited(*arguments)
        grow = threading.Thread(target=lambda: asyncio.run(_opened_once_more_and_sealed(database)))
        grow.start()
        grow.join()
        return report

    monkeypatch.setattr(audit, "verify_all", audit_and_grow)
    checked = run_json("verify", "--save", str(tmp_path / "proven"))["checked"]
    monkeypatch.undo()
    (saved,) = kept.read(tmp_path / "proven")
    assert saved.checkpoint.size == checked["sealed"]
    assert run_json("verify", "--since", str(tmp_path / "proven"))["checked"]["events"] == 1


async def _opened_once_more_and_sealed(database: Location) -> None:
    engine = open_engine(database)
    tenant = await engine.read(lambda unit: Tenant(unit.execute("SELECT id FROM projects")[0]["id"], False))
    await engine.write(partial(accounts.create, tenant=tenant, new=NewAccount("Late", "EUR", {})))
    await engine.close()
    await _seal(database)


async def _seal(database: Location) -> None:
    engine = open_engine(database)
    await Sealer(engine, Seal(None)).seal()
    await engine.close()


@pytest.mark.sqlite
def test_a_point_is_never_written_over_something_else(
    command: Command, database: Path, tmp_path: Path
) -> None:
    command("seed", "minimal")
    before = database.read_bytes()
    assert "has no checkpoints" in only_line(command("verify", "--save", str(database), status=1).stderr)
    assert database.read_bytes() == before
    done = command("verify", "--save", str(tmp_path / "none" / "p.json"), status=1)
    assert "There is no folder" in only_line(done.stderr)


@pytest.mark.sqlite
def test_a_ledger_comes_back_from_its_backup(command: Command, run_json: RunJson, tmp_path: Path) -> None:
    command("seed", "minimal")
    copy = tmp_path / "copy.db"
    assert run_json("backup", str(copy))["transactions"] == 16
    lost = tmp_path / "ledger.db"
    execute(lost, "DELETE FROM transactions")
    restored = run_json("restore", str(copy))
    assert restored["transactions"] == 16
    assert run_json("verify")["ok"] is True
    kept = Path(restored["kept"])
    assert kept.parent == tmp_path
    assert execute(kept, "SELECT count(*) FROM transactions") == [(0,)]


@pytest.mark.sqlite
def test_a_backup_never_overwrites_unless_asked_to(command: Command, tmp_path: Path) -> None:
    command("seed", "minimal")
    there = tmp_path / "there.txt"
    there.write_text("precious")
    assert "--overwrite" in only_line(command("backup", str(there), status=1).stderr)
    assert there.read_text() == "precious"
    command("backup", str(there), "--overwrite")
    assert "checked" in command("restore", str(there)).stdout


@pytest.mark.sqlite
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("words", [("backup", "new.db"), ("restore", "copy.db")], ids=lambda words: words[0])
def test_a_command_that_is_ended_by_a_signal_leaves_nothing_unfinished(
    command: Command,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, str],
    number: signal.Signals,
) -> None:
    command("seed", "minimal")
    command("backup", str(tmp_path / "copy.db"))

    def interrupted(*_: object) -> None:
        assert list(tmp_path.glob(".ledger-part-*/*"))
        os.kill(os.getpid(), number)

    before = signal.signal(number, signal.SIG_DFL)  # as it is outside of a test
    try:
        with monkeypatch.context() as patch:
            patch.setattr(backups, "_require_sound", interrupted)
            command(words[0], str(tmp_path / words[1]), status=128 + number)
    finally:
        signal.signal(number, before)
    left = {path.name for path in tmp_path.iterdir()}
    assert left - {"ledger.db.lock"} == {"copy.db", "ledger.db"}


@pytest.mark.sqlite
def test_a_lost_file_comes_back_from_its_log(
    command: Command, run_json: RunJson, database: Path, tmp_path: Path
) -> None:
    asyncio.run(post_and_be_killed(database, 5))
    database.unlink()
    new = str(tmp_path / "new.db")
    for words in (
        ("verify",),
        ("backup", new),
        ("keys", "list"),
        ("projects", "create", "X"),
        ("seed", "minimal"),
    ):
        assert "ledger-engine recover" in only_line(command(*words, status=1).stderr)
    recovered = run_json("recover", new)
    assert (recovered["transactions"], recovered["doubt"], recovered["damaged_frames"]) == (5, None, 0)
    command("restore", new)
    assert run_json("verify")["checked"]["transactions"] == 5


def test_a_fault_in_one_mode_names_the_mode(command: Command, database: Location) -> None:
    command("seed", "minimal")
    execute(database, "UPDATE counters SET stored_objects = stored_objects + 1")
    assert ", test mode, are off by 1 objects" in only_line(command("verify", status=1).stderr)


@pytest.fixture
def closed_folder(tmp_path: Path) -> Iterator[Path]:
    """A folder with a ledger in which nothing can be written."""
    folder = tmp_path / "closed"
    folder.mkdir()
    put_empty_ledger(folder / "ledger.db")
    folder.chmod(0o555)
    yield folder
    folder.chmod(0o755)


@pytest.mark.sqlite
@pytest.mark.parametrize("words", [("verify",), ("backup", "copy.db"), ("projects", "list")])
def test_a_ledger_whose_folder_cannot_be_written_is_to_be_copied(
    command: Command, closed_folder: Path, words: tuple[str, ...]
) -> None:
    file = closed_folder / "ledger.db"
    with contextlib.chdir(closed_folder.parent):
        done = bound_by_permissions(lambda: command(*words, status=1, LEDGER_DATABASE=str(file)))
    assert only_line(done.stderr) == (
        f"ledger-engine: The storage is not available: {file}: SQLite keeps a log next to it, but"
        f" {closed_folder} cannot be written; copy the file, and its -wal file if there is one, to a folder"
        " that you can write to. Nothing was changed."
    )


@pytest.mark.sqlite
def test_a_backup_is_verified_in_a_folder_that_cannot_be_written(
    command: Command, closed_folder: Path
) -> None:
    command("seed", "minimal")
    closed_folder.chmod(0o755)
    backup = closed_folder / "backup.db"
    command("backup", str(backup))
    closed_folder.chmod(0o555)
    done = bound_by_permissions(lambda: command("verify", LEDGER_DATABASE=str(backup)))
    assert only_line(done.stdout).startswith("The books are correct: 2 accounts, 16 transactions")


@pytest.mark.sqlite
@pytest.mark.parametrize("words", [("backup", "closed/b.db"), ("seed", "minimal")])
def test_a_folder_in_which_nothing_can_be_written_is_named(
    command: Command, database: Path, closed_folder: Path, words: tuple[str, ...]
) -> None:
    put_empty_ledger(database)
    to = {"LEDGER_DATABASE": "closed/new.db"} if words[0] == "seed" else {}
    with contextlib.chdir(closed_folder.parent):
        done = bound_by_permissions(lambda: command(*words, status=1, **to))
    assert only_line(done.stderr) == f"ledger-engine: {closed_folder}: Permission denied"
    assert [each.name for each in closed_folder.iterdir()] == ["ledger.db"]


@pytest.mark.sqlite
def test_a_ledger_that_cannot_be_copied_is_named_before_the_place_of_the_copy(
    command: Command, database: Path, closed_folder: Path
) -> None:
    done = bound_by_permissions(lambda: command("backup", str(closed_folder / "b.db"), status=1))
    assert f"there is no file {database}." in only_line(done.stderr)
