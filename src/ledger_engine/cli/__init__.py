"""The command line `ledger-engine`, with one module for each group of commands.

A module is imported when one of its commands is needed: `--help` takes a third of the time that all would.
"""

from __future__ import annotations

import click

from ledger_engine import __version__
from ledger_engine.cli.group import LazyCommands, OneLineErrors

_PROGRAM = "ledger-engine"
_VARIABLE = "_LEDGER_ENGINE_COMPLETE"  # the one in which click looks for a shell's question


# Where each command is, and what the list of the commands says of it.
_COMMANDS = {
    "api": ("api:api", "Send one request and print the answer."),
    "apps": ("users:apps", "Register, list, delete and restore the apps that users can authorize."),
    "backup": ("data:backup", "Copy the ledger as it is now to DEST, and check the copy."),
    "check-proof": (
        "log:check_proof",
        "Check without a ledger that PROOF proves ENTRY, the body of an event as webhooks deliver it.",
    ),
    "checkpoint": (
        "log:checkpoint",
        "Print the last checkpoint of a log, with the signatures of witnesses that are there.",
    ),
    "conform": (
        "api:conform",
        "Check whether the server at URL keeps the contract, rule by rule, over HTTP alone.",
    ),
    "events": ("events:events", "List events, and send them to the webhook endpoints again."),
    "export": (
        "data:export",
        "Write the transactions of a project in one mode, oldest first, for another program.",
    ),
    "keys": ("access:keys", "Create, list, revoke and roll API keys."),
    "listen": (
        "listen:listen",
        "Post each event that happens on a server to a URL of yours, signed as a webhook, until Ctrl-C.",
    ),
    "log-key": ("log:log_key", "Show the key that signs the logs, or make a new one."),
    "migrate": (
        "data:migrate",
        "Copy the ledger SOURCE to TARGET: one is a SQLite file, the other postgresql://….",
    ),
    "post": (
        "api:post",
        "Post a transaction: credit or debit AMOUNT, in the smallest unit of the currency, on ACCOUNT.",
    ),
    "projects": ("access:projects", "Create, list, change, archive and restore projects."),
    "proof": ("log:proof", "Print the proof that the event or the transaction ID is in its log."),
    "pull": (
        "data:pull",
        "Copy what the server at URL shows into a database of its own, or bring what is new.",
    ),
    "recover": ("data:recover", "Write what the log of a lost database contains to DEST."),
    "restore": ("data:restore", "Replace the database with the backup SRC."),
    "seed": ("data:seed", "Load the data set FILE."),
    "serve": ("serve:serve", "Serve the ledger over HTTP."),
    "tail": ("listen:tail", "Print each event that happens on a server, one line each, until Ctrl-C."),
    "trigger": (
        "api:trigger",
        "Produce an event of TYPE, like invoice.paid, by the requests that lead to it, in test mode.",
    ),
    "users": ("users:users", "Create and list the users of a project, and set their passwords."),
    "verify": ("verify:verify", "Compute everything from the transactions and events again, and compare."),
    "webhooks": (
        "events:webhooks",
        "Create, list and change webhook endpoints, and list the deliveries to them.",
    ),
    "witness": (
        "log:witness",
        "Sign the checkpoints of other ledgers' logs, each only if it continues the one before.",
    ),
}


@click.group(
    cls=OneLineErrors,
    commands=LazyCommands(__name__, _COMMANDS),
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name=_PROGRAM, message="%(prog)s %(version)s")
def main() -> None:
    """Serve a ledger on one SQLite file over HTTP, and administer it."""


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
    click.echo(kind(context.find_root().command, {}, _PROGRAM, _VARIABLE).source())
