"""Checkpoints outside the ledger name one that was rolled back or is a fork."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from ledger_engine.core.tenant import Tenant
from ledger_engine.events.webhooks.signing import Seal
from ledger_engine.ledger import accounts, transactions
from ledger_engine.ledger.accounts import NewAccount
from ledger_engine.ledger.transactions import NewTransaction
from ledger_engine.log import keys, notes, publishing, stored
from ledger_engine.log.checkpoints import Checkpoint, Proof
from ledger_engine.log.entries import LoggedBook
from ledger_engine.log.notes import SigningKey, VerifierKey
from ledger_engine.log.publishing import CheckpointPlaces, Publisher, WitnessAddress
from ledger_engine.log.sealer import Sealer
from ledger_engine.log.witness import Witness, WitnessAnswer, listen
from ledger_engine.store import Unit
from ledger_engine.store.engine import Engine
from tests.contract.rules import holds
from tests.ledger_engine.conftest import Run
from tests.ledger_engine.manual_clock import ManualClock

NAME = "ledger.example"


class Counted(Witness):
    """A witness that remembers the statuses of its answers."""

    def __init__(self, folder: Path, watched: dict[str, list[VerifierKey]]) -> None:
        super().__init__(folder, watched)
        self.answered: list[int] = []

    def add_checkpoint(self, body: bytes) -> WitnessAnswer:
        answer = super().add_checkpoint(body)
        self.answered.append(answer.status)
        return answer


class Watching:
    """A witness that serves, and the keys it trusts."""

    def __init__(self, folder: Path) -> None:
        self.trusted: dict[str, list[VerifierKey]] = {}
        self.witness = Counted(folder, self.trusted)
        self.server = listen(self.witness, "127.0.0.1", 0)
        self.address = WitnessAddress(f"http://127.0.0.1:{self.server.server_port}/", self.witness.verifier)


@pytest.fixture
def watching(tmp_path: Path) -> Iterator[Watching]:
    found = Watching(tmp_path / "witness")
    thread = threading.Thread(target=found.server.serve_forever)
    thread.start()
    yield found
    found.server.shutdown()
    thread.join()
    found.server.server_close()


@pytest.fixture
async def account(write: Run) -> str:
    return str((await write(accounts.create, NewAccount("Till", "EUR", {}))).id)


async def post(engine: Engine, tenant: Tenant, account: str) -> str:
    new = NewTransaction(account, 5, "credit")
    return str((await engine.write(partial(transactions.post, tenant=tenant, new=new))).id)


async def publish(engine: Engine, outside: CheckpointPlaces) -> Publisher:
    """Seal and publish as a server does that starts now."""
    sealer = Sealer(engine, Seal(None), NAME, outside)
    await sealer.seal()
    await sealer._publisher.publish()
    return sealer._publisher


async def trust(engine: Engine, tenant: Tenant, watching: Watching) -> VerifierKey:
    """Have the witness trust the log's key."""
    await Sealer(engine, Seal(None), NAME).seal()

    def find(unit: Unit) -> VerifierKey:
        return keys.public(unit, stored.of_tenant(unit, tenant).book)[0].verifier

    key = await engine.read(find)
    watching.trusted[key.name] = [key]
    return key


def take_back(unit: Unit, tenant: Tenant, last: str) -> None:
    """Remove the newest event and seal the rest, as one who has the file and the key can."""
    book = stored.of_tenant(unit, tenant).book.number
    unit.execute("DELETE FROM events WHERE book = :book AND object = :last", {"book": book, "last": last})
    for table in ("logs", "log_tiles", "log_cosignatures"):
        unit.execute(f"DELETE FROM {table} WHERE book = :book", {"book": book})


async def test_a_witness_signs_each_checkpoint_and_the_proofs_have_its_signature(
    engine: Engine, tenant: Tenant, account: str, watching: Watching, read: Run
) -> None:
    key = await trust(engine, tenant, watching)
    outside = CheckpointPlaces(witnesses=[watching.address])
    for _ in range(3):
        posted = await post(engine, tenant, account)
        await publish(engine, outside)
        checkpoint = Checkpoint.parse(await read(stored.checkpoint_note))
        assert checkpoint.witness_time(watching.witness.verifier)
        proof = Proof.parse(await read(stored.proof_of_transaction, posted))
        proof.checkpoint.require_log(key)
        assert proof.checkpoint.witness_time(watching.witness.verifier)
    # A later entry has a proof without it until the witness has signed again, an earlier one keeps its own.
    newest = await post(engine, tenant, account)
    await Sealer(engine, Seal(None), NAME).seal()
    sizes = [
        Proof.parse(await read(stored.proof_of_transaction, id)).checkpoint.size for id in (posted, newest)
    ]
    assert sizes == [4, 5]
    assert engine.notice is None


