"""The entry point of `ledger.pyz`, which contains both the dashboard and the commands of `ledger-engine`."""

import sys


def main() -> None:
    """Run the command that the first argument names, or else the dashboard.

    The commands are imported only when the first argument is a word, so that opening the dashboard, with or
    without options, never loads the server's command line.
    """
    first = sys.argv[1] if len(sys.argv) > 1 else ""
    if first and not first.startswith("-") and first in _commands():
        from ledger_engine.cli import main as engine

        engine()
        return
    from ledger_tui.cli import command
    from ledger_tui.cli import main as dashboard

    asks_for_help = first in ("-h", "--help")
    if asks_for_help:  # a word that both programs have is ledger-engine's
        for name in _commands():
            command.commands.pop(name, None)
    dashboard()
    if asks_for_help:
        print(f"\nWith one of these words first it is ledger-engine: {', '.join(_commands())}.")


def _commands() -> list[str]:
    """Return the words of ledger-engine, without the completion of a program of that name."""
    from ledger_engine.cli import main as engine

    return [name for name in engine.commands if name != "completion"]
