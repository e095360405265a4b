"""The reader of HTTP holds against requests that are chosen by the code that they reach."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import Tally
from tests.contract.mutations import HEADERS, Mutations
from tests.ledger_engine.http.wire.test_splits import STREAMS
from tests.trust.chosen_requests import BROKEN

REQUESTS = 10_000
OF_ONE_PROCESS = 50_000  # what it takes of memory grows
FIRST = 100
DONE = re.compile(r"^Done (\d+) runs", re.MULTILINE)
COVERED = re.compile(r"cov: (\d+)")

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(
        importlib.util.find_spec("atheris") is None,
        reason="needs atheris, which `make trust` installs where there is a wheel of it for this Python",
    ),
]


def first_requests(folder: Path, seed: int) -> Path:
    """Write those of other tests to a folder, where what is found is added."""
    first = folder / "found"
    first.mkdir()
    mutations = Mutations(seed, "sk_test_" + "A" * 32)
    sent = [each for each, _ in STREAMS] + [b"".join(mutations.next().pieces) for _ in range(FIRST)]
    for number, each in enumerate(sent):
        (first / str(number)).write_bytes(b"\7" + each)
    return first


def send(found: Path, count: int, seed: int, *options: str) -> subprocess.CompletedProcess[str]:
    """Send so many requests to the reader, made from those that were found."""
    dictionary = found.with_name("words")
    words = ["".join(f"\\x{byte:02x}" for byte in each.encode("latin-1")) for each in HEADERS if each]
    dictionary.write_text("".join(f'"{word}"\n' for word in words))
    return subprocess.run(
        (
            *(sys.executable, "-m", "tests.trust.chosen_requests", *options, f"-runs={count}"),
            *(f"-seed={1 + seed % 2**31}", "-max_len=4096", f"-dict={dictionary}", "-timeout=60"),
            *(f"-artifact_prefix={found.parent}/", str(found)),
        ),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=Path(__file__).parents[2],
    )


@pytest.mark.timeout(3600)
def test_a_request_that_reaches_new_code_is_answered_alike_in_one_piece_and_in_many(
    tmp_path: Path, soak: int, seed: int, tally: Tally
) -> None:
    found = first_requests(tmp_path, seed)
    for begun in range(0, REQUESTS * soak, OF_ONE_PROCESS):
        due = min(OF_ONE_PROCESS, REQUESTS * soak - begun)
        done = send(found, due, seed + begun)
        assert done.returncode == 0, done.stdout[-5000:]
        assert int(COVERED.findall(done.stdout)[-1]) > 100, "the reader is not looked into"
        assert int(DONE.findall(done.stdout)[0]) >= due
        tally(requests=due)
    tally(kept=len(list(found.iterdir())))


@pytest.mark.timeout(600)
def test_a_reader_that_fails_at_one_header_is_found(tmp_path: Path, seed: int) -> None:
    done = send(first_requests(tmp_path, seed), 200_000, seed, BROKEN)
    assert done.returncode != 0
    assert "two lengths" in done.stdout
