"""The command line `ledger-engine`, with one module for each group of commands."""

import click

from ledger_engine import __version__
from ledger_engine.cli import (
    api,
    apps,
    completion,
    conform,
    data,
    events,
    keys,
    listen,
    migrate,
    projects,
    pull,
    serve,
    users,
    verify,
    webhooks,
)
from ledger_engine.cli.group import OneLineErrors


@click.group(
    cls=OneLineErrors, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(__version__, prog_name="ledger-engine", message="%(prog)s %(version)s")
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
main.add_command(api.trigger)
main.add_command(data.seed)
main.add_command(pull.pull)
main.add_command(conform.conform)
main.add_command(verify.verify)
main.add_command(data.backup)
main.add_command(data.restore)
main.add_command(data.recover)
main.add_command(migrate.migrate)
main.add_command(completion.completion)
