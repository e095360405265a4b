"""Accounts: named balances, each in one currency."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from ledger_engine.access import idempotency, quotas
from ledger_engine.core.errors import InvalidRequest
from ledger_engine.core.ids import AccountId, first_at
from ledger_engine.core.money import CurrencyCode, parse_currency
from ledger_engine.core.records import Moment, dumps
from ledger_engine.core.tenant import Tenant
from ledger_engine.events import outbox
from ledger_engine.store import Unit, in_one_book
from ledger_engine.store.books import OF_TENANT
from ledger_engine.store.pages import Listing, Page, PageRequest
from ledger_engine.store.rows import any_of, insert, reader

# Callers store two kinds of text: the description of a transaction, and the metadata of an object, which are
# up to 20 pairs of texts (docs/interface.md#account).
#
# The index by account and type includes the column `description`, so that the database reads an account's
# transactions from the index alone. But the database would store a long description twice, in the table and
# in the index, and only a few entries would fit on a page of the index. So the ledger stores a long
# description in the column `long_description`, which is in no index. The column `description` then contains
# `ELSEWHERE`.


SHORT_MAX = 100  # characters of a short description
ELSEWHERE = "…"  # a caller may send this text as a description too; then `long_description` is NULL
PAIRS_MAX = 20  # pairs in the metadata of an object
KEY_MAX = 64  # characters
VALUE_MAX = 1024  # characters

# Selects the whole description from `transactions`, or from any other table or query with these two columns.
DESCRIPTION = "coalesce(long_description, description) AS description"


def stored_description(description: str | None) -> tuple[str | None, str | None]:
    """Return the values of the columns `description` and `long_description` for a description."""
    if description is None or len(description) <= SHORT_MAX:
        return description, None
    return ELSEWHERE, description


def parse_metadata(metadata: Mapping[str, str]) -> dict[str, str]:
    """Return a copy of the metadata.

    Raises InvalidRequest if there are too many pairs, if a text is too long, or if a key is empty.
    """
    if len(metadata) > PAIRS_MAX:
        raise InvalidRequest("invalid_value", f"metadata holds at most {PAIRS_MAX} pairs.", "metadata")
    for key, value in metadata.items():
        if not 1 <= len(key) <= KEY_MAX:
            raise InvalidRequest(
                "invalid_value", f"A key of metadata has 1 to {KEY_MAX} characters.", "metadata"
            )
        if len(value) > VALUE_MAX:
            raise InvalidRequest(
                "invalid_value", f"A value of metadata has at most {VALUE_MAX} characters.", f"metadata.{key}"
            )
    return dict(metadata)


# Accounts


NAME_MAX = 255


# The index by account and type contains all these columns, so the database reads the transactions of one
# account from the index alone. The database reads only long descriptions from the table.
_FROM_INDEX = f"""SELECT book, id, account, amount, type, description, balance_after, destination, transfer,
    reverses, created, CASE description WHEN '{ELSEWHERE}' THEN (SELECT r.long_description
        FROM transactions AS r WHERE r.book = t.book AND r.id = t.id) END AS long_description
FROM transactions AS t"""
# This text follows FROM in SQL statements that read the transactions of one account. For each account, the
# index by account and type contains all credits in the order of their ids, then all debits in the order of
# their ids. For `ORDER BY id` SQLite merges the two lists, but only if the SQL statement also selects the id.
# Otherwise SQLite sorts all the transactions.
TRANSACTIONS = (
    f"({_FROM_INDEX} WHERE type = 'credit' UNION ALL {_FROM_INDEX} WHERE type = 'debit') AS of_both_types"
)
# This text follows FROM in SQL statements that read an account's transactions of one type. The WHERE clause
# of such a statement must contain a condition on the type.
OF_ONE_TYPE = f"({_FROM_INDEX}) AS of_one_type"
# The condition for the transactions of a tenant's account. An account belongs to one book, so a condition on
# the book is not needed. With such a condition SQLite would search by the book instead of the account.
OF_ACCOUNT = (
    "account = (SELECT id FROM accounts WHERE id = :account AND project = :project AND livemode = :livemode)"
)


@dataclass(slots=True)
class Account:
    """An account; its `balance` is in the currency's smallest unit and may be negative."""

    OBJECT: ClassVar[str] = "account"

    id: AccountId
    name: str
    currency: CurrencyCode
    balance: int
    created: Moment
    livemode: bool
    metadata: dict[str, str]


@dataclass(slots=True)
class NewAccount:
    name: str
    currency: str
    metadata: dict[str, str]


