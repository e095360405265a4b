"""A backup that is made while everybody writes is a whole ledger of one moment."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.faults.client import Writers, assert_all_is_there_once, open_accounts, read_all
from tests.faults.server import Server


@pytest.mark.timeout(3600)
async def test_a_backup_under_load_restores_to_a_ledger_that_verifies(
    server: Server, tmp_path: Path, soak: int, seed: int
) -> None:
    key = server.make_key()
    writers = Writers(key, await open_accounts(server.port, key), seed, lambda: server.port)
    for number in range(soak):
        backup = tmp_path / f"backup {number}.db"
        async with writers.writing():
            await writers.until(100)
            before = dict(writers.memory.acknowledged)
            await asyncio.to_thread(server.cli, "backup", str(backup))
            await writers.until(100)
        assert backup.stat().st_mode & 0o777 == 0o600
        restored = Server(tmp_path / f"restored {number}.db")
        restored.cli("restore", str(backup))
        restored.assert_books_are_right()
        restored.start()
        try:
            there = {each["id"]: each for each in await read_all(restored.port, key, "/v1/transactions")}
            # All that was acknowledged before it began, and nothing that nobody ever sent.
            for each in before.values():
                assert there[each["id"]] == each
            sent = {each["id"] for each in await read_all(server.port, key, "/v1/transactions")}
            assert set(there) <= sent
        finally:
            restored.kill()
    assert writers.memory.surprises == []
    await writers.settle()
    await assert_all_is_there_once(server.port, key, writers.memory)


async def test_a_backup_of_a_killed_server_has_all_that_was_acknowledged(
    server: Server, tmp_path: Path, seed: int
) -> None:
    key = server.make_key()
    writers = Writers(key, await open_accounts(server.port, key), seed, lambda: server.port)
    async with writers.writing():
        await writers.until(200)
        server.kill()
    server.cli("backup", str(tmp_path / "backup.db"))
    restored = Server(tmp_path / "restored.db")
    restored.cli("restore", str(tmp_path / "backup.db"))
    restored.start()
    try:
        writers.port = lambda: restored.port
        await writers.settle()
        await assert_all_is_there_once(restored.port, key, writers.memory)
    finally:
        restored.kill()
