"""The command line `ledger-engine`, with one module for each group of commands.

A module is imported when one of its commands runs. `--help` imports none of these modules: with all of them
it would take three times as long. Errors are one line on stderr; the exit status is 1 for a failure, and 2
for wrong usage.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
import threading
from collections import UserDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

import click

from ledger_engine import __version__
from ledger_engine.core.errors import LedgerError
from ledger_engine.core.logs import printable
from ledger_engine.core.masking import masked

_PROGRAM = "ledger-engine"
# The shell sets this variable when it asks click to complete a command.
_COMPLETE_VARIABLE = "_LEDGER_ENGINE_COMPLETE"


class LazyCommands(UserDict[str, click.Command]):
    """The commands of a group by name. A command is imported at its first use.

    `lazy` gives two texts for each command. The first text, such as `users:apps`, names a module in
    `package`, and the variable of this module that contains the command. The second text is the short help.
    """

    def __init__(self, package: str, lazy: Mapping[str, tuple[str, str]]) -> None:
        super().__init__()
        self._package = package
        self._lazy = lazy
        self.data: dict[str, Any] = dict.fromkeys(lazy)  # None until a command is imported

    def __getitem__(self, name: str) -> click.Command:
        if self.data[name] is None:
            module, _, variable = self._lazy[name][0].partition(":")
            self.data[name] = getattr(importlib.import_module(f"{self._package}.{module}"), variable)
        command: click.Command = self.data[name]
        return command

    def short_help(self, name: str, limit: int) -> str:
        """Return the short help of a command without importing the command, in at most `limit` characters."""
        entry = self._lazy.get(name)
        command = self[name] if entry is None else click.Command(name, help=entry[1])
        return command.get_short_help_str(limit)


class OneLineErrors(click.Group):
    """A command group that prints each error as one line. click itself prints three lines."""

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        if not isinstance(self.commands, LazyCommands):
            super().format_commands(context, formatter)
            return
        limit = formatter.width - 6 - max(map(len, self.commands))
        tasks = {task: list(commands) for task, commands in _TASKS.items()}
        tasks["Other"] = [name for name in self.commands if name not in _COMMANDS]
        for task, names in tasks.items():
            with formatter.section(task):
                formatter.write_dl([(name, self.commands.short_help(name, limit)) for name in names])

    def main(self, args: Sequence[str] | None = None, *names: Any, **settings: Any) -> NoReturn:
        settings["standalone_mode"] = False
        try:
            _require_streams()
            with _raise_at_signals():
                status = super().main(args, *names, **settings)
            sys.stdout.flush()
        except click.exceptions.NoArgsIsHelpError as error:
            error.show()
            sys.exit(2)
        except click.ClickException as error:
            _exit_with(error.format_message(), error.exit_code)
        except click.Abort:
            _exit_with("Stopped.", 1)
        except BrokenPipeError:
            # The program that read the output has ended, so this command ends too.
            discard_output()
            sys.exit(1)
        except LedgerError as error:
            _exit_with(str(error), 1)
        except UnicodeEncodeError as error:
            # Python turns the bytes of an argument that are not UTF-8 into lone surrogates.
            if error.encoding == "utf-8":
                _exit_with("An argument is not UTF-8.", 2)
            _exit_with(
                f"The output cannot be written: it contains characters that {error.encoding} lacks.", 1
            )
        except OSError as error:
            where = "" if error.filename is None else f"{error.filename}: "
            _exit_with(str(error) if error.strerror is None else f"{where}{error.strerror}", 1)
        sys.exit(status if isinstance(status, int) else 0)


def _require_streams() -> None:
    """Replace a closed stdin or stderr by the null device. Raises ClickException if stdout is closed.

    Some results are printed only once, such as a new key. So no command may begin if it cannot print.
    """
    if sys.stdin is None:
        sys.stdin = os.fdopen(os.open(os.devnull, os.O_RDONLY))
    if sys.stderr is None:
        sys.stderr = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")
    if sys.stdout is None:
        raise click.ClickException("Standard output is closed. To discard the output, use >/dev/null.")


@contextmanager
def _raise_at_signals() -> Iterator[None]:
    """Make SIGTERM and SIGHUP raise SystemExit in the command, so that it removes its unfinished files.

    `serve` and `listen` handle these signals themselves.
    """
    former_handlers = {}
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is signal.SIG_DFL:  # nohup ignores SIGHUP: leave it ignored
                former_handlers[number] = signal.signal(number, _stop)
    try:
        yield
    finally:
        for number, handler in former_handlers.items():
            signal.signal(number, handler)


def _stop(number: int, _: object) -> NoReturn:
    sys.exit(128 + number)


def _exit_with(message: str, status: int) -> NoReturn:
    # The message can quote an argument that is a key. Mask the key, so that no screen or log shows it.
    click.echo(f"ledger-engine: {printable(masked(' '.join(message.split())))}", err=True)
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        discard_output()
    sys.exit(status)


def discard_output() -> None:
    """Send stdout to the null device.

    Call this when a write has failed because the program that reads stdout has ended. Otherwise Python, which
    flushes stdout at exit, would fail with the same error again.
    """
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


# The commands in the sections of `--help`. Each line: the module and variable of a command, and its short
# help.
_TASKS = {
    "Serve and look": {
        "serve": ("serve:serve", "Serve the ledger over HTTP."),
        "status": (
            "status:status",
            "Show the server, keys, backups, log and notice of a ledger.",
        ),
        "api": ("api:api", "Send one request and print the answer."),
        "post": (
            "post:post",
            "Post a transaction, or the transactions of a file.",
        ),
        "trigger": (
            "api:trigger",
            "Make an event of a type happen, in test mode.",
        ),
        "listen": (
            "listen:listen",
            "Forward each event of a server to a URL of yours.",
        ),
        "tail": ("listen:tail", "Print each event of a server as it happens."),
    },
    "Projects, keys and users": {
        "projects": ("access:projects", "Create, list, change, archive and restore projects."),
        "keys": ("access:keys", "Create, list, revoke and roll API keys."),
        "users": ("users:users", "Create and list users, and set their passwords."),
        "apps": ("users:apps", "Manage the OAuth apps that users can authorize."),
    },
    "Data": {
        "seed": ("data:seed", "Load a demo data set."),
        "export": (
            "data:export",
            "Write transactions for an accounting program.",
        ),
        "events": ("events:events", "List events and send them again."),
        "webhooks": (
            "events:webhooks",
            "Manage webhook endpoints and list their deliveries.",
        ),
    },
    "Backups and moves": {
        "backup": ("data:backup", "Copy the ledger to a file and check the copy."),
        "restore": ("data:restore", "Replace the database with a backup."),
        "recover": ("data:recover", "Rebuild a lost database from its log."),
        "migrate": (
            "data:migrate",
            "Copy a ledger between SQLite and PostgreSQL.",
        ),
    },
    "Checks and proof": {
        "verify": ("verify:verify", "Recompute every balance and compare it with the stored one."),
        "checkpoint": (
            "log:checkpoint",
            "Print the last signed checkpoint of a log.",
        ),
        "proof": ("log:proof", "Print the proof that an event is in its log."),
        "check-proof": (
            "log:check_proof",
            "Check a proof without a ledger.",
        ),
        "log-key": ("log:log_key", "Show the key that signs the logs, or make a new one."),
        "witness": (
            "log:witness",
            "Sign the checkpoints of other ledgers' logs.",
        ),
        "conform": (
            "api:conform",
            "Check a server against the contract.",
        ),
    },
}
_COMMANDS = {name: command for commands in _TASKS.values() for name, command in commands.items()}


@click.group(
    cls=OneLineErrors,
    commands=LazyCommands(__name__, _COMMANDS),
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name=_PROGRAM, message="%(prog)s %(version)s")
def main() -> None:
    """Serve a ledger over HTTP from one SQLite file or from PostgreSQL, and administer it."""


@main.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, /, shell: str) -> None:
    """Print the completion script for a shell: bash, zsh or fish.

    For bash, for instance, add to ~/.bashrc: eval "$(ledger-engine completion bash)"
    """
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None, "click completes in these shells"
    click.echo(kind(context.find_root().command, {}, _PROGRAM, _COMPLETE_VARIABLE).source())
