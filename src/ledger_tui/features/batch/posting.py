"""Posting the transactions of a file: in parts that are each posted as a whole or not at all."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ledger_tui.client.api import Api, new_idempotency_key
from ledger_tui.client.lists import learn_account, learn_accounts_until
from ledger_tui.client.names import AccountName, AccountNames
from ledger_tui.features.batch.batch_file import PROBLEMS_SAID, BadFile, FileRow, read_rows
from ledger_tui.formats.money import LARGEST_AMOUNT, parse_amount

ROWS_IN_PART = 1000  # the server's maximum (docs/decisions.md#accounts)
_BYTES_IN_PART = 900_000  # a body has at most 1 MB
_FILE_BYTES = 64_000_000


@dataclass(frozen=True, slots=True)
class Posting:
    """One transaction as it is sent, with its line in the file and its currency."""

    line: int
    body: Mapping[str, Any]
    currency: str


@dataclass(frozen=True, slots=True)
class Part:
    """Transactions that are posted by one request. Sent again it cannot post them twice."""

    postings: Sequence[Posting]
    idempotency_key: str


def read_file(file: Path) -> list[FileRow]:
    """Return the transactions of a file. Raises BadFile."""
    if file.suffix.lower() not in (".csv", ".jsonl"):
        raise BadFile("The name must end in .csv or .jsonl.")
    try:
        if file.stat().st_size > _FILE_BYTES:
            raise BadFile(f"The file is larger than {_FILE_BYTES // 1_000_000} MB.")
        text = file.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError:
        raise BadFile("The file is not UTF-8.") from None
    except OSError as error:
        raise BadFile(f"The file cannot be read: {error.strerror}.") from None
    return read_rows(file.name, text)


async def prepare(api: Api, names: AccountNames, rows: Sequence[FileRow]) -> list[Posting]:
    """Return the rows with their accounts' ids, and amounts in the smallest unit.

    Accounts that are not known yet are read. Raises BadFile with each problem, and ClientError.
    """
    wanted = {row.account for row in rows} | {row.destination for row in rows if row.destination}
    accounts = {name: await _account(api, names, name) for name in sorted(wanted)}
    postings, problems = [], []
    for row in rows:
        try:
            postings.append(_posting(row, accounts))
        except ValueError as error:
            problems.append(f"Line {row.line}: {error}")
    if problems:
        more = [f"and {len(problems) - PROBLEMS_SAID:,} more"] if len(problems) > PROBLEMS_SAID else []
        raise BadFile("\n".join([*problems[:PROBLEMS_SAID], *more]))
    return postings


async def _account(api: Api, names: AccountNames, wanted: str) -> AccountName | str:
    """Return the account with this id or exactly this name, or what is wrong. Raises ClientError."""
    if names.get(wanted) is None and not names.with_name(wanted):
        if wanted.startswith("acc_"):
            await learn_account(api, names, wanted)
        else:
            await learn_accounts_until(api, names, wanted)
    known = names.get(wanted)
    found = [known] if known is not None else names.with_name(wanted)
    if len(found) == 1:
        return found[0]
    if found:
        return f"{len(found)} accounts are called “{wanted}”; give the id."
    return f"There is no account “{wanted}”."


def _posting(row: FileRow, accounts: Mapping[str, AccountName | str]) -> Posting:
    """Return what is sent for a row. Raises ValueError with a sentence."""
    account = accounts[row.account]
    if isinstance(account, str):
        raise ValueError(account)
    if row.currency is not None and row.currency.upper() != account.currency:
        raise ValueError(f"The currency is {row.currency}, but that of {account.name} is {account.currency}.")
    amount = row.amount if isinstance(row.amount, int) else parse_amount(row.amount, account.currency)
    if amount > LARGEST_AMOUNT:
        raise ValueError("The amount is too large.")
    body: dict[str, Any] = {"account": account.id, "type": row.type, "amount": amount}
    if row.description:
        body["description"] = row.description
    if row.destination:
        other = accounts[row.destination]
        if isinstance(other, str):
            raise ValueError(other)
        body["destination"] = other.id
    return Posting(row.line, body, account.currency)


def parts_of(postings: Iterable[Posting], rows_most: int = ROWS_IN_PART) -> list[Part]:
    """Return the postings in parts that fit into a request."""
    parts: list[list[Posting]] = []
    size = 0
    for posting in postings:
        bytes_ = len(json.dumps(posting.body, ensure_ascii=False).encode("utf-8", "surrogatepass")) + 2
        if not parts or len(parts[-1]) >= rows_most or size + bytes_ > _BYTES_IN_PART:
            parts.append([])
            size = 0
        parts[-1].append(posting)
        size += bytes_
    return [Part(part, new_idempotency_key()) for part in parts]


def totals(postings: Iterable[Posting]) -> dict[tuple[str, str], int]:
    """Return the sums by type and currency."""
    sums: Counter[tuple[str, str]] = Counter()
    for posting in postings:
        sums[posting.body["type"], posting.currency] += posting.body["amount"]
    return dict(sums)


async def post_part(api: Api, path: str, part: Part, *, one: bool = False) -> None:
    """Post a part: by one request to `path`, or with `one` its only transaction by itself.

    Raises ClientError: AlreadyDone when an earlier attempt has posted it, NotOffered when the server takes no
    batches.
    """
    if one:
        await api.write("POST", "/v1/transactions", part.postings[0].body, part.idempotency_key)
        return
    body = {"transactions": [posting.body for posting in part.postings]}
    await api.write("POST", path, body, part.idempotency_key, part="transactions.batch")
