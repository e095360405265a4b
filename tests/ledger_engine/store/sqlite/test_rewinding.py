"""A database is copied, and set back to the copy, while it is in use."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

import pytest

from ledger_engine.core.errors import StorageUnavailable
from ledger_engine.core.ids import IdSource
from ledger_engine.core.tenant import Tenant
from ledger_engine.ledger import accounts
from ledger_engine.ledger.accounts import NewAccount
from ledger_engine.store.engine import Engine
from ledger_engine.store.pages import PageRequest
from tests import auditing
from tests.ledger_engine.conftest import Run


def nothing() -> None:
    pass


async def names(read: Run) -> list[str]:
    return [account.name for account in (await read(accounts.page, PageRequest(100))).items]


async def test_a_replacement_drops_changes_after_the_copy_and_ids_continue_after_the_last_remaining_id(
    engine: Engine, tmp_path: Path, write: Run, read: Run
) -> None:
    kept = await write(accounts.create, NewAccount("kept", "EUR", {}))
    mark, noted = await engine.copy_to(tmp_path / "copy.db", lambda: "noted")
    assert noted == "noted"
    for number in range(5):
        await write(accounts.create, NewAccount(f"gone {number}", "EUR", {}))
    done: list[str] = []
    await engine.replace_by(tmp_path / "copy.db", mark, lambda: done.append("then"))
    assert (await names(read), done) == (["kept"], ["then"])
    again = await write(accounts.create, NewAccount("again", "EUR", {}))
    assert again.id > kept.id
    assert await names(read) == ["again", "kept"]
    assert (await engine.read(auditing.verify)).fault is None


async def test_works_that_arrive_during_a_copy_are_in_the_copy_completely_or_not_at_all(
    engine: Engine, tmp_path: Path, tenant: Tenant, read: Run
) -> None:
    create = partial(accounts.create, tenant=tenant, new=NewAccount("many", "EUR", {}))
    before = [asyncio.create_task(engine.write(create)) for _ in range(20)]
    copying = asyncio.create_task(engine.copy_to(tmp_path / "copy.db", nothing))
    after = [asyncio.create_task(engine.write(create)) for _ in range(20)]
    mark, _ = await copying
    await asyncio.gather(*before, *after)
    assert len(await names(read)) == 40
    await engine.replace_by(tmp_path / "copy.db", mark, nothing)
    assert 0 <= len(await names(read)) <= 40
    assert (await engine.read(auditing.verify)).fault is None


async def test_a_file_that_is_no_ledger_changes_nothing(
    engine: Engine, tmp_path: Path, write: Run, read: Run
) -> None:
    await write(accounts.create, NewAccount("kept", "EUR", {}))
    (tmp_path / "other.db").write_bytes(b"not a database" * 1000)
    for file in ("other.db", "missing.db"):
        with pytest.raises(StorageUnavailable):
            await engine.replace_by(tmp_path / file, (0, 0), nothing)
    await write(accounts.create, NewAccount("also kept", "EUR", {}))
    assert await names(read) == ["also kept", "kept"]


def test_ids_go_back_to_a_mark_and_still_rise() -> None:
    ids = IdSource()
    before = ids.new("acc", 1000)
    mark = ids.mark()
    ids.new("acc", 9000)
    ids.go_back(mark)
    assert before < ids.new("acc", 1000) < ids.new("acc", 1001)
