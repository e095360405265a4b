"""Transactions: a transaction moves one amount on one account.

Each transaction has another side, which gets the opposite amount. So the sum of all balances of a book in one
currency is always zero. Without a `destination`, the other side is a *settlement*: a balance that each
project has for each currency and mode, and that no list shows. With a `destination`, the other side is a
second transaction with the same `transfer` (docs/decisions.md#transactions).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar

from ledger_engine.access import idempotency, quotas
from ledger_engine.core.errors import Conflict, InvalidRequest
from ledger_engine.core.ids import AccountId, TransactionId, first_at
from ledger_engine.core.money import MAX_AMOUNT
from ledger_engine.core.records import JsonText, Moment, OneOf, values_writer
from ledger_engine.core.tenant import Tenant
from ledger_engine.events import outbox
from ledger_engine.ledger import accounts
from ledger_engine.ledger.balances import Balances
from ledger_engine.store import GroupCache, Row, Unit, books, in_one_book
from ledger_engine.store.books import BOOK, OF_BOOK
from ledger_engine.store.group_cache import prefetched_by
from ledger_engine.store.pages import Listing, Page, PageRequest

TYPES = ("credit", "debit")
DESCRIPTION_MAX = 500
BATCH_MAX = 1000
# These columns are in the order of the fields of `Transaction`.
_COLUMNS = (
    f"id, account, amount, type, {accounts.DESCRIPTION}, balance_after, created, :livemode AS livemode,"
    " destination, transfer, reverses"
)
# Without this hint SQLite would search by the book and compare the type of each row. PostgreSQL has no hints.
# On PostgreSQL the index `transactions_by_type` contains type and book joined to one value, and
# `store/postgres/rendering.py` replaces the hint and `_OF_TYPE` with a condition on this value.
_BY_TYPE = " INDEXED BY transactions_by_type"
_OF_TYPE = f"type = :type AND book = {BOOK}"

# The ids of the transactions that a reversal undoes: on the account's side and on the destination's side.
Sides = tuple[str | None, str | None]


@dataclass(slots=True)
class Transaction:
    """One posted transaction.

    `amount` is positive; `credit` adds it to the account, `debit` subtracts it. `destination` is the account
    on the other side of a transfer, `transfer` the id that both sides share, `reverses` the transaction that
    this one undoes.
    """

    OBJECT: ClassVar[str] = "transaction"

    id: TransactionId
    account: AccountId
    amount: int
    type: Annotated[str, OneOf(*TYPES)]
    description: str | None
    balance_after: int
    created: Moment
    livemode: bool
    destination: AccountId | None
    transfer: TransactionId | None
    reverses: TransactionId | None


@dataclass(slots=True)
class NewTransaction:
    account: str
    amount: int
    type: str
    description: str | None = None
    destination: str | None = None


def _prefetch(unit: Unit, tenant: Tenant, calls: list[tuple[Any, ...]]) -> None:
    """For several calls of `post`, read all accounts together, and all idempotency keys together."""
    ids = [id for (new, *_) in calls for id in (new.account, new.destination) if id is not None]
    unit.cached(Balances, tenant).read(ids)
    if keys := [key for (_, *further) in calls for key in further if key is not None]:
        unit.cached(idempotency.UnusedKeys, tenant).read(keys)


@in_one_book
@prefetched_by(_prefetch)
def post(unit: Unit, tenant: Tenant, new: NewTransaction, key: str | None = None) -> Transaction:
    """Post a transaction, or both transactions of a transfer; return the transaction on `new.account`."""
    id = unit.new_id("txn")
    idempotency.take(unit, tenant, key, id)
    return _post(unit, tenant, id, new, "")


def post_due(unit: Unit, tenant: Tenant, due: NewTransaction) -> Transaction:
    """Post a transaction that follows from a stored object, such as the payment of an invoice.

    An error names no `param`, because no field of the request is at fault.
    """
    return _post(unit, tenant, unit.new_id("txn"), due, None)


@in_one_book
def post_batch(
    unit: Unit, tenant: Tenant, batch: Sequence[NewTransaction], key: str | None = None
) -> list[Transaction]:
    """Post 1 to 1000 transactions, all or none, and return the transaction on the `account` of each item.

    The `param` of an error begins with the path of the item at fault, such as `transactions.0`.
    """
    if not 1 <= len(batch) <= BATCH_MAX:
        raise InvalidRequest(
            "invalid_value", f"transactions must have 1 to {BATCH_MAX} items.", "transactions"
        )
    first = id = unit.new_id("txn")
    idempotency.take(unit, tenant, key, first)
    postings = Postings(unit, tenant)
    postings.expect(batch)
    transactions = []
    for number, new in enumerate(batch):
        # Make each id just before its transaction is posted, because ids must be in the order of posting, and
        # a transfer takes a second id.
        if number:
            id = unit.new_id("txn")
        transactions.append(postings.add(id, new, f"transactions.{number}."))
    idempotency.store_ids(unit, tenant, key, [transaction.id for transaction in transactions])
    return transactions


@in_one_book
def reverse(unit: Unit, tenant: Tenant, id: str, key: str | None = None) -> Transaction:
    """Post the opposite of a transaction; for a transaction of a transfer, reverse both sides.

    Raises NotFound, and Conflict if the transaction was already reversed.
    """
    new_id = unit.new_id("txn")
    idempotency.take(unit, tenant, key, new_id)
    idempotency.store_ids(unit, tenant, key, [id, new_id])
    original = get(unit, tenant, id)
    reversal = unit.first(
        f"SELECT id FROM transactions WHERE reverses = :id AND {OF_BOOK}",
        tenant.bind(id=id),
    )
    if reversal is not None:
        raise Conflict("not_recoverable", f"{id} has already been reversed, by {reversal['id']}.")
    opposite = NewTransaction(
        account=original.account,
        amount=original.amount,
        type=_opposite(original.type),
        description=original.description,
        destination=original.destination,
    )
    other_side = None
    if original.transfer is not None:
        row = unit.first(
            f"SELECT id FROM transactions WHERE transfer = :transfer AND id <> :id AND {OF_BOOK}",
            tenant.bind(transfer=original.transfer, id=id),
        )
        assert row is not None, "a transfer has two sides"
        other_side = row["id"]
    return _post(unit, tenant, new_id, opposite, None, reverses=(id, other_side))


def get(unit: Unit, tenant: Tenant, id: str) -> Transaction:
    """Return the transaction. Raises NotFound."""
    return _LISTING.get(unit, tenant, id)


def related(unit: Unit, tenant: Tenant, id: str) -> list[Transaction]:
    """Return the transactions to which the transaction `id` is related.

    These are the reversal of `id`, the other side of the transfer of `id`, and the transaction that `id`
    reverses, as far as they exist. Raises NotFound.
    """
    transaction = get(unit, tenant, id)
    rows = unit.execute(
        f"SELECT {_COLUMNS} FROM transactions WHERE reverses = :id AND {OF_BOOK}", tenant.bind(id=id)
    )
    if transaction.transfer is not None:
        rows += unit.execute(
            f"SELECT {_COLUMNS} FROM transactions WHERE transfer = :transfer AND id <> :id AND {OF_BOOK}",
            tenant.bind(transfer=transaction.transfer, id=id),
        )
    others = [_LISTING.read(row) for row in rows]
    if transaction.reverses is not None:
        others.append(get(unit, tenant, transaction.reverses))
    return others


def page(
    unit: Unit,
    tenant: Tenant,
    request: PageRequest,
    *,
    account: str | None = None,
    type: str | None = None,
    created_after: int | None = None,
    at: int | None = None,
    as_text: bool = False,
) -> Page[Any]:
    """Return a page of the transactions, newest first; with `as_text`, each item is a `JsonText`.

    `created_after` and `at` are in milliseconds. With `created_after`, the page contains only transactions
    posted after this millisecond; with `at`, only transactions posted until the end of this millisecond.
    """
    if type is not None and type not in TYPES:
        raise InvalidRequest("invalid_value", "type must be credit or debit.", "type")
    since = None if created_after is None else first_at("txn", created_after + 1)
    until = None if at is None else first_at("txn", at + 1)
    read = _text if as_text else _read
    if account is not None:
        values, equal = {"account": account}, {"type": type}
        listing = _OF_ACCOUNT if type is None else _OF_ACCOUNT_AND_TYPE
        among = accounts.OF_ACCOUNT
    elif type is not None:
        values, equal = {"type": type}, {}
        listing, among = _OF_ONE_TYPE, _OF_TYPE
    else:
        values, equal = {}, {}
        listing, among = _LISTING, OF_BOOK
    return listing.page(
        unit, tenant, request, equal, since=since, until=until, among=among, values=values, read=read
    )


def oldest_first(
    unit: Unit, tenant: Tenant, after: str | None, since: int | None, until: int | None, limit: int
) -> list[Transaction]:
    """Return the next `limit` transactions after the id `after`, oldest first.

    If `after` is None, begin at the millisecond `since`; if `since` is None too, begin at the first
    transaction. `until` is the last included millisecond; None means no limit.
    """
    rows = unit.execute(
        f"SELECT {_COLUMNS} FROM transactions WHERE {OF_BOOK} AND id > :after AND id < :beyond"
        " ORDER BY id LIMIT :rows",
        tenant.bind(
            after=after or first_at("txn", since or 0),
            beyond=first_at("txn", 1 << 48 if until is None else until + 1),
            rows=limit,
        ),
    )
    return [_read(row) for row in rows]


def _post(
    unit: Unit,
    tenant: Tenant,
    id: str,
    new: NewTransaction,
    prefix: str | None,
    reverses: Sides = (None, None),
) -> Transaction:
    return Postings(unit, tenant).add(id, new, prefix, reverses)


class PostedBook:
    """The values that the works of a group share when they post to one book.

    A *group* is the works of one commit (`store.group_commit`). Implements `store.CachedValues`.
    """

    # The tables that contain the book's number, the number of stored objects, and the balances.
    tables: ClassVar = books.TABLES | quotas.StoredObjects.tables | Balances.tables
    __slots__ = ("balances", "events", "cache", "number", "rows", "stored")

    def __init__(self, cache: GroupCache, tenant: Tenant) -> None:
        self.cache = cache
        self.number = books.number_of(cache, tenant)
        self.stored = cache.cached(quotas.StoredObjects, tenant)
        self.balances = cache.cached(Balances, tenant)
        self.rows = cache.rows("transactions", _STORED)
        self.events = cache.rows(outbox.TABLE, outbox.STORED)

    def write(self) -> None:
        """Store the balances and the number of stored objects."""
        self.stored.write()
        self.balances.write()


class Postings:
    """The transactions that one work posts.

    `add` checks the transactions one by one. The cache writes them together with the transactions of the
    other works in the group. Use an instance only until the work executes its next SQL statement, because a
    statement may make the cache drop the values that the instance changes. If `add` raises an error, it has
    changed nothing.
    """

    __slots__ = ("_book", "_is_noted", "_stored_before", "_tenant", "_unit")

    def __init__(self, unit: Unit, tenant: Tenant) -> None:
        self._unit = unit
        self._tenant = tenant
        self._book = unit.cached(PostedBook, tenant)
        self._stored_before = self._book.stored.number
        self._is_noted = False  # whether this work has told the cache that it changes the book
        unit.announce(outbox.TOPIC)

    def add(
        self, id: str, new: NewTransaction, prefix: str | None, reverses: Sides = (None, None)
    ) -> Transaction:
        """Change the balances and add a transaction, or both transactions of a transfer.

        Return the transaction on `new.account`, whose id is `id`. `prefix` comes before the field names in
        errors; it is None if the request does not contain the fields (`Balances`).
        """
        _check(new, prefix or "")
        tenant, book, destination = self._tenant, self._book, new.destination
        balances = book.balances
        change = new.amount if new.type == "credit" else -new.amount
        objects = 1 if destination is None else 2
        number = book.stored.with_new(tenant, objects, self._stored_before)
        balance = balances.movable(tenant, new.account, change, prefix)
        if destination is None:
            other = balances.movable_settlement(balance.currency, -change, prefix)
        else:
            other = balances.movable(tenant, destination, -change, prefix, "destination")
            if other.currency != balance.currency:
                raise InvalidRequest(
                    "currency_mismatch",
                    f"{new.account} is in {balance.currency} and {destination} in {other.currency}.",
                    None if prefix is None else prefix + "destination",
                )
        # Nothing can fail after this point, so `add` makes either all changes in memory or none.
        if not self._is_noted:
            self._is_noted = True
            book.cache.change(book)
        book.stored.number = number
        balances.move(new.account, balance, change, destination, other)
        unit = self._unit
        transaction = Transaction(
            id,
            new.account,
            new.amount,
            new.type,
            new.description,
            balance.amount,
            Moment(unit.now),
            tenant.livemode,
            destination,
            None if destination is None else id,
            reverses[0],
        )
        self._add(transaction)
        if destination is None:
            return transaction
        self._add(
            Transaction(
                unit.new_id("txn"),
                destination,
                new.amount,
                _opposite(new.type),
                new.description,
                other.amount,
                transaction.created,
                transaction.livemode,
                new.account,
                id,
                reverses[1],
            )
        )
        return transaction

    def expect(self, batch: Sequence[NewTransaction]) -> None:
        """Read the accounts for the next calls of `add` together; one account at a time would take longer."""
        self._book.balances.read([new.account for new in batch])
        self._book.balances.read([new.destination for new in batch if new.destination is not None])

    def balance(self, account: str) -> int:
        """Return the account's balance after the transactions added so far. Raises NotFound."""
        return self._book.balances.of(account).amount

    def _add(self, transaction: Transaction) -> None:
        """Add the row and the event of a transaction."""
        book = self._book
        description, long_description = accounts.stored_description(transaction.description)
        book.rows.append(
            (
                book.number,
                transaction.id,
                transaction.account,
                transaction.amount,
                transaction.type,
                description,
                transaction.balance_after,
                transaction.destination,
                transaction.transfer,
                transaction.reverses,
                transaction.created,
                long_description,
            )
        )
        book.events.append(outbox.row_of(self._unit, self._tenant, book.number, outbox.POSTING, transaction))


