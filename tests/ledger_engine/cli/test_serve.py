"""What serve prints when it is ready, and its settings: the command line, the environment and the file."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest

from ledger_engine.cli import announcing
from ledger_engine.cli.announcing import announce
from ledger_engine.cli.serve import line_name, serve
from ledger_engine.server import Ready
from tests.ledger_engine.cli.conftest import Command, only_line

# Settings


Options = Callable[..., dict[str, Any]]
ROOT = Path(__file__).parents[3]
OPTIONS = [option for option in serve.params if isinstance(option, click.Option) and not option.hidden]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "ledger.toml"


@pytest.fixture
def options(monkeypatch: pytest.MonkeyPatch) -> Options:
    """Return a function that returns the options of `serve` for these words and variables."""

    def read(*words: object, **environment: str) -> dict[str, Any]:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        return serve.make_context("serve", [str(word) for word in words]).params

    return read


def refusal(options: Options, *words: object, **environment: str) -> str:
    with pytest.raises(click.UsageError) as refused:
        options(*words, **environment)
    return refused.value.format_message()


def test_the_command_line_comes_before_the_environment_and_that_before_the_file(
    options: Options, file: Path
) -> None:
    assert options()["port"] == 8700
    file.write_text("port = 1\n")
    assert options("--config", file)["port"] == 1
    assert options("--config", file, LEDGER_PORT="2")["port"] == 2
    assert options("--config", file, "--port", "3")["port"] == 3
    assert options("--config", file, LEDGER_PORT="")["port"] == 1


def test_the_environment_can_name_the_file(options: Options, file: Path) -> None:
    file.write_text('auth-rate-limit = "7/2"\ninsecure = true\n')
    given = options(LEDGER_CONFIG=str(file))
    assert (given["auth_rate_limit"], given["insecure"]) == ((7, 2), True)


def test_every_option_has_a_variable_and_stands_in_the_table() -> None:
    page = (ROOT / "docs" / "serve.md").read_text(encoding="utf-8")
    for option in OPTIONS:
        assert isinstance(option.envvar, str)
        line = "" if option.name == "config" else f", `{line_name(option)} = "
        assert f"| `{option.envvar}`{line}" in page


def test_flags_and_texts_come_from_the_environment(options: Options) -> None:
    given = options(LEDGER_INSECURE="1", LEDGER_DEMO="true", LEDGER_WEBHOOK_RETRIES="1,2.5")
    assert (given["insecure"], given["demo"], given["webhook_retries_s"]) == (True, True, (1, 2.5))


def test_a_path_in_the_file_is_relative_to_the_file(options: Options, file: Path) -> None:
    file.write_text('certfile = "here.pem"\ndatabase = "/elsewhere/ledger.db"\n')
    (file.parent / "here.pem").touch()
    given = options("--config", file)
    assert (given["certfile"], given["database"]) == (
        file.parent / "here.pem",
        Path("/elsewhere/ledger.db"),
    )


def test_paths_of_an_option_that_takes_several_are_relative_to_the_file_too(
    options: Options, file: Path
) -> None:
    file.write_text('checkpoint-to = ["here", "/elsewhere"]\n')
    assert options("--config", file)["checkpoint_to"] == (file.parent / "here", Path("/elsewhere"))
    file.write_text('checkpoint-to = "here"\n')
    assert options("--config", file)["checkpoint_to"] == (file.parent / "here",)


def test_the_address_of_a_database_in_the_file_is_no_path(options: Options, file: Path) -> None:
    file.write_text('database = "postgresql://ledger@db.example/ledger"\n')
    assert options("--config", file)["database"] == "postgresql://ledger@db.example/ledger"


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("port = 1\nhots = 'x'\n", 2, "hots is not an option of serve; is host meant?"),
        ("trusted_proxies = 1\n", 1, "is trusted-proxies meant?"),
        ("config = 'x'\n", 1, "config is not an option of serve"),
        ("embedded = true\n", 1, "embedded is not an option of serve"),
        ("\n[serve]\nport = 1\n", 2, "serve is not an option of serve"),
        ("port = '1'\n", 1, "port must be a number without quotes"),
        ("port = true\n", 1, "port must be a number without quotes"),
        ("insecure = 1\n", 1, "insecure must be true or false"),
        ("# port\nhost = 5\n", 2, "host must be a text in quotes"),
        ("host = 'a'\nport = 70000\n", 2, "must be a number, 0–65535"),
        ("auth-rate-limit = 'fast'\n", 1, "'fast' must be like 20/5"),
    ],
)
def test_a_line_that_is_wrong_is_named_with_its_number(
    options: Options, file: Path, text: str, line: int, reason: str
) -> None:
    file.write_text(text)
    message = refusal(options, "--config", file)
    assert f"{file}, line {line}" in message
    assert reason in message


@pytest.mark.parametrize(("content", "reason"), [(b"port = ", "is not TOML"), (b"\xff", "is not UTF-8")])
def test_a_file_that_cannot_be_read_is_named(
    options: Options, file: Path, content: bytes, reason: str
) -> None:
    file.write_bytes(content)
    assert f"{file} {reason}" in refusal(options, "--config", file)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *[
            ("PORT", "tcp://10.0.0.1:8700"),
            ("INSECURE", "perhaps"),
            ("CERTFILE", "/nowhere"),
            ("CONFIG", "/no"),
        ],
        *[("METRICS", "9" * 5000), ("AUTH_RATE_LIMIT", f"{'9' * 5000}/1")],
    ],
)
def test_a_variable_that_is_wrong_is_named(options: Options, name: str, value: str) -> None:
    message = refusal(options, **{f"LEDGER_{name}": value})
    assert f"Invalid value for LEDGER_{name}: " in message
    assert value in message


def test_a_bad_value_of_the_command_line_is_named_as_ever(options: Options) -> None:
    assert refusal(options, "--port", "x", LEDGER_PORT="1").startswith("Invalid value for '--port': ")


@pytest.mark.parametrize(
    "key", ["sk_live_" + "a" * 32, "sk_test_" + "a" * 31, "sk_test_" + "ä" * 32, "sk_test_" + "a" * 32 + "\n"]
)
def test_a_known_key_is_a_well_formed_test_key_and_is_not_repeated(command: Command, key: str) -> None:
    line = only_line(command("serve", status=2, LEDGER_API_KEY_TEST=key).stderr)
    assert "--api-key" in line
    assert key[8:] not in line


@pytest.mark.parametrize("port", ["tcp://10.0.0.1:8700", "70000", "1.5"])
def test_a_number_that_is_none_or_out_of_bounds_is_told_the_bounds(options: Options, port: str) -> None:
    said = refusal(options, LEDGER_PORT=port)
    assert said == f"Invalid value for LEDGER_PORT: '{port}' must be a number, 0–65535."


def test_a_flag_that_is_neither_true_nor_false_is_told_so(options: Options) -> None:
    said = refusal(options, LEDGER_INSECURE="maybe")
    assert said == "Invalid value for LEDGER_INSECURE: 'maybe' must be true or false."


# What it prints


@pytest.mark.parametrize(
    ("host", "here"), [("0.0.0.0", "127.0.0.1"), ("[::]", "[::1]"), ("10.0.0.7", "10.0.0.7")]
)
def test_the_request_to_try_goes_to_an_address_that_can_be_asked(
    capsys: pytest.CaptureFixture[str], host: str, here: str
) -> None:
    announce(Ready(f"http://{host}:8700", "sk_test_1", None, None), None, Path("ledger.db"))
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == f"Listening on http://{host}:8700"
    assert printed[2:] == [
        f"Try it in another terminal (http://{here}:8700/docs describes every request):",
        "export LEDGER_API_KEY=sk_test_1",
        f'curl http://{here}:8700/v1/accounts -H "Authorization: Bearer $LEDGER_API_KEY"; echo',
    ]


def test_a_ledger_that_nobody_named_is_named_at_the_start(capsys: pytest.CaptureFixture[str]) -> None:
    announce(Ready("http://127.0.0.1:8700", None, None, None), None, Path("/home/a/ledger.db"), False)
    assert "The ledger is /home/a/ledger.db; --database names another." in capsys.readouterr().out


def test_a_key_goes_to_a_private_file_where_the_output_is_a_journal(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    stream = os.fstat(1)
    monkeypatch.setattr("sys.stdout", os.fdopen(os.dup(1), "w"))
    monkeypatch.setenv("JOURNAL_STREAM", f"{stream.st_dev}:{stream.st_ino}")
    announce(Ready("http://127.0.0.1:8700", "sk_test_1", None, None), None, tmp_path / "ledger.db")
    file = tmp_path / "ledger.db.key"
    assert capfd.readouterr().out.splitlines() == [
        "Listening on http://127.0.0.1:8700",
        f"A test key is in {file}; read it, then delete the file.",
    ]
    assert (file.read_text(), oct(file.stat().st_mode & 0o777)) == ("sk_test_1\n", "0o600")


def test_a_key_is_printed_where_the_output_is_another_stream_than_the_journal(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("sys.stdout", os.fdopen(os.dup(1), "w"))
    monkeypatch.setenv("JOURNAL_STREAM", "8:1")  # of another process that started this one
    announce(Ready("http://127.0.0.1:8700", "sk_test_1", None, None), None, tmp_path / "ledger.db")
    assert "sk_test_1" in capfd.readouterr().out
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("lines", [0, 1, 2])
def test_a_key_is_shown_only_if_the_reader_of_a_pipe_takes_it(
    monkeypatch: pytest.MonkeyPatch, lines: int
) -> None:
    monkeypatch.setattr(announcing, "READ_WITHIN_S", 3600)
    reader, writer = os.pipe()

    def read() -> None:
        for _ in range(lines):
            while os.read(reader, 1) != b"\n":
                pass
        os.close(reader)

    taking = threading.Thread(target=read)
    taking.start()
    with os.fdopen(writer, "w") as output:
        monkeypatch.setattr("sys.stdout", output)
        ready = Ready("http://127.0.0.1:8700", "sk_test_1", None, None)
        was_shown = announce(ready, None, Path("ledger.db"))
        taking.join()
    assert was_shown == (lines == 2)


def test_a_key_that_goes_nowhere_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    ready = Ready("http://127.0.0.1:8700", "sk_test_1", None, None)
    with open(os.devnull, "w") as nowhere:
        monkeypatch.setattr("sys.stdout", nowhere)
        assert not announce(ready, None, Path("ledger.db"))
    monkeypatch.setattr("sys.stdout", None)
    assert not announce(ready, None, Path("ledger.db"))


def test_a_key_that_cannot_be_written_beside_the_database_is_not_shown(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    stream = os.fstat(1)
    monkeypatch.setattr("sys.stdout", os.fdopen(os.dup(1), "w"))
    monkeypatch.setenv("JOURNAL_STREAM", f"{stream.st_dev}:{stream.st_ino}")
    ready = Ready("http://127.0.0.1:8700", "sk_test_1", None, None)
    assert not announce(ready, None, tmp_path / "nowhere" / "ledger.db")
    assert not announce(ready, None, "postgresql://db.example/ledger")
    assert "sk_test_1" not in capfd.readouterr().out
