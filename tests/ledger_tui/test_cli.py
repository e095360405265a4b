"""The command runs as a program: exit codes, one line on stderr, and the screen in a real terminal."""

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ledger_tui.commands import call
from tests.ledger_tui.contract_server import KEY, ContractServer
from tests.terminal import PATIENCE_SECONDS, Terminal

pytestmark = pytest.mark.process

COMMAND = [sys.executable, "-m", "ledger_tui"]
NO_TERMINAL = "Error: ledger-tui draws on a terminal: stdin, stdout and stderr must all be a terminal.\n"


def run(*arguments: str, key: str | None = None) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "LEDGER_API_KEY"}
    if key is not None:
        environment["LEDGER_API_KEY"] = key
    return subprocess.run(
        [*COMMAND, *arguments], capture_output=True, text=True, timeout=60, env=environment, check=False
    )


@pytest.mark.parametrize("option", ["--help", "-h"])
def test_help_names_every_option(option: str) -> None:
    answer = call(option, environment={"LEDGER_API_KEY": None})
    assert answer.returncode == 0
    for name in ("--demo", "--url", "--key", "--database", "--read-only", "--version", "LEDGER_API_KEY"):
        assert name in answer.stdout


def test_the_version_is_said() -> None:
    answer = run("--version")
    assert (answer.returncode, answer.stdout.split()[0]) == (0, "ledger-tui")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--url", "http://127.0.0.1:1"], "needs a key"),
        (["--url", "127.0.0.1:8700", "--key", "k"], "not an address"),
        (["--url", "ftp://h", "--key", "k"], "not an address"),
        (["--url", "http://h:port", "--key", "k"], "not an address"),
        (["--url", "http://é..x", "--key", "k"], "not an address"),
        (["--url", "http://xn--zz.example", "--key", "k"], "not an address"),
        (["--url", "http://h", "--key", "sk_test_…"], "In place of an example, write your own key."),
        (["--url", "http://h", "--key", "k\nX: y"], "The key contains an invalid character."),
        (["--url", "http://h", "--demo", "--key", "k"], "the dashboard's own"),
        (["--demo", "--database", "f"], "leave out --database"),
        (["--tour", "--url", "http://h", "--key", "k"], "the dashboard's own"),
        (["--demo", "--pace", "2"], "--pace needs --tour"),
        (["--tour", "--pace", "nan"], "'nan' must be a number, 0.2–100."),
        (["--web", "--port", "tcp://"], "'tcp://' must be a number, 0–65535."),
        (["--key", "k"], "--key needs --url"),
        (["--port", "0"], "--port needs --web"),
        (["--resume", "--web"], "--resume does not go with --web"),
        (["--resume", "--demo"], "--resume does not go with --demo"),
        (["--resume", "--tour"], "--resume does not go with --demo"),
        (["--resume", "--of-demo", "--url", "http://h", "--key", "k"], "--resume does not go with --of-demo"),
        (["--of-demo", "--tour"], "--of-demo needs --url"),
        (["--resume"], "draws on a terminal"),
        (["--profile", "shop", "--key", "k"], "--key needs --url. A profile has a key of its own."),
        (["--colour"], "No such option"),
        (["--database", "mysql://h/d"], "--database must be the path of a file or postgresql://"),
        (["profiles", "remove", "a\nb\x1b[31m"], "profiles.a b␛[31m: does not exist"),
        (["extra"], "No such command"),
        ([KEY], "No such command 'sk_test_••••'"),
        (["--profile", KEY], 'no profile is named "sk_test_••••"'),
    ],
)
def test_a_wrong_call_is_exit_2_and_one_line(arguments: list[str], sentence: str) -> None:
    answer = call(*arguments, environment={"LEDGER_API_KEY": None})
    assert (answer.returncode, answer.stdout) == (2, "")
    assert sentence in answer.stderr
    assert len(answer.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("to", "sentence"), [(">&-", "Standard output is closed"), (">/dev/full", "No space left on device")]
)
@pytest.mark.parametrize("words", ["keys", "profiles list --json", "--version"])
def test_output_that_cannot_be_written_is_one_line(
    to: str, sentence: str, words: str, tmp_path: Path
) -> None:
    done = subprocess.run(
        ["sh", "-c", f"exec {shlex.join(COMMAND)} {words} {to}"],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "XDG_CONFIG_HOME": str(tmp_path)},
    )
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert sentence in line


