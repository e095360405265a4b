"""The commands of the log (docs/verify.md): `checkpoint`, `proof`, `check-proof`, `log-key`, `witness`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ledger_engine.access import projects
from ledger_engine.core.settings import Location
from ledger_engine.core.tenant import Tenant
from ledger_engine.events import outbox
from ledger_engine.events.webhooks.signing import Seal
from ledger_engine.ledger import accounts, transactions, users
from ledger_engine.ledger.transactions import NewTransaction
from ledger_engine.ledger.users import NewUser
from ledger_engine.log import notes
from ledger_engine.log.notes import SigningKey
from ledger_engine.log.sealer import Sealer
from ledger_engine.store import Unit
from ledger_engine.store.engine import Engine, open_engine
from tests.ledger_engine.cli.conftest import Command, only_line

RunJson = Callable[..., Any]


async def _with(database: Location, use: Callable[[Engine], Any]) -> Any:
    engine = open_engine(database)
    try:
        return await use(engine)
    finally:
        await engine.close()


async def _seal(engine: Engine) -> None:
    await Sealer(engine, Seal(None), "ledger.example").seal()


@pytest.fixture
def sealed(database: Location) -> tuple[str, str, bytes]:
    """Return the ids of a sealed transaction and its event, and the body that webhooks deliver."""

    def post(unit: Unit) -> tuple[str, str, bytes]:
        tenant = Tenant(projects.first_or_new(unit)[0].id, livemode=False)
        till = accounts.create(unit, tenant, accounts.NewAccount("Till", "EUR", {})).id
        made = transactions.post(unit, tenant, NewTransaction(till, 5, "credit", "Beans"))
        event = outbox.after(unit, tenant, "", 10)[0][-1]
        return made.id, event.id, event.body.encode()

    async def use(engine: Engine) -> tuple[str, str, bytes]:
        found = await engine.write(post)
        await _seal(engine)
        return found

    result: tuple[str, str, bytes] = asyncio.run(_with(database, use))
    return result


def test_a_proof_is_printed_and_checked_without_the_ledger(
    command: Command, sealed: tuple[str, str, bytes], tmp_path: Path
) -> None:
    transaction, event, body = sealed
    key = only_line(command("log-key", "show").stdout)
    text = command("proof", transaction).stdout
    assert command("proof", event).stdout == text
    (tmp_path / "proof").write_text(text, encoding="utf-8")
    (tmp_path / "entry").write_bytes(body)
    check = ("check-proof", str(tmp_path / "proof"), str(tmp_path / "entry"), "--log-key", key)
    nowhere = {"LEDGER_DATABASE": str(tmp_path / "nothing.db")}
    origin = key.partition("+")[0]
    assert command(*check, **nowhere).stdout == f"Proven: entry 1 of 2 in {origin}.\n"
    (tmp_path / "entry").write_bytes(body.replace(b"Beans", b"Peas!"))
    refused = command(*check, status=1, **nowhere)
    assert only_line(refused.stderr) == (
        "ledger-engine: Not proven: the entry does not lead to the root of the checkpoint."
    )


def test_the_bytes_to_check_are_written_with_the_proof_also_of_a_user_who_is_erased_later(
    command: Command, sealed: tuple[str, str, bytes], database: Location, tmp_path: Path
) -> None:
    transaction, event, body = sealed
    proof, entry = tmp_path / "proof", tmp_path / "entry"
    key = only_line(command("log-key", "show").stdout)

    def prove(id: str) -> bytes:
        proof.write_text(command("proof", id, "--entry", str(entry)).stdout, encoding="utf-8")
        checked = command("check-proof", str(proof), str(entry), "--log-key", key)
        assert only_line(checked.stdout).startswith("Proven: ")
        return entry.read_bytes()

    entry.touch(0o644)
    assert prove(transaction) == prove(event) == body
    assert entry.stat().st_mode & 0o777 == 0o600

    def create(unit: Unit) -> str:
        tenant = Tenant(projects.first_or_new(unit)[0].id, livemode=False)
        return users.create(unit, tenant, NewUser("Ada", "ada@example.com", "member")).id

    async def add(engine: Engine) -> str:
        user = str(await engine.write(create))
        await _seal(engine)
        return user

    async def erase(engine: Engine) -> None:
        await engine.write(partial(outbox.erase_user, user=user, after="", limit=10))

    user = asyncio.run(_with(database, add))
    [created, *_] = json.loads(command("events", "list", "--json").stdout)
    assert json.loads(prove(created["id"]))["data"]["object"]["name"] == "Ada"
    asyncio.run(_with(database, erase))
    assert list(json.loads(prove(created["id"]))) == ["commitment", "created", "id", "livemode", "type"]


def test_the_proof_of_another_log_or_without_a_witness_is_refused(
    command: Command, sealed: tuple[str, str, bytes], tmp_path: Path
) -> None:
    transaction, _, body = sealed
    (tmp_path / "proof").write_text(command("proof", transaction).stdout, encoding="utf-8")
    (tmp_path / "entry").write_bytes(body)
    check = ("check-proof", str(tmp_path / "proof"), str(tmp_path / "entry"), "--log-key")
    key = only_line(command("log-key", "show").stdout)
    other = SigningKey("other.example", notes.LOG, bytes(32)).verifier
    said = only_line(command(*check, str(other), status=2).stderr)
    assert said == (
        f"ledger-engine: The proof is for the log {key.partition('+')[0]},"
        " but the key belongs to other.example."
    )
    witness = SigningKey("w1", notes.WITNESS, bytes(32)).verifier
    said = only_line(command(*check, key, "--witness-key", str(witness), status=1).stderr)
    assert said == "ledger-engine: Not proven: the checkpoint is not signed by w1."
    assert "is not a verifier key" in command(*check, "no key", status=2).stderr


def test_a_checkpoint_is_printed_as_it_is_and_as_json(
    command: Command, run_json: RunJson, sealed: tuple[str, str, bytes]
) -> None:
    text = command("checkpoint").stdout
    found = run_json("checkpoint")
    assert (found["size"], found["checkpoint"]) == (2, text)
    assert text.startswith(f"{found['origin']}\n2\n{found['root']}\n\n— {found['origin']} ")
    assert only_line(command("checkpoint", "--mode", "live", status=1).stderr).startswith(
        "ledger-engine: The log has no checkpoint yet"
    )


def test_a_missing_object_has_no_proof(command: Command, sealed: tuple[str, str, bytes]) -> None:
    for id, kind in (("txn_none", "transaction"), ("evt_none", "event"), ("acc_1", "event")):
        assert only_line(command("proof", id, status=1).stderr) == f"ledger-engine: No such {kind}: '{id}'."


def test_a_new_key_is_made_after_a_question_and_the_one_before_is_remembered(
    command: Command, run_json: RunJson, sealed: tuple[str, str, bytes], database: Location
) -> None:
    old = only_line(command("log-key", "show").stdout)
    refused = command("log-key", "rotate", stdin="n\n", status=1)
    assert "This destroys the key that signs all logs of this ledger" in refused.stderr
    assert only_line(command("log-key", "show").stdout) == old
    assert command("log-key", "rotate", status=1).stdout == ""
    assert only_line(command("log-key", "show").stdout) == old
    done = command("log-key", "rotate", "--yes")
    new = only_line(done.stdout)
    assert new != old
    assert only_line(done.stderr).endswith(old)
    shown = run_json("log-key", "show")
    assert [(each["key"], each["retired_at"] is None) for each in shown] == [(new, True), (old, False)]
    asyncio.run(_with(database, _seal))
    assert json.dumps(command("checkpoint").stdout)


def test_a_ledger_that_was_never_served_has_no_key(command: Command) -> None:
    command("projects", "create", "Roastery")
    said = "ledger-engine: The log has no key yet: the first `ledger-engine serve` makes it."
    for word in ("show", "rotate"):
        assert only_line(command("log-key", word, status=1).stderr) == said


def test_a_witness_says_what_is_wrong_with_its_options(command: Command, tmp_path: Path) -> None:
    key = SigningKey("a/b/test", notes.LOG, bytes(32)).verifier
    run = partial(command, "witness", "--state", str(tmp_path / "w"), status=2)
    said = only_line(run("--listen", "8701", "--watch", f"a/b/test={key}").stderr)
    assert said == "ledger-engine: --listen '8701' must be like 127.0.0.1:8701."
    own = SigningKey("w", notes.WITNESS, bytes(32)).verifier
    assert "is not a log's key" in run("--listen", "127.0.0.1:0", "--watch", f"w={own}").stderr
    assert "is not a verifier key" in run("--listen", "127.0.0.1:0", "--watch", "w").stderr


def test_a_witness_and_its_key_go_together(command: Command) -> None:
    said = only_line(command("serve", "--witness", "http://127.0.0.1:9", status=2).stderr)
    assert said == "ledger-engine: --witness and --witness-key go together: one key for each witness."
    both = ("serve", "--port", "0", "--witness", "http://127.0.0.1:9", "--witness-key")
    assert "is not a verifier key" in command(*both, "x", status=2).stderr
