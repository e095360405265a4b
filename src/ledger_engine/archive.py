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
    else:
        from ledger_tui.cli import main as dashboard

        dashboard()
    if first in ("-h", "--help"):
        print(f"\nWith one of these words first it is ledger-engine: {', '.join(_commands())}.")


def _commands() -> list[str]:
    from ledger_engine.cli import main as engine

    return list(engine.commands)
