"""`ledger-engine export`: other programs read what it writes, and compute the same balances."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import re
import stat
import subprocess
from datetime import date, timedelta
from functools import partial
from pathlib import Path

import pytest

from ledger_engine.access import projects
from ledger_engine.cli.running import using
from ledger_engine.core.clock import DAY, SystemClock, iso
from ledger_engine.core.settings import Location
from ledger_engine.core.tenant import Tenant
from ledger_engine.ledger import accounts, transactions
from ledger_engine.ledger.accounts import Account, NewAccount
from ledger_engine.ledger.transactions import NewTransaction, Transaction
from ledger_engine.store import Unit
from ledger_engine.tools.export import amount_of
from tests.contract.rules import holds
from tests.ledger_engine.cli.conftest import Command, only_line
from tests.programs import path_of

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
DEBIT_ROOTS = ("assets", "expenses")  # a positive balance is a debit there, a credit elsewhere
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


def all_accounts(database: Location) -> list[Account]:
    def read(unit: Unit) -> list[Account]:
        tenant = Tenant(projects.first_or_new(unit)[0].id, livemode=False)
        return [*accounts.oldest_first(unit, tenant)]

    return asyncio.run(using(database, lambda engine: engine.read(read)))


def required(program: str) -> str:
    """Return the path of a program; skip the test if there is none."""
    return path_of(program) or pytest.skip(f"{program} is not installed")


@pytest.mark.parametrize("period", [(), ("--from", "second"), ("--to", "second")])
@pytest.mark.parametrize("kind", READERS_OF)
def test_the_program_of_a_format_computes_the_ledgers_balances(
    kind: str, period: tuple[str, ...], command: Command, posted: list[Transaction], tmp_path: Path
) -> None:
    program, *words = READERS_OF[kind]
    program = required(program)
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
    assert {id: int(amount.replace(".", "")) for id, amount in asserted.items()} == {
        account.id: account.balance if root in DEBIT_ROOTS else -account.balance
        for account, root in zip(all_accounts(database), ROOTS, strict=True)
    }


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
        assert all(min(row["debit"], row["credit"]) == 0 for row in rows)
        accounts = [row for row in rows if row["name"] != "settlement"]
        assert all(
            row["debit"] - row["credit"] == row["balance"] * (1 if row["root"] in DEBIT_ROOTS else -1)
            for row in accounts
        )
        for currency in CURRENCIES:
            assert sum(row["debit"] - row["credit"] for row in rows if row["currency"] == currency) == 0
        settlements = {row["currency"]: row for row in rows if row["name"] == "settlement"}
        ids = {row["name"].split("(")[-1].rstrip(")"): row for row in accounts} | settlements
        return {id: (row["root"], row["debit"] - row["credit"]) for id, row in ids.items()}

    rows = asyncio.run(using(database, lambda engine: engine.read(read)))
    assert [root for id, (root, _) in sorted(rows.items()) if id.startswith("acc_")] == list(ROOTS)
    assert {id: root for id, (root, _) in rows.items() if len(id) == 3} == {
        "EUR": "equity",
        "JPY": "equity",
        "KWD": "assets",  # its only account is one of income, so the money itself is outside the ledger
    }
    hledger = command("export", "--format", "hledger").stdout
    assert sums_of(r"^    (\w+):[^:\n]*:(\w+)  (-?[\d.]+) \w{3}$", hledger) == rows
    types = dict(re.findall(r"^account (\w+):.*  ; type:(\w)$", hledger, re.MULTILINE))
    assert types == {"assets": "A", "liabilities": "L", "equity": "E", "income": "R", "expenses": "X"}
    beancount = command("export", "--format", "beancount").stdout
    assert sums_of(r"^  (\w+):(?:\S+:)?([\w-]+)  (-?[\d.]+) \w{3}$", beancount) == rows
    asserted = re.findall(r"^\S+ balance (\w+):\S+:Acc-(\w+)  (-?[\d.]+) ", beancount, re.MULTILINE)
    assert {f"acc_{id}": (root.lower(), int(amount.replace(".", ""))) for root, id, amount in asserted} == {
        id: row for id, row in rows.items() if id.startswith("acc_")
    }


def sums_of(pattern: str, journal: str) -> dict[str, tuple[str, int]]:
    """Return the root and the balance of each account and settlement, added up from the entries' sides."""
    sums: dict[str, tuple[str, int]] = {}
    for root, name, amount in re.findall(pattern, journal, re.MULTILINE):
        id = name.replace("Acc-", "acc_")
        sums[id] = (root.lower(), sums.get(id, ("", 0))[1] + int(amount.replace(".", "")))
    return sums


def test_an_entry_has_the_settlement_only_for_the_amount_that_its_accounts_leave_open(
    command: Command, posted: list[Transaction]
) -> None:
    journal = command("export", "--format", "hledger").stdout
    entries = {re.findall(r"\bid:(txn_\w+)", entry)[0]: entry for entry in journal.split("\n\n")[1:49]}
    sides = [
        re.findall(r"^    (\w+:\w*).*  (-?[\d.]+) \w{3}$", entries[each.id], re.MULTILINE)
        for each in (posted[0], posted[1], posted[4], posted[3])
    ]
    assert sides == [
        [("assets:Main", "-0.01"), ("liabilities:a", "-0.01"), ("equity:settlement", "0.02")],
        [("liabilities:a", "-0.02"), ("equity:settlement", "0.02")],
        [("expenses:Übersee", "0.65"), ("assets:", "-0.65")],
        [("income:", "-0.028"), ("assets:settlement", "0.028")],
    ]