def test_without_a_terminal_it_says_so_and_ends() -> None:
    answer = run("--url", "http://127.0.0.1:1", key=KEY)
    assert answer.returncode == 2
    assert answer.stderr == NO_TERMINAL


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    if shutil.which("tmux") is None:
        pytest.skip("needs tmux for a real terminal; on Debian and Ubuntu: apt install tmux")
    opened = Terminal(tmp_path, 80, 24)
    yield opened
    opened.end()


def test_in_a_real_terminal_it_is_seen_driven_and_left(server: ContractServer, terminal: Terminal) -> None:
    server.add_account("Kuwait branch \x1b]0;owned\x07", "KWD", 1500)
    terminal.start([*COMMAND, "--url", server.url], LEDGER_API_KEY=KEY)
    terminal.sees("Kuwait branch ␛]0;owned␇")
    terminal.sees("1.500  KWD")
    assert " TEST " in terminal.text()
    terminal.press("2")
    terminal.sees("No transactions here.")
    terminal.press("q")
    assert terminal.exit_code() == 0


def test_a_form_that_is_typed_in_one_write_has_each_text_in_its_own_field(
    server: ContractServer, terminal: Terminal
) -> None:
    server.add_account("Card sales")
    server.add_account("Till")
    terminal.start([*COMMAND, "--url", server.url], LEDGER_API_KEY=KEY)
    terminal.sees("Card sales")
    terminal.press("x", "card", "Enter", "12.5", "Tab", "Coins")
    terminal.sees("From *         Till")
    terminal.sees("To *           Card sales")
    terminal.sees("Amount *       12.5")
    terminal.sees("Description    Coins")


def test_with_its_errors_in_a_file_it_says_there_that_it_cannot_draw(
    terminal: Terminal, tmp_path: Path
) -> None:
    log = tmp_path / "err.log"
    command = [*COMMAND, "--url", "http://127.0.0.1:1"]
    terminal.start(["sh", "-c", 'exec "$@" 2>"$0"', str(log), *command], LEDGER_API_KEY=KEY)
    assert terminal.exit_code() == 2
    assert log.read_text(encoding="utf-8") == NO_TERMINAL


def start_with_an_account(server: ContractServer, terminal: Terminal, folder: Path) -> int:
    """Start the dashboard, wait until it shows the account "Kuwait branch", and return its process id."""
    server.add_account("Kuwait branch")
    pid = folder / "pid"
    noted = ["sh", "-c", 'echo $$ > "$0"; exec "$@"', str(pid)]
    terminal.start([*noted, *COMMAND, "--url", server.url], LEDGER_API_KEY=KEY)
    terminal.sees("Kuwait branch")
    return int(pid.read_text(encoding="utf-8"))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_the_terminal_as_a_quit_does(
    server: ContractServer, terminal: Terminal, tmp_path: Path, number: signal.Signals
) -> None:
    pid = start_with_an_account(server, terminal, tmp_path)
    terminal.is_taken(True)
    os.kill(pid, number)
    assert terminal.exit_code() == 0
    terminal.is_taken(False)


def test_it_is_suspended_with_all_of_its_job_and_resumed_where_it_was(
    server: ContractServer, terminal: Terminal
) -> None:
    server.add_account("Kuwait branch")
    terminal.start(["env", "PS1=shell> ", "sh", "-i"], LEDGER_API_KEY=KEY)
    terminal.sees("shell>")
    # It runs inside another program, like in `make run`, which must stop as well.
    wrapped = shlex.join(["sh", "-c", '"$@"; echo left', "sh", *COMMAND, "--url", server.url])
    terminal.press("-l", wrapped)
    terminal.press("Enter")
    terminal.sees("Kuwait branch")
    terminal.press("n")
    terminal.sees("New account")
    for text in ("Bea", "ns"):
        terminal.press("-l", text)
        terminal.sees(f"Name *         {text if text == 'Bea' else 'Beans'}")
        terminal.press("C-z")
        terminal.is_taken(False)
        terminal.press("-l", "echo a$((1+1))shell")
        terminal.press("Enter")
        terminal.sees("a2shell")
        terminal.press("-l", "fg")
        terminal.press("Enter")
        terminal.is_taken(True)
    terminal.sees("Name *         Beans")
    terminal.press("Escape")
    terminal.sees("Leave the form?")
    terminal.press("y")
    terminal.sees_no_more("New account")
    terminal.press("q")
    terminal.sees("left")


