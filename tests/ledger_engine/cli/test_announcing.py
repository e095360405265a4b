"""What `serve` prints once it serves."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ledger_engine.cli.serve import _announce
from ledger_engine.server import Ready


@pytest.mark.parametrize(
    ("host", "here"), [("0.0.0.0", "127.0.0.1"), ("[::]", "[::1]"), ("10.0.0.7", "10.0.0.7")]
)
def test_the_request_to_try_goes_to_an_address_that_can_be_asked(
    capsys: pytest.CaptureFixture[str], host: str, here: str
) -> None:
    _announce(Ready(f"http://{host}:8700", "sk_test_1", None, None), None, Path("ledger.db"))
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == f"Listening on http://{host}:8700"
    assert printed[2] == f'Try it: curl http://{here}:8700/v1/accounts -H "Authorization: Bearer sk_test_1"'


def test_a_ledger_that_nobody_named_is_named_at_the_start(capsys: pytest.CaptureFixture[str]) -> None:
    _announce(Ready("http://127.0.0.1:8700", None, None, None), None, Path("/home/a/ledger.db"), False)
    assert "The ledger is /home/a/ledger.db; --database names another." in capsys.readouterr().out


def test_a_key_goes_to_a_private_file_where_the_output_is_a_journal(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    stream = os.fstat(1)
    monkeypatch.setattr("sys.stdout", os.fdopen(os.dup(1), "w"))
    monkeypatch.setenv("JOURNAL_STREAM", f"{stream.st_dev}:{stream.st_ino}")
    _announce(Ready("http://127.0.0.1:8700", "sk_test_1", None, None), None, tmp_path / "ledger.db")
    file = tmp_path / "ledger.db.key"
    assert capfd.readouterr().out.splitlines() == [
        "Listening on http://127.0.0.1:8700",
        f"A test key is in {file}; delete the file when you have it.",
    ]
    assert (file.read_text(), oct(file.stat().st_mode & 0o777)) == ("sk_test_1\n", "0o600")


def test_a_key_is_printed_where_the_output_is_another_stream_than_the_journal(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("sys.stdout", os.fdopen(os.dup(1), "w"))
    monkeypatch.setenv("JOURNAL_STREAM", "8:1")  # of another process that started this one
    _announce(Ready("http://127.0.0.1:8700", "sk_test_1", None, None), None, tmp_path / "ledger.db")
    assert "sk_test_1" in capfd.readouterr().out
    assert not list(tmp_path.iterdir())
