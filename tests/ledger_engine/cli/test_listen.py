"""`ledger-engine listen`; what it receives and forwards is in tests/ledger_engine/test_listening.py."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from ledger_engine.cli import main, options

URL = ("--url", "http://127.0.0.1:9")
TARGET = ("--forward-to", "127.0.0.1:3000")


def listen(folder: Path, *options: str, key: str = "sk_test_x") -> Result:
    words = ("listen", "--key", key, "--database", str(folder / "ledger.db"), *options)
    return CliRunner().invoke(main, words)


@pytest.mark.parametrize(
    "options",
    [
        ("--forward-to", "ftp://127.0.0.1/x", *URL),
        ("--forward-to", "http:///x", *URL),
        ("--forward-to", "x y", *URL),
        ("--forward-to", "127.0.0.1:99999", *URL),
        ("--forward-to", "127.0.0.1:0", *URL),
        ("--forward-to", "é..x", *URL),
        (*TARGET, "--url", "foo"),
        (*TARGET, "--url", "ws://127.0.0.1:9"),
        (*TARGET, "--url", "http://é..x"),
        (*TARGET, "--url", "http://xn--zz.example"),
        (*TARGET, "--url", "http://me:secret@127.0.0.1:9"),
        (*TARGET, "--url", "http://127.0.0.1:9/?x=1"),
    ],
)
def test_an_address_that_cannot_be_asked_is_a_wrong_call(tmp_path: Path, options: tuple[str, ...]) -> None:
    done = listen(tmp_path, *options)
    assert done.exit_code == 2
    assert "is not an address like" in done.output
    assert len(done.output.splitlines()) == 1


@pytest.mark.parametrize("words", [("listen", "--forward-to", "3000"), ("tail",)])
def test_a_server_that_never_answered_is_refused_at_once(tmp_path: Path, words: tuple[str, ...]) -> None:
    done = CliRunner().invoke(
        main, [*words, *URL, "--key", "sk_test_x"], env={"XDG_DATA_HOME": str(tmp_path)}
    )
    assert done.exit_code == 1
    assert done.output == "ledger-engine: http://127.0.0.1:9 cannot be reached: connection refused.\n"


def test_a_home_in_which_the_secret_cannot_be_kept_is_one_line() -> None:
    words = ("listen", "--forward-to", "3000", *URL, "--key", "sk_test_x")
    done = CliRunner().invoke(main, words, env={"HOME": "/proc", "XDG_DATA_HOME": ""})
    assert done.exit_code == 1
    assert done.output.startswith("ledger-engine: Your data directory cannot be created")
    assert len(done.output.splitlines()) == 1


def test_a_port_alone_is_a_handler_on_this_machine() -> None:
    handler, server = options.url(default_scheme="http"), options.url(server=True)
    assert handler.convert("3000", None, None) == "http://localhost:3000"
    with pytest.raises(click.BadParameter):
        handler.convert("99999", None, None)
    with pytest.raises(click.BadParameter):
        server.convert("3000", None, None)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--events", "invoice.paid,invoice.pays"), "'invoice.pays' is not one of account.created, "),
        (("--events", ""), "'' is not one of account.created, "),
        (("--headers", "X-Tenant"), "'X-Tenant' must be like X-Tenant:1, in ASCII."),
        (("--headers", "X-Tenant:1,a b:2"), "'a b:2' must be like X-Tenant:1, in ASCII."),
        (("--headers", "X-Tenant:é"), "'X-Tenant:é' must be like X-Tenant:1, in ASCII."),
    ],
)
def test_a_type_that_is_none_and_a_bad_header_are_named(
    tmp_path: Path, options: tuple[str, ...], words: str
) -> None:
    done = listen(tmp_path, *TARGET, *URL, *options)
    assert done.exit_code == 2
    assert words in done.output


@pytest.mark.parametrize("key", ["sk_tést", "", "a b", "a\nb"])
def test_a_key_that_cannot_be_sent_is_a_wrong_call_that_does_not_repeat_it(tmp_path: Path, key: str) -> None:
    done = listen(tmp_path, *TARGET, *URL, key=key)
    assert done.exit_code == 2
    assert done.output == (
        "ledger-engine: Invalid value for '--key': the key is empty, or contains characters that no "
        "key contains.\n"
    )
