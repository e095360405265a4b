"""A record in the user's own pager or editor."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from ledger_tui.features.raw import show_in_program


class Terminal:
    """An application that can hand its terminal over."""

    handed_over = 0

    @contextmanager
    def suspend(self) -> Iterator[None]:
        self.handed_over += 1
        yield


RECORD = {"id": "acc_1", "object": "account", "note": "sk_live_0123456789abcdef"}


@pytest.mark.process
def test_the_program_gets_a_private_file_that_is_removed_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = tmp_path / "seen"
    monkeypatch.setenv(
        "PAGER", f"""sh -c 'cat "$0" > {seen}; ls -l "$0" > {seen}.mode; echo "$0" > {seen}.name'"""
    )
    terminal = Terminal()
    assert show_in_program(cast(Any, terminal), "PAGER", RECORD) == ""
    assert terminal.handed_over == 1
    assert json.loads(seen.read_text()) == RECORD | {"note": "sk_live_••••"}
    assert Path(f"{seen}.mode").read_text().startswith("-rw------- ")
    assert not Path(Path(f"{seen}.name").read_text().strip()).exists()


@pytest.mark.process
@pytest.mark.parametrize("kind", ["a/b", "\ud800", "x" * 300, 7])
def test_a_name_from_the_server_is_not_in_the_name_of_the_file(
    kind: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PAGER", "true")
    assert show_in_program(cast(Any, Terminal()), "PAGER", RECORD | {"object": kind}) == ""


@pytest.mark.process
def test_the_program_gets_no_key_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("LEDGER_API_KEY", "SHOP_KEY"):
        monkeypatch.setenv(name, "secret")
    monkeypatch.setenv("OTHER", "sk_live_0123456789abcdef")
    monkeypatch.setenv("SHOWN", "yes")
    monkeypatch.setenv("PAGER", f"sh -c 'env > {tmp_path}/seen'")
    assert show_in_program(cast(Any, Terminal()), "PAGER", RECORD, ["SHOP_KEY"]) == ""
    names = {line.partition("=")[0] for line in (tmp_path / "seen").read_text().splitlines()}
    assert "SHOWN" in names
    assert not names & {"LEDGER_API_KEY", "SHOP_KEY", "OTHER"}


@pytest.mark.process
@pytest.mark.parametrize(
    ("editor", "sentence"),
    [("/no/such/editor", "/no/such/editor cannot be started"), ("false", "false ended with status 1.")],
)
def test_a_program_that_does_not_run_is_told(
    editor: str, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", editor)
    assert sentence in show_in_program(cast(Any, Terminal()), "EDITOR", RECORD)


@pytest.mark.parametrize(
    ("variable", "sentence"),
    [
        ("PAGER", "$PAGER is not set, and none of less, more is installed."),
        ("EDITOR", "$EDITOR is not set, and none of sensible-editor, nano, vi is installed."),
    ],
)
def test_without_any_program_what_can_be_set_is_told(
    variable: str, sentence: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("PAGER", "EDITOR", "VISUAL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    terminal = Terminal()
    assert show_in_program(cast(Any, terminal), variable, RECORD) == sentence
    assert terminal.handed_over == 0