@dataclass(slots=True)
class Balance:
    """The balance of an account at the end of the millisecond `at`."""

    balance: int
    currency: CurrencyCode
    at: Moment


@in_one_book
def create(unit: Unit, tenant: Tenant, new: NewAccount, key: str | None = None) -> Account:
    """Create an account with a balance of 0, and return it."""
    if not 1 <= len(new.name) <= NAME_MAX:
        raise InvalidRequest("invalid_value", f"name must have 1 to {NAME_MAX} characters.", "name")
    account = Account(
        id=unit.new_id("acc"),
        name=new.name,
        currency=parse_currency(new.currency),
        balance=0,
        created=Moment(unit.now),
        livemode=tenant.livemode,
        metadata=parse_metadata(new.metadata),
    )
    idempotency.take(unit, tenant, key, account.id)
    quotas.count_stored(unit, tenant)
    values = tenant.bind(
        id=account.id,
        name=account.name,
        currency=account.currency,
        metadata=dumps(account.metadata),
        created=account.created,
    )
    insert(unit, "accounts", values)
    outbox.record(unit, tenant, "account.created", account)
    return account


def get(unit: Unit, tenant: Tenant, id: str, param: str | None = None) -> Account:
    """Return the account. Raises NotFound; the error names `param`, the request's field with the id."""
    return _LISTING.get(unit, tenant, id, param)


def page(unit: Unit, tenant: Tenant, request: PageRequest, *, until: str | None = None) -> Page[Account]:
    """Return a page of the accounts, newest first; with `until`, only accounts with ids less than `until`."""
    return _LISTING.page(unit, tenant, request, {}, until=until)


def with_ids(unit: Unit, tenant: Tenant, ids: Sequence[str]) -> list[Account]:
    """Return the accounts with these ids in no particular order. This takes one SQL statement."""
    if not ids:
        return []
    id_list, parameters = any_of(ids)
    rows = unit.execute(
        f"SELECT * FROM accounts WHERE {OF_TENANT} AND id IN ({id_list})", tenant.bind() | parameters
    )
    return list(map(read, rows))


def oldest_first(unit: Unit, tenant: Tenant) -> list[Account]:
    """Return all accounts of the book, oldest first."""
    return [
        read(row)
        for row in unit.execute(f"SELECT * FROM accounts WHERE {OF_TENANT} ORDER BY id", tenant.bind())
    ]


def balance_at(unit: Unit, tenant: Tenant, id: str, at: int) -> Balance:
    """Return the account's balance after all transactions up to the end of the millisecond `at`."""
    account = get(unit, tenant, id)
    return Balance(balance_before(unit, tenant, id, at + 1), account.currency, Moment(at))


# Selects an account's newest transaction of one type before the id `:first`, as a text: the transaction's id,
# a space, and the balance after the transaction.
_LAST_OF_TYPE = """(SELECT t.id || ' ' || t.balance_after FROM transactions AS t
    WHERE t.account = accounts.id AND t.type = '{}' AND t.id < :first ORDER BY t.id DESC LIMIT 1)"""


def balances_before(unit: Unit, tenant: Tenant, ids: Sequence[str], moment: int) -> dict[str, int]:
    """Return the balances of several accounts as `balance_before` does, but with only one SQL statement."""
    if not ids:
        return {}
    id_list, parameters = any_of(ids)
    rows = unit.execute(
        f"SELECT id, {_LAST_OF_TYPE.format('credit')} AS credit, {_LAST_OF_TYPE.format('debit')} AS debit"
        f" FROM accounts WHERE {OF_TENANT} AND id IN ({id_list})",
        tenant.bind(first=first_at("txn", moment)) | parameters,
    )
    # All ids have the same length, so the greater text is the text with the newer id.
    last = {row["id"]: max(row["credit"] or "", row["debit"] or "") for row in rows}
    return {id: int(text.partition(" ")[2] or 0) for id, text in last.items()}


def balance_before(unit: Unit, tenant: Tenant, id: str, moment: int) -> int:
    """Return the account's balance after its last transaction before `moment` (milliseconds).

    Return 0 if the account has no earlier transaction.
    """
    row = unit.first(
        f"SELECT id, balance_after FROM {TRANSACTIONS} WHERE {OF_ACCOUNT} AND id < :first"
        " ORDER BY id DESC LIMIT 1",
        tenant.bind(account=id, first=first_at("txn", moment)),
    )
    return row["balance_after"] if row else 0


read = reader(Account)
_LISTING: Listing[Account] = Listing("accounts", "account", read)