def test_the_opening_balances_are_dated_the_day_before_the_period(
    command: Command, posted: list[Transaction]
) -> None:
    tomorrow = date.fromisoformat(iso(posted[0].created)[:10]) + timedelta(days=1)
    journal = command("export", "--format", "hledger", "--from", str(tomorrow)).stdout
    days = re.findall(r"^(\S+) \* \(\) Opening balance$", journal, re.MULTILINE)
    assert days == [str(tomorrow - timedelta(days=1))] * 8


# A short journal is read faster; opening balances stand for the other transactions.
LAST_DAYS = ("--from", iso(SystemClock().now() - 10 * DAY))


@pytest.fixture
def sellers_and_income(command: Command, database: Location) -> dict[str, dict[str, Account]]:
    """Load the marketplace; return its sellers and its income, each account by its id."""
    command("seed", "marketplace")
    loaded = all_accounts(database)
    assert all(each.metadata["type"] in ("equity", "income", "liability") for each in loaded)
    return {
        type: {each.id: each for each in loaded if each.metadata["type"] == type}
        for type in ("liability", "income")
    }


@pytest.mark.slow
def test_hledger_shows_a_marketplaces_debts_to_sellers_and_its_commission(
    command: Command, sellers_and_income: dict[str, dict[str, Account]], tmp_path: Path
) -> None:
    program = required("hledger")
    file = tmp_path / "books.journal"
    file.write_text(command("export", "--format", "hledger", *LAST_DAYS).stdout, encoding="utf-8")

    def report(name: str) -> dict[str, dict[str, str]]:
        words = [program, "-f", str(file), name, "-O", "csv"]
        done = subprocess.run(words, capture_output=True, check=True, encoding="utf-8")
        sections: dict[str, dict[str, str]] = {}
        for heading, *amounts in csv.reader(io.StringIO(done.stdout)):
            if amounts == [""]:
                section = sections.setdefault(heading, {})
            elif ":acc_" in heading or ":settlement:" in heading:
                section[heading.split(":")[-1]] = amounts[0]
        return sections

    def balances(type: str) -> dict[str, str]:
        loaded = sellers_and_income[type]
        return {id: amount_of(each.balance, each.currency) for id, each in loaded.items() if each.balance}

    sheet, statement = report("balancesheet"), report("incomestatement")
    assert sheet["Liabilities"] == balances("liability")
    assert statement["Revenues"] == balances("income")
    # The money that buyers paid and nobody drew is the asset.
    assert sorted(sheet["Assets"]) == ["BHD", "EUR", "GBP", "JPY", "KRW", "KWD", "USD"]
    assert not any(amount.startswith("-") for amount in sheet["Assets"].values())
    assert statement["Expenses"] == {}


@pytest.mark.slow
def test_beancount_shows_a_marketplaces_debts_to_sellers_and_its_commission(
    command: Command, sellers_and_income: dict[str, dict[str, Account]], tmp_path: Path
) -> None:
    program = required("bean-check")
    journal = command("export", "--format", "beancount", *LAST_DAYS).stdout
    file = tmp_path / "books.beancount"
    file.write_text(journal, encoding="utf-8")
    done = subprocess.run([program, str(file)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    # Beancount shows a debt and a gain as a negative amount; Fava's statements are in these roots.
    held = re.findall(r"^\S+ balance (\w+):\S+:Acc-(\w+)  (\S+) ~ 0 (\w{3})$", journal, re.MULTILINE)
    for root, type in (("Liabilities", "liability"), ("Income", "income")):
        assert {
            f"acc_{id}": f"{amount} {currency}" for found, id, amount, currency in held if found == root
        } == {id: amount_of(-each.balance, each.currency) for id, each in sellers_and_income[type].items()}
    assert set(re.findall(r"^1970-01-01 open (\w+):Settlement:", journal, re.MULTILINE)) == {"Assets"}


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


def test_a_table_has_each_amount_as_a_decimal_of_its_currency_too(
    command: Command, posted: list[Transaction]
) -> None:
    rows = list(csv.DictReader(io.StringIO(command("export", "--format", "csv").stdout, newline="")))
    for row in rows:
        whole, _, fraction = row["decimal_amount"].partition(".")
        assert int(whole + fraction) == int(row["amount"])
        assert len(fraction) == {"EUR": 2, "JPY": 0, "KWD": 3}[row["currency"]]


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


def test_an_export_of_the_wrong_mode_names_the_other_one(command: Command, posted: list[Transaction]) -> None:
    done = command("export", "--format", "jsonl", "--mode", "live")
    assert done.stdout == ""
    assert done.stderr == "Nothing was exported; with --mode test there are transactions.\n"
    for words in (("--mode", "test"), ("--mode", "live", "--to", "2020-01-01")):
        assert command("export", "--format", "jsonl", *words).stderr == ""


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
