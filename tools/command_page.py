"""Print a page with the help of every command and the dashboard's keys: `python -m tools.command_page`.

`make docs` adds the page to the site. docs/ does not contain it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from unittest.mock import patch

import click
from click.testing import CliRunner

import ledger_engine.cli
import ledger_tui.cli

PROGRAMS = {"ledger-engine": ledger_engine.cli.main, "ledger-tui": ledger_tui.cli.command}
WIDTH = 100

_HEAD = """\
# Every command's help

Reference: what `--help` prints for each command of both programs. [Commands](commands.md),
[serve](serve.md) and [the configuration of the dashboard](dashboard-configuration.md) explain them.
At the end are the dashboard's keys, as `ledger-tui keys` prints them.
"""


def main() -> int:
    sys.stdout.buffer.write(page().encode())
    return 0


def page() -> str:
    """Return the text of the page."""
    # Some options take their default from the environment. The page must not show the values of this machine.
    with patch.dict(os.environ, clear=True):
        sections = [
            f"\n## {name}\n\n```\n{text}\n```\n"
            for name, program in PROGRAMS.items()
            for name, text in helps(program, name, None)
        ]
        keys = CliRunner().invoke(ledger_tui.cli.command, ["keys"], catch_exceptions=False).output
    return "".join([_HEAD, *sections, f"\n## The dashboard's keys\n\n```\n{keys}```\n"])


def helps(command: click.Command, name: str, parent: click.Context | None) -> Iterator[tuple[str, str]]:
    """Yield the name and the help of the command and of each command below it.

    A name is the words that the user types, such as `ledger-engine keys create`.
    """
    settings = {**command.context_settings, "terminal_width": WIDTH, "max_content_width": WIDTH}
    context = click.Context(command, info_name=name.rpartition(" ")[2], parent=parent, **settings)
    yield name, "\n".join(line.rstrip() for line in command.get_help(context).splitlines())
    if isinstance(command, click.Group):
        for word in command.list_commands(context):
            below = command.get_command(context, word)
            if below is not None and not below.hidden:
                yield from helps(below, f"{name} {word}", context)


if __name__ == "__main__":
    raise SystemExit(main())
