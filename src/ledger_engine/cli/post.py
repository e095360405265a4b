"""`ledger-engine post`: a transaction, or the transactions of a file."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ledger_engine.cli import options
from ledger_engine.cli.asking import ServerTarget, server_options
from ledger_engine.cli.running import in_words, print_json, say
from ledger_engine.core.money import MAX_AMOUNT

if TYPE_CHECKING:
    from ledger_engine.cli.posted_file import RowFault
    from ledger_engine.cli.posting import Batch, PostingProgress

# For a file, each request is sent up to this many times. If no answer comes, the command gives up after about
# half a minute.
ATTEMPTS = 6
_AGAIN = "Run the command again to go on: nothing is posted twice."


class _Post(click.Command):
    """The command `post`. It reports a word such as -5 as a negative AMOUNT, not as an unknown option."""

    def parse_args(self, context: click.Context, words: list[str]) -> list[str]:
        """Parse the words. Raises UsageError for a negative amount."""
        try:
            return super().parse_args(context, words)
        except click.NoSuchOption as error:
            if not error.option_name[1:2].isdigit():
                raise
            raise click.UsageError(
                "AMOUNT must be positive. To take an amount from the account, use `debit`.", context
            ) from error


@click.command(cls=_Post)
@click.argument("account", required=False)
@click.argument("amount", type=options.Number(1, MAX_AMOUNT), required=False)
@click.argument("type", type=click.Choice(["credit", "debit"]), required=False)
@click.option("--description", metavar="TEXT", help="The text that statements show.")
@click.option("--destination", metavar="ID", help="Move the amount between ACCOUNT and the account ID.")
@click.option(
    "--once",
    metavar="KEY",
    help="An idempotency key: a second run with it posts nothing, and prints the first run's transaction.",
)
@click.option(
    "--file",
    type=options.FilePath(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Post the transactions of FILE, a .csv or .jsonl file, instead of one transaction.",
)
@click.option("--dry-run", is_flag=True, help="Check --file and print its sums, but post nothing.")
@server_options
@options.as_json
def post(
    target: ServerTarget,
    account: str | None,
    amount: int | None,
    type: str | None,
    description: str | None,
    destination: str | None,
    once: str | None,
    file: Path | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Post a transaction: credit or debit AMOUNT, in the smallest unit of the currency, on ACCOUNT.

    With --file the command posts the transactions of a file in batches of up to 1,000, each batch as a whole
    or not at all. If you run the command again with the same file, nothing is posted twice. To post the same
    file a second time on purpose, give another --once KEY.
    """
    single = {"account": account, "amount": amount, "type": type}
    optional = {"description": description, "destination": destination}
    if file is not None:
        if any(value is not None for value in (*single.values(), *optional.values())):
            raise click.UsageError(
                "--file posts the transactions of a file:"
                " leave out ACCOUNT, AMOUNT, credit|debit, --description and --destination."
            )
        _post_file(target, file, once, dry_run=dry_run, as_json=as_json)
        return
    if dry_run:
        raise click.UsageError("--dry-run needs --file.")
    if None in single.values():
        raise click.UsageError("Give ACCOUNT AMOUNT credit|debit, or --file FILE.")
    body = single | {name: value for name, value in optional.items() if value is not None}
    transaction = asyncio.run(_post_one(target, body, once))
    if as_json:
        print_json(transaction)
    else:
        say(f"{transaction.get('id')} balance {transaction.get('balance_after')}")


async def _post_one(target: ServerTarget, body: dict[str, Any], key: str | None) -> dict[str, Any]:
    from ledger_client.errors import AlreadyDone

    async with target.connected("post") as ledger:
        try:
            answer = await ledger.request("POST", "/v1/transactions", body=body, key=key)
        except AlreadyDone as error:
            if not error.same_request or error.original is None:
                raise
            answer = await ledger.request("GET", f"/v1/transactions/{error.original}")
        return answer.object


# The transactions of a file


