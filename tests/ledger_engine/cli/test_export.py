"""`ledger-engine export`: other programs read what it writes, and compute the same balances."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import re
import shutil
import stat
import subprocess
from functools import partial
from pathlib import Path

import pytest

from ledger_engine.access import projects
from ledger_engine.cli.running import using
from ledger_engine.core.clock import SystemClock, iso
from ledger_engine.core.settings import Location
from ledger_engine.core.tenant import Tenant
from ledger_engine.ledger import accounts, transactions
from ledger_engine.ledger.accounts import NewAccount
from ledger_engine.ledger.transactions import NewTransaction, Transaction
from ledger_engine.store import Unit
from tests.contract.rules import holds
from tests.ledger_engine.cli.conftest import Command, only_line

pytestmark = pytest.mark.process

NAMES = (
    "Main till",
    "a:b ; c   d",
    "(x) *",
    '"quoted" \\',
    "Übersee\n2026-01-01 open",
    "=1+1",
    "日本語",
    "ß-Konto",
)
CURRENCIES = ("EUR", "EUR", "JPY", "KWD", "EUR", "EUR", "JPY", "EUR")
TYPES = ("asset", "liability", "equity", "income", "expense", "Liability", None, "other")
ROOTS = ("assets", "liabilities", "equity", "income", "expenses", "assets", "assets", "assets")
TEXTS = (None, "(code) sale", "! ; tag:x", '"; drop \\', "two\nlines", "=HYPERLINK()", "* x | y", "…")
READERS_OF = {
    "hledger": ("hledger", "check", "--strict", "-f"),
    "beancount": ("bean-check",),
}


def metadata_of(type: str | None) -> dict[str, str]:
    """Return metadata with this type, among keys and values that look like another one."""
    others = {'a,"type': "income", "note": ',"type":"equity"', "Type": "expense"}
    return others if type is None else {"type": type} if type == "liability" else {**others, "type": type}


def post(unit: Unit) -> list[Transaction]:
    """Post on every account: credits, debits, transfers, reversals, and one balance below zero."""
    tenant = Tenant(projects.first_or_new(unit)[0].id, livemode=False)
    made = [
        accounts.create(unit, tenant, NewAccount(name, currency, metadata_of(type)))
        for name, currency, type in zip(NAMES, CURRENCIES, TYPES, strict=True)
    ]
    posted = []
    for number in range(48):
        account, text = made[number % 8], TEXTS[(number + number // 8) % 8]
        to = made[(number + 1) % 8].id if number % 8 in (0, 4) else None
        type = ("credit", "debit")[number % 5 == 0]
        new = NewTransaction(account.id, 1 + number**3, type, text, to)
        posted.append(transactions.post(unit, tenant, new))
    return posted


def reverse(unit: Unit, ids: tuple[str, ...]) -> list[Transaction]:
    tenant = Tenant(projects.first_or_new(unit)[0].id, livemode=False)
    return [transactions.reverse(unit, tenant, id) for id in ids]


@pytest.fixture
def posted(database: Location) -> list[Transaction]:
    posted = asyncio.run(using(database, lambda engine: engine.write(post)))
    later = SystemClock()
    while later.now() <= posted[-1].created:
        pass
    # A transfer and a plain transaction.
    undo = partial(reverse, ids=(posted[0].id, posted[7].id))
    return posted + asyncio.run(using(database, lambda engine: engine.write(undo)))


def balances(database: Location) -> dict[str, int]:
    def read(unit: Unit) -> dict[str, int]:
        tenant = Tenant(projects.first_or_new(unit)[0].id, livemode=False)
        return {each.id: each.balance for each in accounts.oldest_first(unit, tenant)}

    return asyncio.run(using(database, lambda engine: engine.read(read)))


@pytest.mark.parametrize("period", [(), ("--from", "second"), ("--to", "second")])
@pytest.mark.parametrize("kind", READERS_OF)
def test_the_program_of_a_format_computes_the_ledgers_balances(
    kind: str, period: tuple[str, ...], command: Command, posted: list[Transaction], tmp_path: Path
) -> None:
    program, *words = READERS_OF[kind]
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")
    moment = iso(posted[-2].created)
    journal = command("export", "--format", kind, *(moment if word == "second" else word for word in period))
    file = tmp_path / f"books.{kind}"
    file.write_text(journal.stdout, encoding="utf-8")
    done = subprocess.run([program, *words, str(file)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    # The control: without its first entry the asserted balances do not hold.
    head, _, *others = journal.stdout.split("\n\n")
    file.write_text("\n\n".join([head, *others]), encoding="utf-8")
    assert subprocess.run([program, *words, str(file)], capture_output=True).returncode != 0


def test_a_journal_ends_with_the_balance_of_every_account(
    command: Command, posted: list[Transaction], database: Location
) -> None:
    journal = command("export", "--format", "hledger").stdout
    asserted = dict(re.findall(r":(acc_\w+)  0(?:\.0+)? \w{3} = (-?[\d.]+) \w{3}$", journal, re.MULTILINE))
    assert {id: int(amount.replace(".", "")) for id, amount in asserted.items()} == balances(database)


def test_a_journal_in_beancount_keeps_letters_and_has_the_names_and_the_currencies(
    command: Command, posted: list[Transaction]
) -> None:
    journal = command("export", "--format", "beancount").stdout
    opened = re.findall(r"^1970-01-01 open (\S+):Acc-\w+ \w{3}\n  name: (.*)$", journal, re.MULTILINE)
    assert [name for name, _ in opened] == [
        "Assets:Main-till",
        "Liabilities:A-b-c-d",
        "Equity:X",
        "Income:Quoted",
        "Expenses:Übersee-2026-01-01-open",
        "Assets:1-1",
        "Assets:X-日本語",
        "Assets:SS-Konto",
    ]
    assert [name for _, name in opened][3:5] == ['"\\"quoted\\" \\\\"', '"Übersee\\\\n2026-01-01 open"']
    assert opened[6][1] == '"日本語"'
    assert journal.startswith('option "title" "My ledger, test mode"\n')
    named = re.findall(r'^option "operating_currency" "(\w+)"$', journal, re.MULTILINE)
    assert named == ["EUR", "JPY", "KWD"]


@holds("accounts-type")
def test_exports_and_trial_balance_read_a_balance_alike(
    command: Command, posted: list[Transaction], database: Location
) -> None:
    def read(unit: Unit) -> dict[str, tuple[str, int]]:
        rows = unit.execute("SELECT * FROM trial_balance")
        assert all(row["debit"] - row["credit"] == row["balance"] for row in rows)
        assert all(min(row["debit"], row["credit"]) == 0 for row in rows)
        assert {row["root"] for row in rows if row["name"] == "settlement"} == {"equity"}
        named = [(re.search(r"\((acc_\w+)\)$", row["name"]), row) for row in rows]
        return {found[1]: (row["root"], row["debit"] - row["credit"]) for found, row in named if found}

    rows = asyncio.run(using(database, lambda engine: engine.read(read)))
    assert [root for _, (root, _) in sorted(rows.items())] == list(ROOTS)
    hledger = command("export", "--format", "hledger").stdout
    asserted = re.findall(
        r"(\w+):[^:]*:(acc_\w+)  0(?:\.0+)? \w{3} = (-?[\d.]+) \w{3}$", hledger, re.MULTILINE
    )
    assert {id: (root, int(amount.replace(".", ""))) for root, id, amount in asserted} == rows
    types = dict(re.findall(r"^account (\w+):.*acc_\w+  ; type:(\w)$", hledger, re.MULTILINE))
    assert types == {"assets": "A", "liabilities": "L", "equity": "E", "income": "R", "expenses": "X"}
    beancount = command("export", "--format", "beancount").stdout
    roots = re.findall(r"^\S+ balance (\w+):\S+:Acc-(\w+)  (-?[\d.]+) ", beancount, re.MULTILINE)
    assert {f"acc_{id}": (root.lower(), int(amount.replace(".", ""))) for root, id, amount in roots} == rows


def test_the_records_are_those_of_the_ledger_in_their_order(
    command: Command, posted: list[Transaction]
) -> None:
    lines = [json.loads(line) for line in command("export", "--format", "jsonl").stdout.splitlines()]
    ids = [line["id"] for line in lines]
    assert ids == sorted(ids)
    assert set(ids) >= {each.id for each in posted}
    shown = {line["id"]: line for line in lines}
    assert all(shown[each.id]["description"] == each.description for each in posted)
    assert all(shown[each.id]["balance_after"] == each.balance_after for each in posted)


def test_no_text_in_a_table_is_a_formula(command: Command, posted: list[Transaction]) -> None:
    rows = list(csv.DictReader(io.StringIO(command("export", "--format", "csv").stdout, newline="")))
    assert sum(
        int(row["amount"]) * (1 if row["type"] == "credit" else -1)
        for row in rows
        if row["account_name"] == "'=1+1"
    ) == int([row for row in rows if row["account_name"] == "'=1+1"][-1]["balance_after"])
    assert {row["description"] for row in rows} >= {"'=HYPERLINK()", "", "two\nlines"}
    assert {row["currency"] for row in rows} == {"EUR", "JPY", "KWD"}


def test_a_period_has_what_was_posted_in_it_and_a_date_its_whole_day(
    command: Command, posted: list[Transaction]
) -> None:
    day = iso(posted[0].created)[:10]
    of_day = command("export", "--format", "jsonl", "--from", day, "--to", day).stdout.splitlines()
    assert len(of_day) == len(command("export", "--format", "jsonl").stdout.splitlines())
    assert command("export", "--format", "jsonl", "--to", "2020-01-01").stdout == ""
    assert only_line(command("export", "--format", "csv", "--from", "soon", status=2).stderr).startswith(
        "ledger-engine: Invalid value for '--from': 'soon' must be an ISO 8601 date"
    )


def test_a_new_file_is_private_and_one_that_is_there_stays(
    command: Command, posted: list[Transaction], tmp_path: Path
) -> None:
    file = tmp_path / "books.jsonl"
    command("export", "--format", "jsonl", "--output", str(file))
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert file.read_text(encoding="utf-8") == command("export", "--format", "jsonl").stdout
    refused = command("export", "--format", "csv", "--output", str(file), status=1)
    assert only_line(refused.stderr) == f"ledger-engine: {file} exists; name another file."


def test_live_mode_and_another_project_are_exported_apart(
    command: Command, posted: list[Transaction]
) -> None:
    assert command("export", "--format", "jsonl", "--mode", "live").stdout == ""
    refused = command("export", "--format", "jsonl", "--project", "prj_none", status=1)
    assert "prj_none" in only_line(refused.stderr)
