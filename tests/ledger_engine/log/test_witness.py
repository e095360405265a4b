"""A witness answers as C2SP's tlog-witness says, and never signs two histories of a log."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path

import httpx
import pytest

from ledger_engine.log import notes, tree
from ledger_engine.log.checkpoints import Checkpoint
from ledger_engine.log.notes import Note, SigningKey
from ledger_engine.log.witness import SIZE, TEXT, Witness, WitnessAnswer, listen
from tests.ledger_engine.log.logs import KEY, ORIGIN, MemoryLog
from tests.ledger_engine.lost_connections import reset_a_request

LOG = MemoryLog([b"entry %d" % number for number in range(300)])
FORK = MemoryLog([*LOG.entries[:100], *(b"other %d" % number for number in range(200))])


def request(old: int, checkpoint: Checkpoint, path: Sequence[bytes]) -> bytes:
    lines = "".join(f"{notes.encode(hash)}\n" for hash in path)
    return f"old {old}\n{lines}\n{checkpoint.note}".encode()


def asked(witness: Witness, old: int, size: int, log: MemoryLog = LOG) -> WitnessAnswer:
    path = log.hashes(tree.consistency(old, size))
    return witness.add_checkpoint(request(old, log.checkpoint(size), path))


@pytest.fixture
def witness(tmp_path: Path) -> Witness:
    return Witness(tmp_path / "state", {ORIGIN: [KEY.verifier]}, lambda: 1_800_000_000.9)


def test_it_signs_what_continues_the_checkpoint_before(witness: Witness) -> None:
    for old, size in ((0, 1), (1, 100), (100, 100), (100, 300)):
        answer = asked(witness, old, size)
        assert (answer.status, answer.media_type) == (200, TEXT)
        checkpoint = LOG.checkpoint(size)
        signed = Note(checkpoint.note.text, notes.parse_signatures(answer.text))
        signature = signed.signature_of(witness.verifier)
        assert signature is not None
        assert signature.time == 1_800_000_000


def test_it_remembers_its_key_and_what_it_signed(witness: Witness, tmp_path: Path) -> None:
    asked(witness, 0, 100)
    again = Witness(tmp_path / "state", {ORIGIN: [KEY.verifier]})
    assert again.verifier == witness.verifier
    assert asked(again, 0, 300) == WitnessAnswer(409, "100\n", SIZE)
    assert asked(again, 100, 300).status == 200
    assert all(file.stat().st_mode & 0o777 == 0o600 for file in (tmp_path / "state").iterdir())


def test_its_folder_is_made_and_nobody_else_may_read_it(tmp_path: Path) -> None:
    folder = tmp_path / "not there yet" / "state"
    Witness(folder, {})
    assert folder.stat().st_mode & 0o777 == 0o700


def test_a_fork_and_a_log_that_was_rolled_back_are_refused(witness: Witness) -> None:
    asked(witness, 0, 200)
    assert asked(witness, 200, 300, FORK).status == 422
    assert asked(witness, 200, 200, FORK).status == 422
    assert asked(witness, 150, 160) == WitnessAnswer(409, "200\n", SIZE)
    assert asked(witness, 200, 300).status == 200


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"\xff", 400),
        (b"old 0\n\nno checkpoint", 400),
        (request(-1, LOG.checkpoint(3), ()), 400),
        (request(0, LOG.checkpoint(3), ()).replace(b"old 0", b"old 00"), 400),
        (request(0, LOG.checkpoint(3), [bytes(32)] * 64), 400),
        (request(0, LOG.checkpoint(3), [bytes(32)] * 63), 422),
        (request(4, LOG.checkpoint(3), ()), 400),
        (request(0, LOG.checkpoint(3), [bytes(32)]), 422),
        (request(0, LOG.checkpoint(3, SigningKey("other.example", notes.LOG, bytes(32))), ()), 404),
        (request(0, LOG.checkpoint(3, SigningKey(ORIGIN, notes.LOG, bytes(32))), ()), 403),
        (request(0, LOG.checkpoint(3), ()).replace(b"test\n3\n", b"test\n4\n"), 403),
    ],
)
def test_a_request_that_the_standard_refuses_gets_its_status(
    witness: Witness, body: bytes, status: int
) -> None:
    assert witness.add_checkpoint(body).status == status
    assert asked(witness, 0, 1).status == 200, "nothing was remembered of it"


def test_an_empty_log_is_signed_with_the_root_of_the_empty_tree_alone(witness: Witness) -> None:
    assert asked(witness, 0, 0).status == 200
    empty = LOG.checkpoint(0)
    text = empty.note.text.replace(notes.encode(empty.root), notes.encode(bytes(32)))
    other = Checkpoint(ORIGIN, 0, bytes(32), Note(text, (KEY.sign(text),)))
    assert witness.add_checkpoint(request(0, other, ())).status == 422


@pytest.fixture
def address(witness: Witness) -> Iterator[str]:
    server = listen(witness, "127.0.0.1", 0)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_it_answers_over_http_and_shows_what_it_signed_last(address: str, witness: Witness) -> None:
    place = f"{address}/{sha256(ORIGIN.encode()).hexdigest()}/checkpoint"
    with httpx.Client() as client:
        assert client.get(place).status_code == 404
        signed = client.post(f"{address}/add-checkpoint", content=request(0, LOG.checkpoint(3), ()))
        assert (signed.status_code, signed.headers["Content-Type"]) == (200, TEXT)
        refused = client.post(f"{address}/add-checkpoint", content=request(0, LOG.checkpoint(4), ()))
        assert (refused.status_code, refused.headers["Content-Type"], refused.text) == (409, SIZE, "3\n")
        shown = Checkpoint.parse(client.get(place).text)
        shown.require_log(KEY.verifier)
        assert shown.witness_time(witness.verifier) == 1_800_000_000
        for path in ("/", "/add-checkpoint", f"/{'0' * 64}/checkpoint", "/../key"):
            assert client.get(f"{address}{path}").status_code == 404
        assert client.post(f"{address}/other", content=b"").status_code == 404
        assert client.post(f"{address}/add-checkpoint", content=b"x" * 1_000_001).status_code == 413


def test_a_connection_that_is_reset_prints_nothing(address: str, capfd: pytest.CaptureFixture[str]) -> None:
    reset_a_request(httpx.URL(address).port or 0)
    assert "Traceback" not in capfd.readouterr().err


def test_a_signature_that_cannot_be_stored_is_500_with_the_reason(
    address: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("ledger_engine.log.witness.write_private", full)
    answer = httpx.post(f"{address}/add-checkpoint", content=request(0, LOG.checkpoint(3), ()))
    assert (answer.status_code, answer.text) == (
        500,
        "This witness cannot store its signature: No space left on device.\n",
    )
    assert "Traceback" not in capfd.readouterr().err
