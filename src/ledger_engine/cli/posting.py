"""Posts the transactions of a file in batches. A second run with the same file posts nothing twice.

The idempotency key of a batch is made from its transactions and its number in the file. If an earlier run
posted the batch, the server refuses the key, and this module counts the batch as posted.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ledger_client.calls import Answer, ApiCall, as_it_is
from ledger_client.errors import AlreadyDone, ApiError, LedgerError, NotConnected, NotFound, RateLimited
from ledger_client.ledger import AsyncLedger
from ledger_client.records import Account
from ledger_engine.cli.posted_file import FileRow, RowFault, in_smallest_unit
from ledger_engine.core.money import DECIMALS

BATCH_ROWS_MAX = 1000  # the server's maximum (docs/decisions.md#transactions-batch)
_BATCH_BYTES_MAX = 900_000  # less than 1 MB, the server's limit for a body
_READ_ONE_BY_ONE = 100  # for more accounts than this, it is faster to read the list of all accounts
_PATH = "/v1/transactions/batch"
_ITEM = re.compile(r"transactions\.(\d+)(?:\.|$)")


@dataclass(frozen=True, slots=True)
class Posting:
    """One transaction as it is sent, with its line in the file and its currency."""

    line: int
    body: Mapping[str, Any]
    currency: str


@dataclass(frozen=True, slots=True)
class Batch:
    """The transactions of one request, and its idempotency key. The server posts all of them or none."""

    postings: Sequence[Posting]
    key: str


class NotPosted(Exception):
    """The server refused a batch and posted nothing of it; the message is a full sentence."""


@dataclass(slots=True)
class PostingProgress:
    """How many transactions of the file are posted.

    `posted` counts the transactions that the server accepted in this run. `posted_before` counts the
    transactions that the server refused in this run, because they were already posted: by an earlier run, or
    by an attempt of this run whose answer was lost.
    """

    posted: int = 0
    posted_before: int = 0


class _BatchCall(ApiCall[Answer]):
    """The request for a batch.

    If an attempt posts the batch, but its answer is lost, the server refuses the next attempt and names the
    transactions of the batch. After such a refusal, the client normally reads each object that the server
    names. This class prevents that, because the transactions are not needed.
    """

    def made_before(self, error: LedgerError) -> list[str]:
        """Return no ids, so that the client raises AlreadyDone; `post_batch` then returns False."""
        return []


async def prepare(ledger: AsyncLedger, rows: Sequence[FileRow]) -> tuple[list[Posting], list[RowFault]]:
    """Return the transactions to send, with the ids of their accounts, and the faults of the other rows.

    Raises LedgerError.
    """
    names = {row.account for row in rows} | {row.destination for row in rows if row.destination}
    accounts = await _accounts(ledger, names)
    postings, faults = list[Posting](), list[RowFault]()
    for row in rows:
        try:
            postings.append(_posting(row, accounts))
        except ValueError as error:
            faults.append(RowFault(row.line, str(error)))
    return postings, faults


async def _accounts(ledger: AsyncLedger, names: set[str]) -> dict[str, Account | str]:
    """Return for each id or name the account, or a sentence with the reason why no account can be chosen.

    Raises LedgerError.
    """
    if len(names) <= _READ_ONE_BY_ONE and all(name.startswith("acc_") for name in names):
        return {id: await _account(ledger, id) for id in sorted(names)}
    by_id, by_name = dict[str, Account](), dict[str, list[Account]]()
    async for account in ledger.accounts.list():
        by_id[account.id] = account
        by_name.setdefault(account.name.casefold(), []).append(account)

    def account_of(name: str) -> Account | str:
        namesakes = by_name.get(name.strip().casefold(), [])
        if name in by_id:
            return by_id[name]
        if len(namesakes) > 1:
            return f"{len(namesakes)} accounts are called “{name}”; give the id."
        return namesakes[0] if namesakes else _unknown(name)

    return {name: account_of(name) for name in names}


async def _account(ledger: AsyncLedger, id: str) -> Account | str:
    try:
        return await ledger.accounts.get(id)
    except NotFound:
        return _unknown(id)


def _unknown(name: str) -> str:
    return f"There is no account “{name}”."


def _posting(row: FileRow, accounts: Mapping[str, Account | str]) -> Posting:
    """Return the transaction to send for a row. Raises ValueError with a sentence."""
    account = accounts[row.account]
    if isinstance(account, str):
        raise ValueError(account)
    if row.currency is not None and row.currency.upper() != account.currency:
        raise ValueError(f"The currency is {row.currency}, but {account.name} is in {account.currency}.")
    amount = row.amount
    if isinstance(amount, str):
        decimals = DECIMALS.get(account.currency)
        if decimals is None:
            raise ValueError(f"The number of decimals of {account.currency} is not known; use amount.")
        amount = in_smallest_unit(amount, account.currency, decimals)
    body: dict[str, Any] = {"account": account.id, "type": row.type, "amount": amount}
    if row.description:
        body["description"] = row.description
    if row.destination:
        other = accounts[row.destination]
        if isinstance(other, str):
            raise ValueError(other)
        if other.id == account.id:
            raise ValueError("The destination must be another account.")
        if other.currency != account.currency:
            raise ValueError(
                f"{account.name} is in {account.currency}, but {other.name} in {other.currency}."
            )
        body["destination"] = other.id
    return Posting(row.line, body, account.currency)


def batches_of(postings: Iterable[Posting], name: str | None = None) -> list[Batch]:
    """Divide the transactions into batches, so that each batch fits into one request.

    `name` is the value of `--once`. The idempotency key of a batch depends on its content, its number and
    `name`. So with the same `name`, another file with the same transactions in the same order posts nothing.
    """
    batches: list[list[Posting]] = []
    size = 0
    for posting in postings:
        bytes_ = len(_canonical_json(posting.body).encode()) + 2
        if not batches or len(batches[-1]) >= BATCH_ROWS_MAX or size + bytes_ > _BATCH_BYTES_MAX:
            batches.append([])
            size = 0
        batches[-1].append(posting)
        size += bytes_
    return [Batch(batch, _key(batch, number, name)) for number, batch in enumerate(batches, 1)]


def _key(batch: Sequence[Posting], number: int, name: str | None) -> str:
    content = _canonical_json([name, number, *(posting.body for posting in batch)])
    return f"post-file-{hashlib.sha256(content.encode()).hexdigest()}"


def _canonical_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def totals(postings: Iterable[Posting]) -> dict[tuple[str, str], int]:
    """Return the sum of the amounts for each type and currency, in the smallest unit."""
    sums: Counter[tuple[str, str]] = Counter()
    for posting in postings:
        sums[posting.body["type"], posting.currency] += posting.body["amount"]
    return dict(sums)


async def post_batches(
    ledger: AsyncLedger, batches: Sequence[Batch], progress: PostingProgress, report: Callable[[int], object]
) -> None:
    """Post the batches in order, and stop at the first failure.

    After each batch, call `report` with the number of transactions in the batch.

    Raises NotPosted for a refusal, and NotConnected, ApiError or RateLimited after the last attempt.
    """
    for batch in batches:
        try:
            is_new = await post_batch(ledger, batch)
        except (NotConnected, ApiError, RateLimited):
            raise
        except LedgerError as error:
            raise NotPosted(_reason(error, batch)) from error
        if is_new:
            progress.posted += len(batch.postings)
        else:
            progress.posted_before += len(batch.postings)
        report(len(batch.postings))


async def post_batch(ledger: AsyncLedger, batch: Batch) -> bool:
    """Post a batch; return False if the batch was already posted (`PostingProgress`). Raises LedgerError."""
    body = {"transactions": [posting.body for posting in batch.postings]}
    try:
        await ledger.send(_BatchCall(as_it_is, "POST", _PATH, body, key=batch.key))
    except AlreadyDone:
        return False
    return True


def _reason(error: LedgerError, batch: Batch) -> str:
    """Return the refusal of a batch as a sentence that names the wrong line, or all lines of the batch."""
    if error.status in (404, 405) and error.param is None:
        return (
            "The server does not take batches. Post one transaction at a time: ledger-engine post ACCOUNT …"
        )
    item = _ITEM.match(error.param or "")
    at = int(item[1]) if item else 0 if len(batch.postings) == 1 else None
    lines = f"Lines {batch.postings[0].line}–{batch.postings[-1].line}"
    if at is not None and at < len(batch.postings):
        lines = f"Line {batch.postings[at].line}"
    return f"{lines}: {error.status} {error.code}: {error}"
