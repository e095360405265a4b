"""Each book is sealed in the order of its commits, and what was sealed cannot be changed unseen."""

from __future__ import annotations

import asyncio
import json
from functools import partial
from typing import Any

import pytest

from ledger_engine.core.errors import Conflict, NotFound, PermissionDenied, StorageUnavailable
from ledger_engine.core.tenant import Tenant
from ledger_engine.events import outbox
from ledger_engine.events.webhooks.signing import Seal, WrongKey
from ledger_engine.ledger import accounts, transactions, users
from ledger_engine.ledger.accounts import NewAccount
from ledger_engine.ledger.transactions import NewTransaction
from ledger_engine.ledger.users import NewUser
from ledger_engine.log import entries, keys, notes, sealer, stored, tiles, tree
from ledger_engine.log.checkpoints import Checkpoint, Proof
from ledger_engine.log.entries import LoggedBook
from ledger_engine.log.keys import LogKey
from ledger_engine.log.notes import VerifierKey
from ledger_engine.log.sealer import Sealer
from ledger_engine.log.stored import StoredLog
from ledger_engine.store import Unit
from ledger_engine.store.engine import Engine
from tests.contract.rules import holds
from tests.ledger_engine.conftest import START, Run
from tests.ledger_engine.log.logs import mth
from tests.ledger_engine.manual_clock import ManualClock
from tests.ledger_engine.waiting import looked_until
from tests.stored_events import EVERY_EVENT

NAME = "ledger.example"


@pytest.fixture
def sealing(engine: Engine) -> Sealer:
    return Sealer(engine, Seal(None), NAME)


@pytest.fixture
async def account(write: Run) -> str:
    return str((await write(accounts.create, NewAccount("Till", "EUR", {}))).id)


async def post(engine: Engine, tenant: Tenant, account: str, count: int) -> list[str]:
    new = [NewTransaction(account, number + 1, "credit", f"No. {number} „ü“") for number in range(count)]
    posted = await engine.write(partial(transactions.post_batch, tenant=tenant, batch=new, key=None))
    return [each.id for each in posted]


async def sent(engine: Engine) -> list[dict[str, Any]]:
    """Return the events of the test mode, with the bytes that webhooks deliver under `body`."""
    rows = await engine.read(lambda unit: unit.execute(EVERY_EVENT))
    found = [(outbox.body_of(row), row) for row in rows]
    return [{**json.loads(body), "body": body.encode()} for body, row in found if not row["livemode"]]


async def key_of(engine: Engine, tenant: Tenant) -> VerifierKey:
    def find(unit: Unit) -> VerifierKey:
        return keys.public(unit, stored.of_tenant(unit, tenant).book)[0].verifier

    return await engine.read(find)


@holds("proof-entry", "proof-origin")
async def test_every_event_is_proven_by_the_bytes_that_a_webhook_delivers(
    engine: Engine, tenant: Tenant, account: str, sealing: Sealer, read: Run
) -> None:
    for count in (1, 300, 260):
        await post(engine, tenant, account, count)
        await sealing.seal()
    events = await sent(engine)
    assert len(events) == 562
    key = await key_of(engine, tenant)
    checkpoint = Checkpoint.parse(await read(stored.checkpoint_note))
    checkpoint.require_log(key)
    leaves = [tree.leaf_hash(event["body"]) for event in events]
    assert (checkpoint.size, checkpoint.root) == (562, mth(leaves))
    assert checkpoint.origin == f"{NAME}/{tenant.project}/test"
    for index in (0, 1, 255, 256, 300, 511, 512, 561):
        proof = Proof.parse(await read(stored.proof_of_event, events[index]["id"]))
        assert (proof.index, proof.salt) == (index, None)
        proof.check(events[index]["body"], key)
    transaction = events[40]["data"]["object"]["id"]
    assert Proof.parse(await read(stored.proof_of_transaction, transaction)).index == 40


