"""`ledger-engine api`, `trigger` and `conform`: the commands that send requests to a server.

`api` sends one request. `trigger` sends the requests that lead to an event. `conform` checks a server against
the contract.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ledger_client.parsing import parsed
from ledger_engine.cli import options
from ledger_engine.cli.asking import ServerTarget, server_options
from ledger_engine.cli.running import print_json, say
from ledger_engine.events.outbox import KINDS

if TYPE_CHECKING:
    from ledger_engine.tools.conform.examination import RuleVerdict

METHODS = ("GET", "POST", "PATCH", "DELETE")
_IN_QUERY = ("GET", "DELETE")
# How to produce an event of each type. The first value is the type of the event that must be produced before
# this event; None if there is none. The other values are the method, the path and the body of the request
# that produces the event. `{account}` stands for the id of the account that an earlier request created, and
# `{new}` for a random text.
_STEPS: dict[str, tuple[str | None, str, str, dict[str, Any] | None]] = {
    "account.created": (None, "POST", "/v1/accounts", {"name": "Test account", "currency": "EUR"}),
    "transaction.created": (
        "account.created",
        "POST",
        "/v1/transactions",
        {"account": "{account}", "amount": 1250, "type": "credit", "description": "Test posting"},
    ),
    "invoice.created": (
        "account.created",
        "POST",
        "/v1/invoices",
        {"account": "{account}", "customer": "Test customer", "amount": 1250},
    ),
    "invoice.updated": ("invoice.created", "PATCH", "/v1/invoices/{invoice}", {"amount": 2500}),
    "invoice.opened": ("invoice.created", "POST", "/v1/invoices/{invoice}/finalize", None),
    "invoice.paid": ("invoice.opened", "POST", "/v1/invoices/{invoice}/pay", None),
    "invoice.voided": ("invoice.opened", "DELETE", "/v1/invoices/{invoice}", None),
    "user.created": (None, "POST", "/api/users", {"name": "Test user", "email": "{new}@example.com"}),
    "user.deactivated": ("user.created", "DELETE", "/api/users/{user}", None),
    "user.restored": ("user.deactivated", "POST", "/api/users/{user}/restore", None),
    "order.created": (
        "user.created",
        "POST",
        "/api/orders",
        {"user_id": "{user}", "items": [{"name": "Test item", "quantity": 1, "unit_amount": 1250}]},
    ),
    "order.paid": ("order.created", "POST", "/api/orders/{order}/pay", None),
    "order.shipped": ("order.paid", "POST", "/api/orders/{order}/ship", None),
}


@click.command()
@click.argument("method", type=click.Choice(METHODS, case_sensitive=False))
@click.argument("path")
@click.argument("fields", nargs=-1, metavar="[NAME=VALUE]...")
@click.option("-d", "--data", metavar="JSON", help="The body, instead of NAME=VALUE.")
@server_options
def api(target: ServerTarget, method: str, path: str, fields: tuple[str, ...], data: str | None) -> None:
    """Send one request and print the answer.

    NAME=VALUE is a field of the body; in a GET or DELETE it is a query parameter. In a body, a VALUE that is
    valid JSON, such as 1250 or null, is sent as JSON; any other VALUE is sent as a string.
    """
    if not path.startswith("/"):
        raise click.UsageError(f"{path!r} is not a path like /v1/accounts.")
    if data is not None and fields:
        raise click.UsageError("Give --data or NAME=VALUE, not both.")
    pairs = [field.partition("=") for field in fields]
    for name, separator, _ in pairs:
        if not (name and separator):
            raise click.UsageError(f"{name!r} is not like NAME=VALUE.")
    parts: dict[str, Any] = {}
    if data is not None:
        parts = {"body": data.encode()}
    elif fields and method in _IN_QUERY:
        names = dict.fromkeys(name for name, _, _ in pairs)
        parts = {"query": {name: [value for each, _, value in pairs if each == name] for name in names}}
    elif fields:
        parts = {"body": {name: _value_of(value) for name, _, value in pairs}}

    async def ask() -> str:
        async with target.connected("api") as ledger:
            return (await ledger.request(method, path, **parts)).text

    text = asyncio.run(ask())
    try:
        print_json(parsed(text))
    except ValueError:
        for line in text.splitlines():
            say(line)


@click.command()
@click.argument("type", type=click.Choice(KINDS), metavar="TYPE")
@server_options
@options.as_json
def trigger(target: ServerTarget, type: str, as_json: bool) -> None:
    """Produce an event of TYPE, like invoice.paid, in test mode: send the requests that lead to it."""
    if target.livemode or not (target.given_key or "sk_test_").startswith("sk_test_"):
        raise click.UsageError("trigger makes test data, so it needs a key that begins with sk_test_.")
    records = asyncio.run(_produce(target, type))
    if as_json:
        print_json(records)
        return
    for kind, record in records.items():
        say(f"{kind} {record['id']}")


async def _produce(target: ServerTarget, type: str) -> dict[str, Any]:
    """Send the requests that lead to an event of this type.

    Return the object in the answer to each request, by the type of the event that the request produced.
    """
    steps: list[str] = []
    before: str | None = type
    while before is not None:
        steps.insert(0, before)
        before = _STEPS[before][0]
    ids, records = {"new": secrets.token_hex(8)}, dict[str, Any]()
    async with target.connected("trigger") as ledger:
        for step in steps:
            _, method, path, body = _STEPS[step]
            content = None if body is None else {name: _fill_in(value, ids) for name, value in body.items()}
            answer = await ledger.request(method, path.format_map(ids), body=content)
            record = records[step] = answer.object
            if not isinstance(record.get("id"), str):
                raise click.ClickException(f"The answer to {method} {path} is not an object of a ledger.")
            ids[step.partition(".")[0]] = record["id"]
    return records


def _fill_in(value: Any, ids: dict[str, str]) -> Any:
    return value.format_map(ids) if isinstance(value, str) else value


def _value_of(value: str) -> Any:
    try:
        return json.loads(value, parse_constant=str)  # NaN and Infinity are not JSON
    except ValueError:
        return value


# Check rule by rule whether a server keeps the contract

_ANSWER_BYTES_MAX = 32_000_000
_ANSWER_SECONDS_MAX = 60.0


@click.command()
@options.server_arguments("An API key of the server: a test key, unless --read-only is given.")
@click.option("--read-only", is_flag=True, help="Check only rules that need no request that writes.")
@click.option(
    "--junit",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    metavar="FILE",
    help="Also write the report to FILE, as JUnit XML.",
)
@options.as_json
def conform(url: str, key: str, read_only: bool, junit: Path | None, as_json: bool) -> None:
    """Check rule by rule, over HTTP alone, whether the server at URL keeps the contract.

    The command creates the objects that it needs, in test mode. It exits with 1 if a rule failed.
    """
    if not read_only and not key.startswith("sk_test_"):
        raise click.UsageError("conform writes, so it needs a key that begins with sk_test_, or --read-only.")
    if junit is not None and not junit.absolute().parent.is_dir():
        raise click.BadParameter(f"There is no folder {junit.parent}.", param_hint="--junit")
    from ledger_engine.tools.conform import examination

    server = url.rstrip("/").removesuffix("/v1")
    verdicts = asyncio.run(_examine(server, key, read_only))
    if junit is not None:
        junit.write_bytes(examination.junit(verdicts, server))
    results = [verdict.result for verdict in verdicts]
    if as_json:
        rules = [verdict.shown() for verdict in verdicts]
        print_json({"ok": "failed" not in results, "url": server, "rules": rules})
    else:
        for verdict in verdicts:
            _print_verdict(verdict)
        counts = (f"{results.count(result)} {result}" for result in ("passed", "failed", "not applicable"))
        say(", ".join(counts))
    if "failed" in results:
        click.get_current_context().exit(1)


async def _examine(server: str, key: str, read_only: bool) -> list[RuleVerdict]:
    # Imported here, because httpx takes longer to load than most commands take to run.
    from ledger_client.answers import BoundedClient
    from ledger_engine.tools.conform.examination import examine
    from ledger_engine.tools.conform.examiner import Unreachable

    async with BoundedClient(
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


def _print_verdict(verdict: RuleVerdict) -> None:
    reason = "" if verdict.reason is None else f" ({verdict.reason})"
    say(f"{verdict.result:<14}  {verdict.rule}: {verdict.sentence}{reason}")
    if verdict.fault is not None:
        say(f"    expected: {verdict.fault.wanted}")
        for sign, text in ((">", verdict.fault.request), ("<", verdict.fault.answer)):
            for line in text.splitlines():
                say(f"    {sign} {line}")
