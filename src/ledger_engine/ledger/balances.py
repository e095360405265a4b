"""Balances during a posting: read once, changed in memory, written once.

The rules for a balance are here: its range, overdrafts, and that both sides of a transaction move together.
Until the commit nobody else changes what a work has read.
"""

from __future__ import annotations

from collections.abc import Iterable

from ledger_engine.core.errors import InvalidRequest, NotFound
from ledger_engine.core.money import MAX_AMOUNT
from ledger_engine.core.tenant import Tenant
from ledger_engine.database import Unit

# A settlement is the other side of many accounts. With amounts up to this, its sum fits 64 bits.
_SETTLEMENT_MAX = 2**62

_READ_TOGETHER = 50  # accounts
_NAMES = [f"id_{number}" for number in range(_READ_TOGETHER)]
_READ = (
    "SELECT id, balance, currency FROM accounts"
    f" WHERE project = :project AND livemode = :livemode AND id IN (:{', :'.join(_NAMES)})"
)


class Held:
    """The balance of an account or a settlement, in the smallest unit of its currency."""

    __slots__ = ("balance", "currency")

    def __init__(self, balance: int, currency: str) -> None:
        self.balance = balance
        self.currency = currency


class Balances:
    """The balances that one work changes.

    In errors, field names are prefixed with `at`, the path of the item; None when the request has no such
    field.
    """

    __slots__ = ("_unit", "_tenant", "_accounts", "_settlements")

    def __init__(self, unit: Unit, tenant: Tenant) -> None:
        self._unit = unit
        self._tenant = tenant
        self._accounts: dict[str, Held] = {}
        self._settlements: dict[str, Held] = {}

    def go_on_for(self, tenant: Tenant) -> None:
        """Move balances for this tenant next; its project and mode are the same."""
        self._tenant = tenant

    def read(self, accounts: Iterable[str]) -> None:
        """Read these accounts together; those that do not exist are left to `move`."""
        wanted = [id for id in dict.fromkeys(accounts) if id not in self._accounts]
        for first in range(0, len(wanted), _READ_TOGETHER):
            part: list[str | None] = [*wanted[first : first + _READ_TOGETHER]]
            part += [None] * (_READ_TOGETHER - len(part))  # one statement, whatever their number
            for row in self._unit.execute(_READ, self._tenant.bind(**dict(zip(_NAMES, part, strict=True)))):
                self._accounts[row["id"]] = Held(row["balance"], row["currency"])

    def foresee(self, accounts: Iterable[str]) -> None:
        """Read these accounts together and have the unit hold them, for other works."""
        self.read(accounts)
        for id, held in self._accounts.items():
            self._unit.hold("accounts", self._tenant, id, held)

    def balance(self, account: str) -> int:
        """Return the balance of the account. Raises NotFound."""
        return self._held(account, None).balance

    def move(self, account: str, change: int, at: str | None, field: str = "account") -> Held:
        """Add `change` to the balance of the account, which the request names in `field`.

        Raises NotFound naming `field`, and InvalidRequest naming `amount`: `balance_out_of_range` beyond
        ±(2^53 − 1), `insufficient_funds` when a debit would go below zero in a project that refuses overdraft
        (docs/decisions.md#projects-overdraft, #transactions-range).
        """
        held = self._accounts.get(account) or self._held(account, _param(at, field))
        balance = held.balance + change
        if not -MAX_AMOUNT <= balance <= MAX_AMOUNT:
            raise InvalidRequest(
                "balance_out_of_range",
                f"The balance of {account} would be beyond ±{MAX_AMOUNT:,}.",
                _param(at, "amount"),
            )
        if balance < 0 and change < 0 and not self._tenant.may_overdraw:
            raise InvalidRequest(
                "insufficient_funds",
                f"{account} holds {held.balance}, and this project does not allow overdrafts.",
                _param(at, "amount"),
            )
        held.balance = balance
        return held

    def move_settlement(self, currency: str, change: int, at: str | None) -> None:
        """Add `change` to the settlement; raises InvalidRequest `balance_out_of_range`."""
        held = self._settlements.get(currency)
        if held is None:
            held = self._settlements[currency] = self._read_settlement(currency)
        held.balance += change
        if abs(held.balance) > _SETTLEMENT_MAX:
            raise InvalidRequest(
                "balance_out_of_range",
                f"The settlement in {currency} would be out of range.",
                _param(at, "amount"),
            )

    def write(self) -> None:
        """Store all changed balances, with one statement for accounts and one for settlements."""
        tenant = self._tenant
        bind = tenant.bind
        self._unit.put_many(
            "accounts",
            "UPDATE accounts SET balance = :balance"
            " WHERE id = :id AND project = :project AND livemode = :livemode",
            tenant,
            self._accounts,
            [bind(id=id, balance=held.balance) for id, held in self._accounts.items()],
        )
        if self._settlements:
            self._unit.put_many(
                "settlements",
                "INSERT INTO settlements (project, livemode, currency, balance)"
                " VALUES (:project, :livemode, :currency, :balance)"
                " ON CONFLICT (project, livemode, currency) DO UPDATE SET balance = :balance",
                tenant,
                self._settlements,
                [
                    bind(currency=currency, balance=held.balance)
                    for currency, held in self._settlements.items()
                ],
            )

    def _held(self, id: str, param: str | None) -> Held:
        held = self._accounts.get(id)
        if held is not None:
            return held
        known = self._unit.held("accounts", self._tenant, id)
        if known is not None:
            held = self._accounts[id] = Held(known.balance, known.currency)
            return held
        row = self._unit.first(
            "SELECT balance, currency FROM accounts"
            " WHERE id = :id AND project = :project AND livemode = :livemode",
            self._tenant.bind(id=id),
        )
        if row is None:
            raise NotFound("account", id, param)
        held = self._accounts[id] = Held(row["balance"], row["currency"])
        return held

    def _read_settlement(self, currency: str) -> Held:
        known = self._unit.held("settlements", self._tenant, currency)
        if known is not None:
            return Held(known.balance, currency)
        row = self._unit.first(
            "SELECT balance FROM settlements"
            " WHERE project = :project AND livemode = :livemode AND currency = :currency",
            self._tenant.bind(currency=currency),
        )
        return Held(0 if row is None else row["balance"], currency)


def _param(at: str | None, field: str) -> str | None:
    return None if at is None else at + field