async def test_a_ledger_that_was_rolled_back_is_named_by_the_witness(
    engine: Engine, tenant: Tenant, account: str, watching: Watching
) -> None:
    key = await trust(engine, tenant, watching)
    outside = CheckpointPlaces(witnesses=[watching.address])
    last = await post(engine, tenant, account)
    await publish(engine, outside)
    await engine.write(partial(take_back, tenant=tenant, last=last))
    name = watching.witness.verifier.name
    await publish(engine, outside)
    assert engine.notice == (
        f"The witness {name} has signed 2 entries of {key.name}, and this ledger has 1: this ledger was"
        " rolled back, or is a fork."
    )
    # When it has grown again it is a fork.
    for _ in range(2):
        await post(engine, tenant, account)
    await publish(engine, outside)
    assert engine.notice == (
        f"The witness {name} has signed another history of {key.name}, in its first 2 entries: this ledger"
        " was rolled back, or is a fork."
    )


async def test_a_witness_is_asked_once_for_each_checkpoint_and_with_the_size_that_it_signed(
    engine: Engine, tenant: Tenant, account: str, watching: Watching, tmp_path: Path
) -> None:
    await trust(engine, tenant, watching)
    other = Watching(tmp_path / "another witness")  # which never answers, as nobody serves for it
    outside = CheckpointPlaces(
        witnesses=[watching.address, WitnessAddress("http://127.0.0.1:9", other.address.key)]
    )
    other.server.server_close()
    for _ in range(3):
        await post(engine, tenant, account)
        publisher = await publish(engine, outside)
        await publisher.publish()
    assert watching.witness.answered == [200, 200, 200]
    assert engine.notice is not None
    assert engine.notice.startswith(f"The witness {other.address.key.name} cannot be reached: ")


async def test_a_refusal_by_a_witness_is_reported_until_it_signs(
    engine: Engine, tenant: Tenant, account: str, watching: Watching
) -> None:
    outside = CheckpointPlaces(witnesses=[watching.address])
    name = watching.witness.verifier.name
    publisher = await publish(engine, outside)
    assert engine.notice is not None
    assert engine.notice.startswith(
        f"The witness {name} refuses {NAME}/{tenant.project}/test with status 404"
    )
    await trust(engine, tenant, watching)
    await publisher.publish()
    assert watching.witness.answered == [404], "it is not asked again at once"
    publisher._retry_at.clear()
    await publisher.publish()
    assert watching.witness.answered == [404, 200]
    assert engine.notice is None


async def test_a_witness_that_is_gone_or_signs_with_another_key_is_said(
    engine: Engine, tenant: Tenant, account: str, watching: Watching
) -> None:
    await trust(engine, tenant, watching)
    other = SigningKey("another", notes.WITNESS, bytes(32)).verifier
    await publish(engine, CheckpointPlaces(witnesses=[WitnessAddress(watching.address.url, other)]))
    assert engine.notice == "The witness another answered without a signature that its key made."
    await publish(engine, CheckpointPlaces(witnesses=[WitnessAddress("http://127.0.0.1:9", other)]))
    assert engine.notice is not None
    assert engine.notice.startswith("The witness another cannot be reached: ")


class Redirecting(BaseHTTPRequestHandler):
    """Sends each request on to `elsewhere`."""

    elsewhere = ""

    def do_POST(self) -> None:
        self.send_response(307)
        self.send_header("Location", self.elsewhere + self.path)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


async def test_a_witness_is_not_looked_for_where_it_sends_the_server_on_to(
    engine: Engine, tenant: Tenant, account: str, watching: Watching
) -> None:
    await trust(engine, tenant, watching)
    handler = type("To", (Redirecting,), {"elsewhere": watching.address.url.rstrip("/")})
    with HTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        url = f"http://127.0.0.1:{server.server_port}"
        await publish(engine, CheckpointPlaces(witnesses=[WitnessAddress(url, watching.witness.verifier)]))
        server.shutdown()
        thread.join()
    assert engine.notice is not None
    assert engine.notice.endswith("/test with status 307.")


