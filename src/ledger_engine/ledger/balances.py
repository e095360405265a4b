"""The balances that transactions change.

The works that share one commit are a *group*. A group reads and writes each balance only once. This module
enforces the rules for balances: their range, the check for overdrafts, and that both sides of a
transaction change together. Until the commit, nobody else changes a balance that the group has read.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from ledger_engine.core.errors import InvalidRequest, NotFound
from ledger_engine.core.money import MAX_AMOUNT
from ledger_engine.core.tenant import Tenant
from ledger_engine.store import GroupCache

# The largest balance of a settlement (`transactions.py`). It exceeds the largest balance of an account,
# because a settlement is the other side for many accounts. The sum of this balance and an amount still fits
# 64 bits.
_SETTLEMENT_MAX = 2**62

_READ_TOGETHER = 50  # accounts that one SQL statement reads
_KEPT_MAX = 4_000  # balances that may stay in memory after a write; 4,000 balances take 1 MB
_NAMES = [f"id_{number}" for number in range(_READ_TOGETHER)]
_READ = (
    "SELECT id, balance, currency FROM accounts"
    f" WHERE project = :project AND livemode = :livemode AND id IN (:{', :'.join(_NAMES)})"
)


class LoadedBalance:
    """The balance of an account or a settlement, in the smallest unit of its currency."""

    __slots__ = ("amount", "currency")

    def __init__(self, amount: int, currency: str) -> None:
        self.amount = amount
        self.currency = currency


class Balances:
    """The balances of a project and mode that works have read so far. Implements `store.CachedValues`.

    Several methods have the parameter `prefix`, which errors put before the name of the field at fault.
    `prefix` is "" for a single transaction. For a transaction in a batch, `prefix` is the path of the item,
    such as `transactions.0.`. If the request does not contain the transaction's fields, for example because
    it pays an invoice, `prefix` is None, and the error names no field.
    """

    tables: ClassVar = frozenset({"accounts", "settlements"})
    __slots__ = ("_accounts", "_changes", "_moved_settlements", "_settlements", "_tenant", "_cache")

    def __init__(self, cache: GroupCache, tenant: Tenant) -> None:
        self._cache = cache
        self._tenant = tenant
        self._accounts: dict[str, LoadedBalance] = {}
        self._settlements: dict[str, LoadedBalance] = {}
        self._changes: dict[str, LoadedBalance] = {}  # accounts changed since the last write
        self._moved_settlements: dict[str, LoadedBalance] = {}

    def read(self, accounts: Iterable[str]) -> None:
        """Read the balances of these accounts together.

        An account that does not exist is ignored here; `movable` raises the error.
        """
        missing = [id for id in dict.fromkeys(accounts) if id not in self._accounts]
        for first in range(0, len(missing), _READ_TOGETHER):
            chunk: list[str | None] = [*missing[first : first + _READ_TOGETHER]]
            # Fill the list up with None, so that one SQL text serves any number of accounts.
            chunk += [None] * (_READ_TOGETHER - len(chunk))
            for row in self._cache.execute(_READ, self._tenant.bind(**dict(zip(_NAMES, chunk, strict=True)))):
                self._accounts[row["id"]] = LoadedBalance(row["balance"], row["currency"])

    def of(self, account: str, param: str | None = None) -> LoadedBalance:
        """Return the balance of the account. Raises NotFound; the error names the field `param`."""
        balance = self._accounts.get(account)
        if balance is not None:
            return balance
        rows = self._cache.execute(
            "SELECT balance, currency FROM accounts"
            " WHERE id = :id AND project = :project AND livemode = :livemode",
            self._tenant.bind(id=account),
        )
        if not rows:
            raise NotFound("account", account, param)
        balance = self._accounts[account] = LoadedBalance(rows[0]["balance"], rows[0]["currency"])
        return balance

    def movable(
        self, tenant: Tenant, account: str, change: int, prefix: str | None, field: str = "account"
    ) -> LoadedBalance:
        """Return the balance of the account after checking that the balance can change by `change`.

        Raises NotFound; the error names `field`, the request's field that contains the account. Raises
        InvalidRequest for the field `amount`. The code is `balance_out_of_range` if the balance would be
        beyond ±(2^53 − 1). The code is `insufficient_funds` if a debit would make the balance negative in a
        project that refuses overdrafts (docs/decisions.md#projects-overdraft, #transactions-range).
        """
        balance = self._accounts.get(account) or self.of(account, _param(prefix, field))
        after = balance.amount + change
        if not -MAX_AMOUNT <= after <= MAX_AMOUNT:
            raise InvalidRequest(
                "balance_out_of_range",
                f"The balance of {account} would be beyond ±{MAX_AMOUNT:,}.",
                _param(prefix, "amount"),
            )
        if after < 0 and change < 0 and not tenant.may_overdraw:
            raise InvalidRequest(
                "insufficient_funds",
                f"{account} has a balance of {balance.amount}, and this project does not allow overdrafts.",
                _param(prefix, "amount"),
            )
        return balance

    def movable_settlement(self, currency: str, change: int, prefix: str | None) -> LoadedBalance:
        """Return the settlement in this currency after checking that it can change by `change`.

        Raises InvalidRequest `balance_out_of_range`.
        """
        balance = self._settlements.get(currency)
        if balance is None:
            balance = self._settlements[currency] = self._read_settlement(currency)
        if abs(balance.amount + change) > _SETTLEMENT_MAX:
            raise InvalidRequest(
                "balance_out_of_range",
                f"The settlement in {currency} would be out of range.",
                _param(prefix, "amount"),
            )
        return balance

    def move(
        self, account: str, balance: LoadedBalance, change: int, to: str | None, other: LoadedBalance
    ) -> None:
        """Add `change` to the account's `balance`, and subtract it from the balance `other`.

        `other` is the balance of the account `to`, or of a settlement if `to` is None. `movable` must have
        accepted the change of each account, and `movable_settlement` the change of a settlement.
        """
        balance.amount += change
        self._changes[account] = balance
        other.amount -= change
        if to is None:
            self._moved_settlements[other.currency] = other
        else:
            self._changes[to] = other

    def change(self) -> None:
        """Mark these balances as changed by this work, so that `write` is called before the commit."""
        self._cache.change(self)

    def write(self) -> None:
        """Store the changed balances with one SQL statement for accounts and one for settlements."""
        bind = self._tenant.bind
        changes, self._changes = self._changes, {}
        if not changes:
            return
        self._cache.execute_many(
            "UPDATE accounts SET balance = :balance"
            " WHERE id = :id AND project = :project AND livemode = :livemode",
            [bind(id=id, balance=balance.amount) for id, balance in changes.items()],
        )
        if len(self._accounts) > _KEPT_MAX:
            self._accounts.clear()
        settlements, self._moved_settlements = self._moved_settlements, {}
        if settlements:
            self._cache.execute_many(
                "INSERT INTO settlements (project, livemode, currency, balance)"
                " VALUES (:project, :livemode, :currency, :balance)"
                " ON CONFLICT (project, livemode, currency) DO UPDATE SET balance = :balance",
                [
                    bind(currency=currency, balance=balance.amount)
                    for currency, balance in settlements.items()
                ],
            )

    def _read_settlement(self, currency: str) -> LoadedBalance:
        rows = self._cache.execute(
            "SELECT balance FROM settlements"
            " WHERE project = :project AND livemode = :livemode AND currency = :currency",
            self._tenant.bind(currency=currency),
        )
        return LoadedBalance(rows[0]["balance"] if rows else 0, currency)


def _param(prefix: str | None, field: str) -> str | None:
    return None if prefix is None else prefix + field