def _check(new: NewTransaction, prefix: str) -> None:
    if new.type not in TYPES:
        raise InvalidRequest("invalid_value", "type must be credit or debit.", prefix + "type")
    if not 1 <= new.amount <= MAX_AMOUNT:
        raise InvalidRequest("invalid_value", f"amount must be 1 to {MAX_AMOUNT}.", prefix + "amount")
    if new.description is not None and len(new.description) > DESCRIPTION_MAX:
        raise InvalidRequest(
            "invalid_value", f"description has at most {DESCRIPTION_MAX} characters.", prefix + "description"
        )
    if new.destination == new.account:
        raise InvalidRequest("invalid_value", "destination must be another account.", prefix + "destination")


def _opposite(type: str) -> str:
    return "debit" if type == "credit" else "credit"


_write = values_writer(Transaction)


def _text(row: Row) -> JsonText:
    return JsonText(_write(*row))  # the order of the columns is the order of the parameters


def _read(row: Row) -> Transaction:
    # Unpack by position in _COLUMNS, because access by name takes three times as long.
    id, account, amount, type, description, balance, created, livemode, *others = row
    return Transaction(id, account, amount, type, description, balance, created, bool(livemode), *others)


# These columns are in the order of the values that `Postings._add` adds.
_STORED = (
    "book", "id", "account", "amount", "type", "description", "balance_after", "destination", "transfer",
    "reverses", "created", "long_description",
)  # fmt: skip
_LISTING: Listing[Transaction] = Listing("transactions", "transaction", _read, OF_BOOK, _COLUMNS)
_OF_ONE_TYPE = replace(_LISTING, hint=_BY_TYPE)
_OF_ACCOUNT = replace(_LISTING, table=accounts.TRANSACTIONS)
_OF_ACCOUNT_AND_TYPE = replace(_LISTING, table=accounts.OF_ONE_TYPE)
