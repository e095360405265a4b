"""Statements: the transactions of an account over a period, with the balances before and after the period.

See docs/decisions.md#statements.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from ledger_engine.core.errors import InvalidRequest
from ledger_engine.core.ids import AccountId, TransactionId, first_at
from ledger_engine.core.money import CurrencyCode
from ledger_engine.core.records import Moment
from ledger_engine.core.tenant import Tenant
from ledger_engine.ledger import accounts
from ledger_engine.ledger.accounts import DESCRIPTION
from ledger_engine.store import Unit

LINES_AT_ONCE = 100  # lines per read; reading and rendering 100 lines takes about a millisecond


@dataclass(slots=True)
class StatementLine:
    """One transaction: `amount` is negative for a debit; `running_balance` is the balance after it."""

    transaction: TransactionId
    date: Moment
    description: str | None
    amount: int
    running_balance: int


_NAMES = tuple(field.name for field in fields(StatementLine))


@dataclass(slots=True)
class Statement:
    """The frame of a statement: opening balance + the lines' amounts = closing balance.

    `last_transaction` is the id of the last line's transaction; None for a statement without lines. It is
    fixed when the statement is drawn up, so that `lines` never returns a transaction that was posted later.
    """

    account: AccountId
    currency: CurrencyCode
    period_start: Moment
    period_end: Moment
    opening_balance: int
    closing_balance: int
    last_transaction: TransactionId | None


def draw_up(unit: Unit, tenant: Tenant, account: str, start: int | None, end: int | None) -> Statement:
    """Return the statement of all transactions from the millisecond `start` to `end`, both included.

    If `start` is None, the statement begins when the account was created. If `end` is None, it ends now.
    Raises NotFound for an unknown account, and InvalidRequest if the start is later than the end.
    """
    record = accounts.get(unit, tenant, account)
    end = unit.now if end is None else end
    start = min(record.created, end) if start is None else start
    if start > end:
        raise InvalidRequest("invalid_value", "from must not be later than to.", "from")
    opening_balance = accounts.balance_before(unit, tenant, account, start)
    last = unit.first(
        f"SELECT id, balance_after FROM {accounts.TRANSACTIONS}"
        f" WHERE {accounts.OF_ACCOUNT}"
        " AND id >= :first AND id < :beyond ORDER BY id DESC LIMIT 1",
        tenant.bind(account=account, first=first_at("txn", start), beyond=first_at("txn", end + 1)),
    )
    return Statement(
        account=account,
        currency=record.currency,
        period_start=Moment(start),
        period_end=Moment(end),
        opening_balance=opening_balance,
        closing_balance=last["balance_after"] if last else opening_balance,
        last_transaction=last["id"] if last else None,
    )


def lines(unit: Unit, tenant: Tenant, statement: Statement, after: str | None = None) -> list[StatementLine]:
    """Return the next lines of the statement after the transaction `after`, oldest first.

    Return the first lines if `after` is None, and [] if no line follows. Transactions never change, so the
    lines of several calls fit together even if other transactions are posted between two calls.
    """
    if statement.last_transaction is None:
        return []
    rows = unit.execute_together(
        f"SELECT id, created, {DESCRIPTION}, CASE type WHEN 'credit' THEN amount ELSE -amount END,"
        f" balance_after FROM {accounts.TRANSACTIONS} WHERE {accounts.OF_ACCOUNT}"
        " AND id > :after AND id <= :last ORDER BY id LIMIT :rows",
        _NAMES,
        tenant.bind(
            account=statement.account,
            after=after or first_at("txn", statement.period_start),
            last=statement.last_transaction,
            rows=LINES_AT_ONCE,
        ),
    )
    return [StatementLine(*values) for values in rows]