async def test_the_tiles_lead_to_the_root_and_the_bundles_have_the_entries(
    engine: Engine, tenant: Tenant, account: str, sealing: Sealer, read: Run
) -> None:
    await post(engine, tenant, account, 600)
    await sealing.seal()

    async def tile(path: str) -> bytes:
        found = tiles.parse(path)
        assert found
        return bytes(await read(stored.tile_content, found))

    level = [await tile("0/000"), await tile("0/001"), await tile("0/002.p/89")]
    hashes = [part[at : at + 32] for part in level for at in range(0, len(part), 32)]
    above = await tile("1/000.p/2")
    assert above == tree.root_of(hashes[:256]) + tree.root_of(hashes[256:512])
    assert Checkpoint.parse(await read(stored.checkpoint_note)).root == tree.root_of(hashes)
    bodies = [event["body"] for event in await sent(engine)]
    assert await tile("entries/001") == tiles.bundle(bodies[256:512])
    assert await tile("entries/002.p/3") == tiles.bundle(bodies[512:515])
    for missing in ("0/002", "0/002.p/90", "1/000", "1/000.p/3", "2/000.p/1", "0/003.p/1", "63/000.p/1"):
        with pytest.raises(NotFound):
            await tile(missing)


async def test_a_log_of_three_levels_goes_on_after_a_restart(
    engine: Engine, tenant: Tenant, account: str, read: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Tiles of four hashes have three levels with a hundred events.
    for module in (tree, tiles, stored):
        monkeypatch.setattr(module, "TILE_WIDTH", 4)
        monkeypatch.setattr(module, "TILE_HEIGHT", 2)
    monkeypatch.setattr(sealer, "TILE_HEIGHT", 2)
    for count in (1, 2, 5, 9, 40, 64, 3):
        await post(engine, tenant, account, count)
        await Sealer(engine, Seal(None), NAME).seal()
        events = await sent(engine)
        checkpoint = Checkpoint.parse(await read(stored.checkpoint_note))
        assert checkpoint.root == mth([tree.leaf_hash(event["body"]) for event in events])
    key = await key_of(engine, tenant)
    for index, event in enumerate(events):
        proof = Proof.parse(await read(stored.proof_of_event, event["id"]))
        assert proof.index == index
        proof.check(event["body"], key)


async def test_an_event_that_is_not_sealed_yet_is_reported_as_such(
    engine: Engine, tenant: Tenant, account: str, sealing: Sealer, read: Run
) -> None:
    event = (await sent(engine))[0]["id"]
    with pytest.raises(Conflict, match=f"^{event} is not in the log yet: a server adds it within a second"):
        await read(stored.proof_of_event, event)
    with pytest.raises(Conflict, match=r"^The log has no checkpoint yet: a server signs it within a second"):
        await read(stored.checkpoint_note)
    await sealing.seal()
    (posted,) = await post(engine, tenant, account, 1)
    with pytest.raises(Conflict) as refused:
        await read(stored.proof_of_transaction, posted)
    assert refused.value.code == "not_sealed_yet"


@holds("proof-commitment")
async def test_of_a_user_the_log_has_a_commitment_which_outlives_the_user(
    engine: Engine, tenant: Tenant, sealing: Sealer, write: Run, read: Run
) -> None:
    user = await write(users.create, NewUser("Ada", "ada@example.com", "member"))
    await sealing.seal()
    (event,) = await sent(engine)
    key = await key_of(engine, tenant)
    proof = Proof.parse(await read(stored.proof_of_event, event["id"]))
    assert proof.salt is not None
    assert len(proof.salt) == 16
    proof.check(event["body"], key)
    bundle = await read(stored.tile_content, tiles.LogTile("entries", 0, 1))
    entry = bundle[2:]
    assert b"Ada" not in entry
    assert list(json.loads(entry)) == ["commitment", "created", "id", "livemode", "type"]

    await engine.write(partial(outbox.erase_user, user=user.id, after="", limit=10))
    await Sealer(engine, Seal(None), NAME).seal()
    assert await read(stored.tile_content, tiles.LogTile("entries", 0, 1)) == bundle
    proof = Proof.parse(await read(stored.proof_of_event, event["id"]))
    assert proof.salt is None
    proof.check(entry, key)


async def test_each_event_of_a_user_is_proven_with_its_own_salt(
    engine: Engine, tenant: Tenant, sealing: Sealer, write: Run, read: Run
) -> None:
    for name in ("Ada", "Eve"):
        await write(users.create, NewUser(name, f"{name}@example.com", "member"))
    await sealing.seal()
    key, salts = await key_of(engine, tenant), set()
    for event in await sent(engine):
        proof = Proof.parse(await read(stored.proof_of_event, event["id"]))
        proof.check(event["body"], key)
        salts.add(proof.salt)
    assert len(salts) == 2


async def test_an_event_that_is_longer_than_an_entry_may_be_is_entered_by_its_commitment(
    engine: Engine, account: str, sealing: Sealer, read: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    (event,) = await sent(engine)
    for most, is_whole in ((len(event["body"]), True), (len(event["body"]) - 1, False)):
        monkeypatch.setattr(entries, "ENTRY_MAX", most)
        await sealing.seal()
        proof = Proof.parse(await read(stored.proof_of_event, event["id"]))
        assert (proof.salt is None) is is_whole
        await engine.write(lambda unit: unit.execute("DELETE FROM logs"))
        sealing._edges.clear()


async def test_the_proof_of_a_users_event_needs_the_scope_for_users(
    engine: Engine, tenant: Tenant, sealing: Sealer, write: Run, read: Run
) -> None:
    await write(users.create, NewUser("Ada", "ada@example.com", "member"))
    await sealing.seal()
    (event,) = await sent(engine)
    other = Tenant(tenant.project, livemode=False, scopes=frozenset({"read:projects"}))
    with pytest.raises(PermissionDenied):
        await read(stored.proof_of_event, event["id"], by=other)


@pytest.mark.parametrize("goes_on", [True, False])
async def test_nothing_is_signed_after_what_was_sealed_has_changed(
    engine: Engine, tenant: Tenant, account: str, sealing: Sealer, read: Run, goes_on: bool
) -> None:
    await post(engine, tenant, account, 300)
    await sealing.seal()
    before = await read(stored.checkpoint_note)
    last = (await sent(engine))[-1]["id"]
    await engine.write(lambda unit: unit.execute("DELETE FROM events WHERE id = :id", {"id": last}))
    if goes_on:
        await post(engine, tenant, account, 1)
    await Sealer(engine, Seal(None), NAME).seal()
    assert await read(stored.checkpoint_note) == before
    assert engine.notice == (
        f"The log is not signed any more: the events of {tenant.project}, test mode, do not lead to the"
        " signed checkpoint of 301 entries: some sealed events were changed or removed."
    )


async def test_a_sealer_that_starts_again_signs_a_log_that_was_mended(
    engine: Engine, tenant: Tenant, account: str, sealing: Sealer, read: Run
) -> None:
    await sealing.seal()
    (event,) = await engine.read(lambda unit: unit.execute("SELECT * FROM events"))
    await engine.write(lambda unit: unit.execute("DELETE FROM events WHERE id = :id", {"id": event["id"]}))
    await post(engine, tenant, account, 1)
    other = Sealer(engine, Seal(None), NAME)
    await other.seal()
    assert engine.notice is not None
    row = [event[name] for name in outbox.STORED]
    await engine.write(lambda unit: unit.insert_many(outbox.TABLE, outbox.STORED, [row]))

    async def size() -> int:
        return Checkpoint.parse(await read(stored.checkpoint_note)).size

    other.start()
    try:
        await looked_until(size, lambda found: found == 2)
    finally:
        await other.stop()
    assert engine.notice is None


async def test_the_last_event_of_each_size_is_known_and_none_of_a_size_it_has_not(
    engine: Engine, account: str, tenant: Tenant, sealing: Sealer, read: Run
) -> None:
    await post(engine, tenant, account, 260)
    await sealing.seal()
    await post(engine, tenant, account, 1)
    log = await read(stored.of_tenant)
    ids = [event["id"] for event in await sent(engine)]
    for size in (1, 2, 255, 256, 257, 261):
        assert await engine.read(partial(stored.event_at, log=log, size=size)) == ids[size - 1]
    for size in (-1, 0, 262):
        assert await engine.read(partial(stored.event_at, log=log, size=size)) == ""


async def test_two_sealers_never_sign_two_logs(
    engine: Engine, tenant: Tenant, account: str, sealing: Sealer, read: Run
) -> None:
    other = Sealer(engine, Seal(None), NAME)
    for _ in range(3):
        await post(engine, tenant, account, 30)
        await asyncio.gather(sealing.seal(), other.seal())
    checkpoint = Checkpoint.parse(await read(stored.checkpoint_note))
    leaves = [tree.leaf_hash(event["body"]) for event in await sent(engine)]
    assert (checkpoint.size, checkpoint.root) == (91, mth(leaves))


async def test_a_sealer_goes_on_from_what_another_has_sealed(
    engine: Engine, tenant: Tenant, account: str, sealing: Sealer, read: Run
) -> None:
    other = Sealer(engine, Seal(None), NAME)
    for turn in (sealing, other, sealing, sealing, other):
        await post(engine, tenant, account, 3)
        await turn.seal()
        leaves = [tree.leaf_hash(event["body"]) for event in await sent(engine)]
        assert Checkpoint.parse(await read(stored.checkpoint_note)).root == mth(leaves)


async def test_a_long_backlog_is_sealed_in_parts(
    engine: Engine, tenant: Tenant, account: str, sealing: Sealer, read: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sealer, "READ_AT_ONCE", 16)
    monkeypatch.setattr(sealer, "SIGNED_AT_ONCE", 64)
    await post(engine, tenant, account, 400)
    await sealing.seal()
    leaves = [tree.leaf_hash(event["body"]) for event in await sent(engine)]
    assert Checkpoint.parse(await read(stored.checkpoint_note)).root == mth(leaves)


async def test_a_new_key_signs_all_logs_and_the_one_before_is_remembered(
    engine: Engine, tenant: Tenant, account: str, sealing: Sealer, read: Run, clock: ManualClock
) -> None:
    await sealing.seal()
    old = await key_of(engine, tenant)
    clock.advance(1)
    await engine.write(partial(keys.rotate, private=notes.new_private(), seal=Seal(None)))
    await sealing.seal()
    new = await key_of(engine, tenant)
    checkpoint = Checkpoint.parse(await read(stored.checkpoint_note))
    checkpoint.require_log(new)
    assert checkpoint.note.signature_of(old) is None
    book = (await engine.read(partial(stored.of_tenant, tenant=tenant))).book
    found = await engine.read(partial(keys.public, book=book))
    assert [(each.verifier, each.created, each.retired_at) for each in found] == [
        (new, START + 1, None),
        (old, START, START + 1),
    ]


async def test_before_the_first_start_there_is_no_key(engine: Engine) -> None:
    with pytest.raises(Conflict) as refused:
        await engine.read(keys.require)
    assert refused.value.code == "not_sealed_yet"


async def test_the_key_that_was_made_is_the_one_that_signs(engine: Engine) -> None:
    def add(name: str) -> partial[LogKey]:
        return partial(keys.add, name=name, private=notes.new_private(), seal=Seal(None))

    first = await engine.write(add(NAME))
    assert first == await engine.read(keys.require)
    assert await engine.write(add("of a slower server")) == first
    second = await engine.write(partial(keys.rotate, private=notes.new_private(), seal=Seal(None)))
    assert second == await engine.read(keys.require)
    assert (second.name, second.id) == (NAME, first.id + 1)


async def test_the_key_is_sealed_as_other_secrets_are(engine: Engine, tenant: Tenant, account: str) -> None:
    await Sealer(engine, Seal(None), NAME).seal()
    plain = await engine.read(keys.require)
    await Sealer(engine, Seal("a secret"), NAME).seal()
    sealed = await engine.read(keys.require)
    assert sealed.secret.startswith("fernet:")
    book = LoggedBook(1, tenant.project, False)
    assert sealed.of(book, Seal("a secret")).verifier == plain.of(book, Seal(None)).verifier
    await post(engine, tenant, account, 1)
    with pytest.raises(WrongKey):
        await Sealer(engine, Seal("another"), NAME).seal()
    await Sealer(engine, Seal("another", previous="a secret"), NAME).seal()
    again = await engine.read(keys.require)
    assert again.of(book, Seal("another")).verifier == plain.of(book, Seal(None)).verifier


async def test_a_key_that_cannot_be_read_is_said_and_nothing_is_sealed_until_another_signs(
    engine: Engine, account: str, tenant: Tenant, read: Run
) -> None:
    await Sealer(engine, Seal("a secret"), NAME).seal()
    before = await read(stored.checkpoint_note)
    await post(engine, tenant, account, 1)
    sealing = Sealer(engine, Seal("another"), NAME)
    assert not await sealing._try_to_look()
    assert engine.notice is not None
    assert engine.notice.startswith("The key of the log cannot be read, so nothing is sealed: ")
    assert await read(stored.checkpoint_note) == before
    await engine.write(partial(keys.rotate, private=notes.new_private(), seal=Seal("another")))
    await sealing._try_to_look()
    assert engine.notice is None


async def test_a_server_that_does_not_seal_reports_a_wrong_key_too(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    await Sealer(engine, Seal("a secret"), NAME).seal()

    async def leads() -> bool:
        return False

    monkeypatch.setattr(engine.shared_state.leases, "leads", leads, raising=False)
    await Sealer(engine, Seal("a secret"), NAME)._try_to_look()
    assert engine.notice is None
    await Sealer(engine, Seal("another"), NAME)._try_to_look()
    assert engine.notice is not None
    assert engine.notice.endswith("It was encrypted with another LEDGER_SECRET_KEY.")


async def test_a_key_that_somebody_has_changed_is_said_in_the_health(
    engine: Engine, account: str, tenant: Tenant, read: Run
) -> None:
    await Sealer(engine, Seal(None), NAME).seal()
    await engine.write(partial(execute, sql="UPDATE log_keys SET secret = 'AAAA'"))
    for _ in range(2):
        sealing = Sealer(engine, Seal(None), NAME)
        await post(engine, tenant, account, 1)
        assert not await sealing._try_to_look()
        assert engine.notice == (
            "The key of the log cannot be read, so nothing is sealed: its secret in log_keys does not belong"
            " to its public key. Restore a backup, or make a new key with `ledger-engine log-key rotate`."
        )
    await engine.write(partial(keys.rotate, private=notes.new_private(), seal=Seal(None)))
    await sealing._try_to_look()
    assert engine.notice is None
    assert Checkpoint.parse(await read(stored.checkpoint_note)).size == 3


async def test_a_checkpoint_that_is_garbled_is_said_and_refused_and_nothing_is_signed(
    engine: Engine, account: str, tenant: Tenant, read: Run
) -> None:
    await Sealer(engine, Seal(None), NAME).seal()
    await engine.write(partial(execute, sql="UPDATE logs SET checkpoint = 'garbled'"))
    await Sealer(engine, Seal(None), NAME)._try_to_look()
    assert engine.notice is not None
    assert engine.notice.startswith("The log is not signed any more: ")
    with pytest.raises(StorageUnavailable):
        await read(stored.checkpoint_note)


async def test_a_signature_of_a_witness_that_is_garbled_is_left_out_and_said(
    engine: Engine, account: str, tenant: Tenant, read: Run
) -> None:
    (posted,) = await post(engine, tenant, account, 1)
    await Sealer(engine, Seal(None), NAME).seal()
    before = await read(stored.checkpoint_note)
    garbled = (
        "INSERT INTO log_cosignatures (book, witness, size, checkpoint, line)"
        " SELECT book, 'w.example', size, checkpoint, 'garbled' FROM logs"
    )
    await engine.write(partial(execute, sql=garbled))
    assert await read(stored.checkpoint_note) == before
    await Sealer(engine, Seal(None), NAME)._try_to_look()
    assert engine.notice is not None
    assert engine.notice.startswith("The stored signature of the witness w.example for book ")
    await engine.write(partial(execute, sql="UPDATE log_cosignatures SET checkpoint = 'garbled'"))
    assert Proof.parse(await read(stored.proof_of_transaction, posted)).checkpoint.size == 2


async def test_a_failure_of_the_sealer_is_reported_until_it_works_again(
    engine: Engine, account: str, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    sealing = Sealer(engine, Seal(None), NAME)

    def fail(unit: Unit) -> list[StoredLog]:
        raise RuntimeError("out of order")

    with monkeypatch.context() as patched:
        patched.setattr(stored, "behind", fail)
        assert not await sealing._try_to_look()
    assert engine.notice == "Sealing the log failed: out of order."
    await sealing._try_to_look()
    assert engine.notice is None


def execute(unit: Unit, sql: str) -> None:
    unit.execute(sql)


async def test_it_seals_by_itself_and_wakes_for_each_commit(
    engine: Engine, tenant: Tenant, account: str, sealing: Sealer, read: Run
) -> None:
    sealing.start()
    try:
        for size in (2, 3):
            (posted,) = await post(engine, tenant, account, 1)

            async def proven(posted: str = posted) -> int:
                try:
                    return Proof.parse(await read(stored.proof_of_transaction, posted)).checkpoint.size
                except Conflict:
                    return 0

            assert await looked_until(proven, bool) == size
    finally:
        await sealing.stop()


async def test_a_ledger_without_an_issuer_gets_an_id(engine: Engine, account: str, read: Run) -> None:
    await Sealer(engine, Seal(None)).seal()
    name = Checkpoint.parse(await read(stored.checkpoint_note)).origin.partition("/")[0]
    assert name.startswith("ledger-")
    await Sealer(engine, Seal(None), NAME).seal()
    assert (await engine.read(keys.require)).name == name
