"""`ledger-engine listen`; what it hears and forwards is in tests/ledger_engine/cli/test_listening.py."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from ledger_engine.cli import main


@pytest.mark.parametrize(
    "options",
    [
        ("--forward-to", "ftp://127.0.0.1/x", "--url", "http://127.0.0.1:9"),
        ("--forward-to", "http:///x", "--url", "http://127.0.0.1:9"),
        ("--forward-to", "x y", "--url", "http://127.0.0.1:9"),
        ("--forward-to", "127.0.0.1:99999", "--url", "http://127.0.0.1:9"),
        ("--forward-to", "127.0.0.1:3000", "--url", "foo"),
        ("--forward-to", "127.0.0.1:3000", "--url", "ws://127.0.0.1:9"),
    ],
)
def test_an_address_that_is_none_is_a_wrong_call(tmp_path: Path, options: tuple[str, ...]) -> None:
    words = ("listen", "--key", "sk_test_x", "--database", str(tmp_path / "ledger.db"), *options)
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 2
    assert "takes an address like" in done.output
