"""`ledger-engine conform`: whether a server keeps the contract, rule by rule."""

from __future__ import annotations

import asyncio
import secrets
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ledger_engine.cli import options
from ledger_engine.cli.running import print_json, say

if TYPE_CHECKING:
    from ledger_engine.tools.conform.report import Verdict

_ANSWER_BYTES_MAX = 32_000_000
_ANSWER_SECONDS_MAX = 60.0


@click.command()
@options.of_server("An API key of the server: a test key, unless --read-only is given.")
@click.option("--read-only", is_flag=True, help="Check only the rules that need no writing.")
@click.option(
    "--junit",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    metavar="FILE",
    help="Write the report to FILE as JUnit's XML too.",
)
@options.as_json
def conform(url: str, key: str, read_only: bool, junit: Path | None, as_json: bool) -> None:
    """Check whether the server at URL keeps the contract, rule by rule, over HTTP alone.

    What it needs it makes itself, in test mode. Exits with 1 when a rule failed.
    """
    if not read_only and not key.startswith("sk_test_"):
        raise click.UsageError("conform writes, so it needs a key that begins with sk_test_, or --read-only.")
    if junit is not None and not junit.absolute().parent.is_dir():
        raise click.BadParameter(f"There is no folder {junit.parent}.", param_hint="--junit")
    from ledger_engine.tools.conform import report

    server = url.rstrip("/").removesuffix("/v1")
    verdicts = asyncio.run(_examine(server, key, read_only))
    if junit is not None:
        junit.write_bytes(report.junit(verdicts, server))
    results = [verdict.result for verdict in verdicts]
    if as_json:
        shown = [verdict.shown() for verdict in verdicts]
        print_json({"ok": "failed" not in results, "url": server, "rules": shown})
    else:
        for verdict in verdicts:
            _say(verdict)
        counted = (f"{results.count(result)} {result}" for result in ("passed", "failed", "not applicable"))
        say(", ".join(counted))
    if "failed" in results:
        click.get_current_context().exit(1)


async def _examine(server: str, key: str, read_only: bool) -> list[Verdict]:
    # Imported here: httpx takes longer to load than most commands to run.
    from ledger_client.answers import Client
    from ledger_engine.tools.conform.examiner import Unreachable
    from ledger_engine.tools.conform.report import examine

    async with Client(
        bytes_max=_ANSWER_BYTES_MAX,
        seconds_max=_ANSWER_SECONDS_MAX,
        base_url=server,
        trust_env=False,
        timeout=30,
    ) as client:
        try:
            return await examine(client, key, secrets.token_hex(6), read_only=read_only)
        except Unreachable as error:
            raise click.ClickException(str(error)) from error


def _say(verdict: Verdict) -> None:
    reason = "" if verdict.reason is None else f" ({verdict.reason})"
    say(f"{verdict.result:<14}  {verdict.rule}: {verdict.sentence}{reason}")
    if verdict.fault is not None:
        say(f"    wanted: {verdict.fault.wanted}")
        for sign, text in ((">", verdict.fault.request), ("<", verdict.fault.answer)):
            for line in text.splitlines():
                say(f"    {sign} {line}")