def test_a_terminal_that_cannot_draw_gets_a_message(terminal: Terminal) -> None:
    terminal.start(["env", "TERM=dumb", *COMMAND, "--url", "http://127.0.0.1:1"], LEDGER_API_KEY=KEY)
    assert terminal.exit_code() == 2
    assert "cannot draw on a terminal that calls itself TERM=dumb" in terminal.whole_text().replace("\n", "")


def test_a_demo_says_at_its_end_what_to_type_next(terminal: Terminal) -> None:
    terminal.start([str(Path(sys.executable).with_name("ledger-tui")), "--demo"])
    terminal.sees("postings / min")
    terminal.press("q")
    assert terminal.exit_code() == 0
    said = terminal.whole_text().replace("\n", "")
    assert re.search(r"A ledger of your own: \S*ledger-engine serve --database ledger\.db", said)


def test_a_profile_is_asked_with_its_own_key_whatever_the_variable_holds(
    server: ContractServer, terminal: Terminal, tmp_path: Path
) -> None:
    server.add_account("Kuwait branch")
    file = tmp_path / "config.toml"
    file.write_text(f'[profiles.shop]\nurl = "{server.url}"\nkey = "env:SHOP_KEY"\n', encoding="utf-8")
    others = "sk_live_0123456789abcdefghijklmnopqrstuv"
    terminal.start(
        [*COMMAND, "--profile", "shop"], LEDGER_TUI_CONFIG=str(file), SHOP_KEY=KEY, LEDGER_API_KEY=others
    )
    terminal.sees("Kuwait branch")
    terminal.sees(" TEST ")  # tmux may have read the half of a frame so far


def test_stopped_by_a_signal_it_goes_on_where_it_was_and_quits(
    server: ContractServer, terminal: Terminal, tmp_path: Path
) -> None:
    pid = start_with_an_account(server, terminal, tmp_path)
    os.kill(pid, signal.SIGSTOP)
    terminal.reset()
    terminal.sees_no_more("Kuwait branch")
    os.kill(pid, signal.SIGCONT)
    terminal.is_taken(True)
    terminal.sees("Kuwait branch")
    terminal.press("2")
    terminal.sees("No transactions here.")
    terminal.press("q")
    assert terminal.exit_code() == 0


def test_r_writes_the_whole_screen_after_another_program_wrote_on_it(
    server: ContractServer, terminal: Terminal, tmp_path: Path
) -> None:
    start_with_an_account(server, terminal, tmp_path)
    terminal.reset()
    terminal.sees_no_more("Kuwait branch")
    terminal.press("r")
    terminal.sees("Kuwait branch")
    terminal.sees("online")
    terminal.press("q")
    assert terminal.exit_code() == 0


# A terminal sends its signals to the session that has logged in on it, and not to others that have it open.
LOG_IN = "import os, sys; os.login_tty(0); os.execv(sys.argv[1], sys.argv[1:])"
LOGGED_IN = [sys.executable, "-c", LOG_IN]


@pytest.mark.parametrize("prefix", [[], LOGGED_IN], ids=["without signals", "with its signals"])
def test_it_quits_when_its_terminal_is_gone(server: ContractServer, prefix: list[str]) -> None:
    ours, its = os.openpty()
    environment = os.environ | {"LEDGER_API_KEY": KEY, "TERM": "xterm-256color"}
    command = [*prefix, *COMMAND, "--url", server.url]
    process = subprocess.Popen(command, stdin=its, stdout=its, stderr=its, env=environment)
    try:
        os.close(its)
        drawn = b""
        while b" TEST " not in drawn:
            drawn += os.read(ours, 10_000)
        os.close(ours)
        # Not 1, as when a quit takes too long.
        assert process.wait(PATIENCE_SECONDS) == 0
    finally:
        process.kill()
        process.wait()