def _post_file(target: ServerTarget, file: Path, name: str | None, *, dry_run: bool, as_json: bool) -> None:
    """Check the whole file, then post it, or with `dry_run` print its sums."""
    from ledger_engine.cli.posted_file import SUFFIXES, BadFile, RowFault, read_file

    if file.suffix.lower() not in SUFFIXES:
        raise click.BadParameter("The name must end in .csv or .jsonl.", param_hint="--file")
    try:
        content = read_file(file)
    except BadFile as error:
        _end_with_faults([RowFault(0, str(error))], as_json)
        return
    asyncio.run(_check_and_post(target, content.rows, content.faults, name, dry_run=dry_run, as_json=as_json))


async def _check_and_post(
    target: ServerTarget,
    rows: Sequence[Any],
    faults: list[RowFault],
    name: str | None,
    *,
    dry_run: bool,
    as_json: bool,
) -> None:
    from ledger_engine.cli.posting import batches_of, prepare

    async with target.connected("post", attempts=ATTEMPTS) as ledger:
        postings, more_faults = await prepare(ledger, rows)
        if faults or more_faults:
            _end_with_faults(sorted([*faults, *more_faults]), as_json)
        batches = batches_of(postings, name)
        if dry_run:
            _print_sums(batches, as_json)
        else:
            await _send(ledger, batches, as_json)


async def _send(ledger: Any, batches: Sequence[Batch], as_json: bool) -> None:
    """Post the batches with a progress bar on stderr.

    Raises ClickException if a batch fails; the message says how many transactions are posted.
    """
    from ledger_client.errors import ApiError, NotConnected, RateLimited
    from ledger_engine.cli.asking import refusal
    from ledger_engine.cli.posting import NotPosted, PostingProgress, post_batches

    progress = PostingProgress()
    size = sum(len(batch.postings) for batch in batches)
    quiet = not sys.stderr.isatty()
    failure: str | None = None
    with click.progressbar(length=size, label="Posting", file=sys.stderr, hidden=quiet) as bar:
        try:
            await post_batches(ledger, batches, progress, bar.update)
        except NotPosted as error:
            failure = f"{error} Nothing of the batch is posted."
        except (NotConnected, ApiError, RateLimited) as error:
            failure = f"{refusal(error, ledger.url).removesuffix('.')}. {_AGAIN}"
    if as_json:
        counts = {"posted": progress.posted, "posted_before": progress.posted_before}
        print_json({"ok": failure is None, **counts, "transactions": size})
    if failure is not None:
        count = progress.posted + progress.posted_before
        raise click.ClickException(f"{failure} {count:,} of {size:,} transactions are posted.")
    if not as_json:
        say(_summary(progress))


def _summary(progress: PostingProgress) -> str:
    before = f"{progress.posted_before:,} of the file were posted before"
    if not progress.posted_before:
        return f"Posted {in_words(progress.posted, 'transactions')}."
    if progress.posted:
        return f"Posted {in_words(progress.posted, 'transactions')}; {before}."
    return f"Posted nothing: {before}. To post an equal file again, give another --once KEY."


def _print_sums(batches: Sequence[Batch], as_json: bool) -> None:
    from ledger_engine.cli.posting import totals

    postings = [posting for batch in batches for posting in batch.postings]
    sums = totals(postings)
    if as_json:
        lines = [{"type": type, "currency": code, "amount": amount} for (type, code), amount in sums.items()]
        counts = {"transactions": len(postings), "batches": len(batches)}
        print_json({"ok": True, **counts, "sums": lines})
        return
    in_batches = "1 batch" if len(batches) == 1 else f"{len(batches)} batches"
    say(f"{in_words(len(postings), 'transactions')} in {in_batches}; nothing was posted.")
    for (type, code), amount in sums.items():
        say(f"{type} {amount} {code}, in the smallest unit")


def _end_with_faults(faults: Sequence[RowFault], as_json: bool) -> None:
    """Print every fault on a line of its own, and end with status 1."""
    if as_json:
        lines = [{"line": fault.line or None, "message": fault.message} for fault in faults]
        print_json({"ok": False, "faults": lines})
    for fault in faults:
        say(f"ledger-engine: {fault}", err=True)
    raise click.ClickException(f"{in_words(len(faults), 'faults')}; nothing was posted.")
