"""Programs that have no code of ours agree: Go's checksum database, and the page's example."""

from __future__ import annotations

import base64
import json
import os
import random
import runpy
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner
from cryptography.exceptions import InvalidSignature

from ledger_engine.cli import main
from ledger_engine.log.checkpoints import Checkpoint, Proof
from ledger_engine.log.notes import Note, Signature
from tests.ledger_engine.log.logs import KEY, WITNESS, MemoryLog

ROOT = Path(__file__).parents[3]
PROGRAM = Path(__file__).parent / "other_program" / "main.go"
LIBRARY = Path("/usr/share/gocode/src/golang.org/x/mod/sumdb/tlog")
DAMAGED = 1_000
LOG = MemoryLog([b'{"id":"evt_%d","amount":%d}' % (number, number * 7) for number in range(700)])
SIZES = (1, 2, 3, 255, 256, 257, 511, 512, 600, 700)

Damage = Callable[[random.Random, Proof, bytes], tuple[str, bytes]]


def proof_of(index: int, size: int) -> Proof:
    witnessed = LOG.checkpoint(size, cosign=lambda text: [WITNESS.cosign(text, 1_800_000_000)])
    return LOG.proof(index, witnessed)


def flipped(chance: random.Random, value: bytes) -> bytes:
    at = chance.randrange(8 * len(value))
    changed = bytearray(value)
    changed[at // 8] ^= 1 << at % 8
    return bytes(changed)


def _entry(chance: random.Random, proof: Proof, entry: bytes) -> tuple[str, bytes]:
    return str(proof), flipped(chance, entry)


def _index(chance: random.Random, proof: Proof, entry: bytes) -> tuple[str, bytes]:
    other = chance.choice([each for each in range(proof.checkpoint.size + 3) if each != proof.index])
    return str(Proof(other, proof.path, proof.checkpoint)), entry


def _hash(chance: random.Random, proof: Proof, entry: bytes) -> tuple[str, bytes]:
    if not proof.path:
        return _longer(chance, proof, entry)
    path = list(proof.path)
    at = chance.randrange(len(path))
    path[at] = flipped(chance, path[at])
    return str(Proof(proof.index, tuple(path), proof.checkpoint)), entry


def _shorter(chance: random.Random, proof: Proof, entry: bytes) -> tuple[str, bytes]:
    if not proof.path:
        return _longer(chance, proof, entry)
    at = chance.randrange(len(proof.path))
    return str(Proof(proof.index, proof.path[:at] + proof.path[at + 1 :], proof.checkpoint)), entry


def _longer(chance: random.Random, proof: Proof, entry: bytes) -> tuple[str, bytes]:
    at = chance.randint(0, len(proof.path))
    path = (*proof.path[:at], chance.randbytes(32), *proof.path[at:])
    return str(Proof(proof.index, path, proof.checkpoint)), entry


def _signature(chance: random.Random, proof: Proof, entry: bytes) -> tuple[str, bytes]:
    first, *others = proof.checkpoint.note.signatures
    value = flipped(chance, first.key_id + first.value)
    damaged = Signature(first.name, value[:4], value[4:])
    return _with_note(proof, Note(proof.checkpoint.note.text, (damaged, *others))), entry


def _checkpoint(chance: random.Random, proof: Proof, entry: bytes) -> tuple[str, bytes]:
    text = proof.checkpoint.note.text
    at = chance.randrange(len(text))
    other = chance.choice([each for each in "0123456789abcdefABCDEF+/=" if each != text[at]])
    return _with_note(
        proof, Note(text[:at] + other + text[at + 1 :], proof.checkpoint.note.signatures)
    ), entry


def _with_note(proof: Proof, note: Note) -> str:
    checkpoint = proof.checkpoint
    return str(
        Proof(proof.index, proof.path, Checkpoint(checkpoint.origin, checkpoint.size, checkpoint.root, note))
    )


DAMAGES: tuple[Damage, ...] = (_entry, _index, _hash, _shorter, _longer, _signature, _checkpoint)


@pytest.mark.process
def test_go_accepts_every_proof_and_refuses_each_damaged_one(tmp_path: Path) -> None:
    go = shutil.which("go")
    if go is None or not LIBRARY.is_dir():
        pytest.skip("Go with golang-golang-x-mod-dev is not installed (apt install golang-go …)")
    good = [
        (str(proof_of(index, size)), LOG.entries[index])
        for size in SIZES
        for index in sorted({0, size // 3, size // 2, size - 1})
    ]
    chance = random.Random(7)
    bad = []
    for number in range(DAMAGED):
        size = chance.choice(SIZES)
        index = chance.randrange(size)
        bad.append(DAMAGES[number % len(DAMAGES)](chance, proof_of(index, size), LOG.entries[index]))
    asked = [
        {"proof": proof, "entry": base64.b64encode(entry).decode(), "key": str(KEY.verifier)}
        for proof, entry in good + bad
    ]
    ran = subprocess.run(
        [go, "run", str(PROGRAM)],
        input="".join(f"{json.dumps(each)}\n" for each in asked),
        env=os.environ | {"GO111MODULE": "off", "GOPATH": "/usr/share/gocode", "GOFLAGS": ""},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=240,
    )
    answers = ran.stdout.splitlines()
    assert len(answers) == len(asked), ran.stderr
    assert set(answers[: len(good)]) == {"ok"}
    assert "ok" not in answers[len(good) :]


@pytest.mark.process
def test_the_example_checks_a_proof_and_imports_nothing_of_the_ledger(tmp_path: Path) -> None:
    program = ROOT / "examples" / "check_proof.py"
    source = program.read_text(encoding="utf-8")
    assert len(source.splitlines()) <= 95
    assert "ledger_engine" not in source
    (tmp_path / "proof").write_text(str(proof_of(300, 700)), encoding="utf-8")
    (tmp_path / "entry").write_bytes(LOG.entries[300])
    (tmp_path / "other").write_bytes(LOG.entries[301])
    keys = [str(KEY.verifier), str(WITNESS.verifier)]
    signers = "ledger.example/prj_1/test, witness.example/w1"
    said = f"entry 300 of 700 in ledger.example/prj_1/test, signed by {signers}\n"
    assert _run(program, tmp_path, "entry", keys) == (0, said, "")
    refused = (1, "", "not proven: the entry is not in the log\n")
    assert _run(program, tmp_path, "other", keys) == refused


def test_the_example_refuses_each_damaged_proof() -> None:
    check: Callable[..., str] = runpy.run_path(str(ROOT / "examples" / "check_proof.py"))["check"]
    keys = [str(KEY.verifier), [str(WITNESS.verifier)]]
    chance = random.Random(8)
    for number in range(210):
        size = chance.choice(SIZES)
        index = chance.randrange(size)
        proof, entry = proof_of(index, size), LOG.entries[index]
        assert check(str(proof), entry, *keys).startswith(f"entry {index} of {size} in")
        text, other = DAMAGES[number % len(DAMAGES)](chance, proof, entry)
        with pytest.raises((ValueError, LookupError, TypeError, InvalidSignature)):
            check(text, other, *keys)


@pytest.mark.parametrize(
    ("standard", "other"),
    [("\n", "\r\n"), ("\n", "\r"), ("index 60\n", "index 060\n"), ("\n700\n", "\n0700\n"), ("=\n", "=x\n")],
    ids=["CRLF", "CR", "an index with a zero in front", "a size with a zero in front", "more than base64"],
)
def test_a_proof_in_another_form_than_the_standards_is_refused_by_both(
    standard: str, other: str, tmp_path: Path
) -> None:
    proof = str(proof_of(60, 700))
    _refused_by_both(proof, proof.replace(standard, other), tmp_path)


def test_a_proof_without_its_last_newline_is_refused_by_both(tmp_path: Path) -> None:
    proof = str(proof_of(60, 700))
    _refused_by_both(proof, proof.removesuffix("\n"), tmp_path)


def _refused_by_both(proof: str, other: str, folder: Path) -> None:
    """Check both proofs as files with the command and the example: one holds, the other does not."""
    assert proof != other
    (folder / "entry").write_bytes(LOG.entries[60])
    example = runpy.run_path(str(ROOT / "examples" / "check_proof.py"))["main"]
    key = str(KEY.verifier)
    for text, status in ((proof, 0), (other, 1)):
        (folder / "proof").write_bytes(text.encode())
        files = [str(folder / "proof"), str(folder / "entry")]
        checked = CliRunner().invoke(main, ["check-proof", *files, "--log-key", key])
        assert checked.exit_code == status, checked.output
        if status:
            with pytest.raises(SystemExit, match="not proven: "):
                example([*files, key])
        else:
            example([*files, key])


def _run(program: Path, folder: Path, entry: str, keys: list[str]) -> tuple[int, str, str]:
    ran = subprocess.run(
        [sys.executable, "-I", str(program), "proof", entry, *keys],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
    )
    return ran.returncode, ran.stdout, ran.stderr
