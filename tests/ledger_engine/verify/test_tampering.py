"""Whatever somebody changes in a stopped ledger is named, as far as logic allows (docs/verify.md)."""

from __future__ import annotations

import asyncio
import random
import re
import shutil
import sqlite3
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from ledger_engine.core.errors import StorageUnavailable
from ledger_engine.core.settings import Location
from ledger_engine.core.tenant import Tenant
from ledger_engine.ledger import accounts, transactions
from ledger_engine.ledger.accounts import NewAccount
from ledger_engine.ledger.transactions import NewTransaction
from ledger_engine.store import Unit
from ledger_engine.store.engine import open_engine, open_snapshot
from ledger_engine.verify import book, kept
from tests.conftest import Tally
from tests.ledger_engine.verify import ledgers
from tests.ledger_engine.verify.tamperings import EVENT, SEEN, SEEN_BY_CHECKPOINT, SEEN_IN_FILES, UNSEEN
from tests.locations import copy_of_database, execute, place_of_its_own, stored_bytes

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def sound(kind: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[Location, Path]:
    """Return a ledger without a fault, and the file with a checkpoint of it."""
    folder = tmp_path_factory.mktemp("sound")
    ledger = place_of_its_own(kind, folder, "sound")
    ledgers.make(ledger, folder / "outside")
    return ledger, folder / "outside"


@pytest.fixture
def ledger(sound: tuple[Location, Path], tmp_path: Path) -> Location:
    """Return a copy of that ledger, to be tampered with."""
    whole = sound[0]
    return copy_of_database(whole) if isinstance(whole, str) else Path(shutil.copy(whole, tmp_path))


@pytest.fixture
def outside(sound: tuple[Location, Path]) -> Path:
    return sound[1]


def tamper(ledger: Location, statements: str) -> None:
    """Change a ledger as somebody does who has the file, any SQLite tool and no respect."""
    if isinstance(ledger, str):
        for statement in statements.split(";"):
            execute(ledger, statement)
        return
    with closing(sqlite3.connect(ledger)) as opened:
        before = opened.total_changes, opened.execute("PRAGMA schema_version").fetchone()
        opened.executescript(f"PRAGMA foreign_keys=OFF; PRAGMA ignore_check_constraints=ON; {statements}")
        after = opened.total_changes, opened.execute("PRAGMA schema_version").fetchone()
        assert before != after, "nothing was changed"


async def _sealed_again(ledger: Location) -> None:
    engine = open_engine(ledger)
    await ledgers.seal(engine)
    await engine.close()


def test_a_sound_ledger_has_no_fault_and_all_of_it_was_checked(ledger: Location, outside: Path) -> None:
    before = stored_bytes(ledger)
    report = ledgers.verified(ledger, outside)
    assert report.faults == ()
    assert (report.checked["sealed"], report.checked["unsealed"], report.checked["checkpoints"]) == (
        339,
        0,
        1,
    )
    assert report.checked["events"] == 339
    assert stored_bytes(ledger) == before


@pytest.mark.parametrize(("statements", "fault"), SEEN.values(), ids=SEEN)
def test_it_is_named_without_a_checkpoint(ledger: Location, statements: str, fault: str) -> None:
    tamper(ledger, statements)
    faults = ledgers.verified(ledger).faults
    assert fault in {each.kind for each in faults}, faults


def test_a_body_of_another_time_does_not_match_its_columns(ledger: Location) -> None:
    statements, _fault = SEEN["events.body of another time"]
    tamper(ledger, statements)
    messages = [fault.message for fault in ledgers.verified(ledger).faults]
    assert any(
        "its body does not match its columns (id, type, time and object)." in text for text in messages
    )


@pytest.mark.sqlite
@pytest.mark.parametrize(("statements", "fault"), SEEN_IN_FILES.values(), ids=SEEN_IN_FILES)
def test_it_is_named_in_a_file(ledger: Path, statements: str, fault: str) -> None:
    tamper(ledger, statements)
    assert fault in {each.kind for each in ledgers.verified(ledger).faults}


@pytest.mark.parametrize("statements", SEEN_BY_CHECKPOINT.values(), ids=SEEN_BY_CHECKPOINT)
def test_it_is_named_by_a_checkpoint_that_was_kept_elsewhere(
    ledger: Location, outside: Path, statements: str
) -> None:
    tamper(ledger, f"{statements}; DELETE FROM logs; DELETE FROM log_tiles")
    asyncio.run(_sealed_again(ledger))
    assert ledgers.verified(ledger).faults == ()
    assert {fault.kind for fault in ledgers.verified(ledger, outside).faults} == {"checkpoint"}


@pytest.mark.parametrize("statements", UNSEEN.values(), ids=UNSEEN)
def test_it_cannot_be_seen(ledger: Location, outside: Path, statements: str) -> None:
    tamper(ledger, statements)
    assert ledgers.verified(ledger, outside).faults == ()


def test_every_fault_is_named_and_by_the_id_of_its_row(ledger: Location) -> None:
    ids = [id for (id,) in execute(ledger, "SELECT id FROM transactions WHERE amount IN (50, 60, 70)")]
    tamper(ledger, "UPDATE transactions SET balance_after = balance_after + 1 WHERE amount IN (50, 60, 70)")
    named = {each.object for each in ledgers.verified(ledger).faults if each.kind == "transaction"}
    assert named >= set(ids)


def test_the_balances_of_more_accounts_than_are_kept_are_followed(
    ledger: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    asyncio.run(_posted_to_each_of_many(ledger, 20))
    monkeypatch.setattr(book, "BALANCES_MAX", 3)
    report = ledgers.verified(ledger)
    assert report.faults == ()
    ((last,),) = execute(ledger, "SELECT max(id) FROM transactions")
    tamper(ledger, f"UPDATE transactions SET balance_after = balance_after + 1 WHERE id = '{last}'")
    named = {each.object for each in ledgers.verified(ledger).faults if each.kind == "transaction"}
    assert named == {last}


async def _posted_to_each_of_many(ledger: Location, count: int) -> None:
    """Post to many new accounts, to each twice, with the others between."""

    def post(unit: Unit, tenant: Tenant) -> None:
        ids = [accounts.create(unit, tenant, NewAccount(f"No. {n}", "EUR", {})).id for n in range(count)]
        for amount, account in enumerate(ids + ids[::-1] + ids, 1):
            transactions.post(unit, tenant, NewTransaction(account, amount, "credit"))

    engine = open_engine(ledger)
    tenant = await engine.read(lambda unit: Tenant(unit.execute("SELECT id FROM projects")[0]["id"], False))
    await engine.write(partial(post, tenant=tenant))
    await engine.close()


def test_a_forged_event_in_a_full_tile_is_named_by_its_id(ledger: Location) -> None:
    tamper(
        ledger,
        "INSERT INTO events SELECT book, id || '0', 'order.shipped', object, '{}', NULL, created, NULL"
        f" FROM events WHERE id = {EVENT}",
    )
    ((id,),) = execute(ledger, "SELECT id FROM events WHERE body = '{}'")
    assert any(f"{id} was added" in each.message for each in ledgers.verified(ledger).faults)


def test_of_several_checkpoints_those_that_hold_bound_what_was_changed(
    ledger: Location, outside: Path
) -> None:
    ((last,),) = execute(ledger, "SELECT max(id) FROM events")
    asyncio.run(_posted_once_more(ledger))
    asyncio.run(_sealed_again(ledger))
    newer = outside.with_name("newer")
    with open_snapshot(ledger, 1) as snapshot:
        snapshot.start(partial(kept.save, file=newer)).result()
    tamper(ledger, "UPDATE transactions SET description = 'x' WHERE id = (SELECT max(id) FROM transactions)")
    tamper(ledger, "DELETE FROM logs; DELETE FROM log_tiles")
    asyncio.run(_sealed_again(ledger))
    (fault,) = ledgers.verified(ledger, outside, newer).faults
    assert f"some events after {last} up to" in fault.message


def test_a_ledger_that_ends_before_a_checkpoint_is_told(ledger: Location, outside: Path) -> None:
    tamper(ledger, SEEN["the last posting with its event, and all balances"][0])
    faults = ledgers.verified(ledger, outside).faults
    assert any("this ledger ends after 338: the last 1 were removed" in each.message for each in faults)


@pytest.mark.sqlite
def test_a_write_ahead_log_that_was_cut_off_is_told(ledger: Path, tmp_path: Path) -> None:
    """What is left of it is whole, so that nothing in the file itself says that there was more."""
    kept_at, copied = tmp_path / "kept", tmp_path / "copied"
    copied.mkdir()

    async def grow() -> None:
        engine = open_engine(ledger, serving=True)
        tenant = await engine.read(
            lambda unit: Tenant(unit.execute("SELECT id FROM projects")[0]["id"], False)
        )
        for _ in range(5):
            await engine.write(partial(ledgers.late, tenant=tenant))
            await ledgers.seal(engine)
        await engine.read(partial(kept.save, file=kept_at))
        for file in (ledger, ledger.with_name("ledger.db-wal")):
            shutil.copy(file, copied)
        await engine.close()

    asyncio.run(grow())
    whole = (copied / "ledger.db-wal").read_bytes()
    for share in (0.8, 0.5, 0.2):
        cut = Path(shutil.copytree(copied, tmp_path / str(share)))
        (cut / "ledger.db-wal").write_bytes(whole[: int(len(whole) * share)])
        faults = ledgers.verified(cut / "ledger.db", kept_at).faults
        assert any("write-ahead log was cut off" in each.message for each in faults)
    assert ledgers.verified(copied / "ledger.db", kept_at).faults == ()


def test_since_a_checkpoint_only_what_is_newer_is_read(ledger: Location, outside: Path) -> None:
    asyncio.run(_posted_once_more(ledger))
    report = ledgers.verified(ledger, since=outside)
    assert report.faults == ()
    assert (report.checked["transactions"], report.checked["events"]) == (1, 2)
    tamper(
        ledger, "UPDATE transactions SET amount = amount + 1 WHERE id = (SELECT max(id) FROM transactions)"
    )
    assert {each.kind for each in ledgers.verified(ledger, since=outside).faults} == {"transaction"}


async def _posted_once_more(ledger: Location) -> None:
    engine = open_engine(ledger)
    tenant = await engine.read(lambda unit: Tenant(unit.execute("SELECT id FROM projects")[0]["id"], False))
    await engine.write(partial(ledgers.late, tenant=tenant))
    await engine.close()


def test_a_checkpoint_of_another_ledger_is_an_error(ledger: Location, tmp_path: Path, outside: Path) -> None:
    other = tmp_path / "other"
    other.write_text(re.sub("prj_[0-9a-z]*", "prj_x", outside.read_text("utf-8")), "utf-8")
    with pytest.raises(kept.OtherLog, match="contains no such log"):
        ledgers.verified(ledger, other)


# What is compared: all that a fault can name.
_COMPARED = {
    "accounts": "*",
    "transactions": "*",
    "events": "book, id, type, object, body, created",
    "invoices": "*",
    "users": "id, project, livemode, name, email, email_folded, role, status, deactivated_at, created",
    "orders": "*",
    "settlements": "*",
    "counters": "*",
    "logs": "book, size, last, checkpoint",
    "log_tiles": "*",
}


def content(ledger: Path) -> object:
    """Return all that is compared, or the error when it cannot be read."""
    try:
        with closing(sqlite3.connect(ledger)) as opened:
            return [
                sorted(map(repr, opened.execute(f"SELECT {columns} FROM {table} NOT INDEXED")))
                for table, columns in _COMPARED.items()
            ]
    except sqlite3.Error as error:
        return str(error)


def damaged(whole: bytes, chance: random.Random) -> bytes:
    """Return a file with bits turned over, with bytes that are others, or cut off."""
    data = bytearray(whole)
    for _ in range(chance.choice((1, 1, 1, 3, 50))):
        at = chance.randrange(len(data))
        data[at] = data[at] ^ 1 << chance.randrange(8) if chance.random() < 0.5 else chance.randrange(256)
    if chance.random() < 0.05:
        del data[chance.randrange(len(data)) :]
    if chance.random() < 0.05:
        at = chance.randrange(len(data) + 1)
        data[at : at + 4096] = chance.randbytes(4096)
    return bytes(data)


@pytest.mark.soak
@pytest.mark.sqlite
def test_damaged_files_end_in_a_report_and_no_change_passes(
    ledger: Path, outside: Path, soak: int, seed: int, tally: Tally
) -> None:
    chance, whole, right = random.Random(seed), ledger.read_bytes(), content(ledger)
    for number in range(100 if soak == 1 else soak * 400):
        ledger.write_bytes(damaged(whole, chance))
        try:
            faults = ledgers.verified(ledger, outside).faults
        except (StorageUnavailable, kept.OtherLog):
            continue
        assert faults or content(ledger) == right, f"file {number} of seed {seed}"
    tally(files=number + 1)


def test_the_catalogue_has_at_least_133() -> None:
    assert len(SEEN) + len(SEEN_IN_FILES) + len(SEEN_BY_CHECKPOINT) >= 133
