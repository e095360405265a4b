"""The command line `ledger-engine`, with one module for each group of commands."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from ledger_engine import __version__
from ledger_engine.cli import (
    api,
    apps,
    conform,
    data,
    events,
    export,
    keys,
    listen,
    log,
    migrate,
    projects,
    pull,
    serve,
    users,
    verify,
    webhooks,
)
from ledger_engine.cli.group import OneLineErrors

_PROGRAM = "ledger-engine"
_VARIABLE = "_LEDGER_ENGINE_COMPLETE"  # the one in which click looks for a shell's question


@click.group(
    cls=OneLineErrors, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(__version__, prog_name=_PROGRAM, message="%(prog)s %(version)s")
def main() -> None:
    """Serve a ledger on one SQLite file over HTTP, and administer it."""


main.add_command(serve.serve)
main.add_command(projects.projects)
main.add_command(keys.keys)
main.add_command(users.users)
main.add_command(apps.apps)
main.add_command(webhooks.webhooks)
main.add_command(events.events)
main.add_command(listen.listen)
main.add_command(listen.tail)
main.add_command(api.api)
main.add_command(api.post)
main.add_command(api.trigger)
main.add_command(data.seed)
main.add_command(pull.pull)
main.add_command(conform.conform)
main.add_command(verify.verify)
main.add_command(export.export)
main.add_command(log.checkpoint)
main.add_command(log.proof)
main.add_command(log.check_proof)
main.add_command(log.log_key)
main.add_command(log.witness)
main.add_command(data.backup)
main.add_command(data.restore)
main.add_command(data.recover)
main.add_command(migrate.migrate)


@main.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, /, shell: str) -> None:
    """Print the completion script for a shell: bash, zsh or fish.

    For bash, for instance, add to ~/.bashrc: eval "$(ledger-engine completion bash)"
    """
    kind = get_completion_class(shell)
    assert kind is not None, "click completes in these shells"
    click.echo(kind(context.find_root().command, {}, _PROGRAM, _VARIABLE).source())