async def test_a_checkpoint_is_kept_each_minute_and_at_the_end(
    engine: Engine, tenant: Tenant, account: str, clock: ManualClock, tmp_path: Path
) -> None:
    folder = tmp_path / "kept"
    sealer = Sealer(engine, Seal(None), NAME, CheckpointPlaces([folder]))

    async def kept() -> list[str]:
        await sealer.seal()
        await sealer._publisher.publish()
        return sorted(file.name for file in folder.rglob("*.checkpoint"))

    assert await kept() == ["000000000000001-2026-09-21T1413Z.checkpoint"]
    await post(engine, tenant, account)
    assert len(await kept()) == 1
    clock.advance(60_000)
    assert (await kept())[1:] == ["000000000000002-2026-09-21T1414Z.checkpoint"]
    (newest,) = publishing.newest(folder, LoggedBook(1, tenant.project, False))
    assert (newest.origin, newest.size) == (f"{NAME}/{tenant.project}/test", 2)
    sealer._publisher.start()
    await post(engine, tenant, account)
    await sealer.seal()
    await sealer.stop()
    assert len(list(folder.rglob("*.checkpoint"))) == 3


async def test_nothing_goes_on_after_the_stop(engine: Engine, account: str, tmp_path: Path) -> None:
    sealer = Sealer(engine, Seal(None), NAME, CheckpointPlaces([tmp_path / "kept"]))
    before = asyncio.all_tasks()
    sealer.start()
    assert len(asyncio.all_tasks() - before) == 2, "it seals and publishes"
    await sealer.stop()
    assert asyncio.all_tasks() == before


@holds("proof-rolled-back")
async def test_nothing_is_signed_where_a_kept_checkpoint_is_of_another_history(
    engine: Engine, tenant: Tenant, account: str, tmp_path: Path, read: Run
) -> None:
    outside = CheckpointPlaces([tmp_path / "kept"])
    last = await post(engine, tenant, account)
    await publish(engine, outside)
    await engine.write(partial(take_back, tenant=tenant, last=last))
    origin = f"{NAME}/{tenant.project}/test"
    await publish(engine, outside)
    assert engine.notice == (
        f"The log is not signed any more: a kept checkpoint of {origin} has 2 entries, but this ledger"
        " has sealed only 0: it was rolled back, or is a fork."
    )
    await Sealer(engine, Seal(None), NAME).seal()  # as one without the folder does
    for _ in range(2):
        await post(engine, tenant, account)
    await Sealer(engine, Seal(None), NAME).seal()
    await publish(engine, outside)
    assert engine.notice == (
        f"The log is not signed any more: a kept checkpoint of {origin} has 2 entries that differ from"
        " the entries here: this ledger was rolled back, or is a fork."
    )


async def test_no_new_log_is_begun_beside_the_checkpoints_of_one_that_was_removed(
    engine: Engine, tenant: Tenant, account: str, tmp_path: Path, read: Run
) -> None:
    folder = tmp_path / "kept"
    await post(engine, tenant, account)
    await publish(engine, CheckpointPlaces([folder]))
    await engine.write(remove_log)
    other = Sealer(engine, Seal(None), None, CheckpointPlaces([folder]))
    for _ in range(2):
        await other.begin()
        await other.seal()
    assert engine.notice == (
        f"The log is not signed any more: {folder} has a checkpoint of {NAME}/{tenant.project}/test with 2"
        " entries, and this ledger has no log: the log was removed, or this is a fork. To begin a new log,"
        " move the checkpoints of the old log away, or name another folder with --checkpoint-to."
    )
    assert await engine.read(keys.current) is None
    folder.rename(tmp_path / "old")
    await other.seal()
    assert engine.notice is None
    assert Checkpoint.parse(await read(stored.checkpoint_note)).size == 2


async def test_a_log_is_not_signed_in_a_folder_with_another_log_of_its_book(
    engine: Engine, tenant: Tenant, account: str, tmp_path: Path
) -> None:
    folder = tmp_path / "kept"
    await post(engine, tenant, account)
    await publish(engine, CheckpointPlaces([folder]))
    await engine.write(remove_log)
    await Sealer(engine, Seal(None), "other.example").seal()  # as a server without the folder does
    before = sorted(folder.rglob("*"))
    await publish(engine, CheckpointPlaces([folder]))
    assert engine.notice is not None
    assert f"and this ledger has the log other.example/{tenant.project}/test" in engine.notice
    assert sorted(folder.rglob("*")) == before


def remove_log(unit: Unit) -> None:
    for table in ("log_tiles", "logs", "log_commitments", "log_keys"):
        unit.execute(f"DELETE FROM {table}")


async def test_a_folder_that_cannot_be_written_is_said_until_it_can(
    engine: Engine, account: str, tmp_path: Path
) -> None:
    (tmp_path / "kept").write_text("a file")
    publisher = await publish(engine, CheckpointPlaces([tmp_path / "kept"]))
    assert engine.notice == f"Checkpoints cannot be written to {tmp_path / 'kept'}: Not a directory."
    (tmp_path / "kept").unlink()
    await publisher.publish()
    assert engine.notice is None
