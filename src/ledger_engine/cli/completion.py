"""`ledger-engine completion`: the script that lets a shell complete commands and options."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

PROGRAM = "ledger-engine"
_VARIABLE = "_LEDGER_ENGINE_COMPLETE"  # the one in which click looks for a shell's question


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, /, shell: str) -> None:
    """Print the completion script for a shell: bash, zsh or fish.

    For bash, for instance, add to ~/.bashrc: eval "$(ledger-engine completion bash)"
    """
    kind = get_completion_class(shell)
    assert kind is not None, "click completes in these shells"
    click.echo(kind(context.find_root().command, {}, PROGRAM, _VARIABLE).source())
