"""The entry point of `ledger.pyz`, which contains both the dashboard and the commands of `ledger-engine`."""

import signal
import sys
from copy import copy

from ledger_engine import __version__


def main() -> None:
    """Run the `ledger-engine` command that the first argument names; if it names none, run the dashboard.

    The command line of `ledger-engine` is imported only if the first argument is a word or asks for help. So
    opening the dashboard, with or without options, does not load this command line.
    """
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # only during the imports, as in `__main__`
    first = sys.argv[1] if len(sys.argv) > 1 else ""
    if first and not first.startswith("-") and first in _commands():
        from ledger_engine.cli import main as engine

        _raise_at_ctrl_c()
        engine()
        return
    from ledger_tui.cli import command
    from ledger_tui.cli import main as dashboard

    _raise_at_ctrl_c()
    if first == "--version":
        print(f"ledger {__version__}")
    elif first in ("-h", "--help"):
        # Some names are commands of both programs. Here such a name runs the command of ledger-engine, so the
        # dashboard's help leaves it out.
        own_command = copy(command)
        own_command.commands = {
            name: each for name, each in command.commands.items() if name not in _commands()
        }
        own_command.main(["--help"], standalone_mode=False)
        print(f"\nThese words, as the first argument, run ledger-engine: {', '.join(_commands())}.")
    else:
        dashboard()


def _raise_at_ctrl_c() -> None:
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _commands() -> list[str]:
    """Return the names of ledger-engine's commands.

    `completion` is left out: its script completes commands that begin with `ledger-engine`, not with the name
    of this archive.
    """
    from ledger_engine.cli import main as engine

    return [name for name in engine.commands if name != "completion"]
