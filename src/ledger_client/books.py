"""The operations on accounts, currencies, transactions, invoices, users and orders, as methods."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from datetime import datetime
from typing import Any

from ledger_client.calls import UNSET, ApiCall, many, path_to, text_of
from ledger_client.methods import Iteration, L, Objects, Operation
from ledger_client.records import (
    Account,
    Balance,
    Currency,
    Invoice,
    InvoiceStatus,
    Order,
    OrderStatus,
    Role,
    Statement,
    Transaction,
    TransactionType,
    User,
)

Metadata = Mapping[str, str]
Rows = Sequence[Mapping[str, Any]]


class Accounts(Objects[L]):
    """The accounts: each holds a balance in one currency."""

    path = "/v1/accounts"

    @Operation
    def create(
        self, name: str, currency: str, *, metadata: Metadata | None = None, key: str | None = None
    ) -> ApiCall[Account]:
        """Open an account with a balance of 0."""
        return self._create(Account, key, name=name, currency=currency, metadata=metadata)

    @Operation
    def get(self, id: str, *, at: datetime | None = None) -> ApiCall[Account]:
        """Return an account, now or as it was at a time."""
        return self._get(Account, id, at=at)

    @Iteration
    def list(self, *, at: datetime | None = None) -> AsyncGenerator[Sequence[Account], None]:
        """Return the accounts, newest first."""
        return self._pages(Account, paging="starting_after", at=at)

    @Operation
    def balance(self, id: str, *, at: datetime | None = None) -> ApiCall[Balance]:
        """Return the balance of an account, now or at a time."""
        return self._get(Balance, id, "balance", at=at)

    @Operation
    def statement(
        self, id: str, *, from_: datetime | None = None, to: datetime | None = None
    ) -> ApiCall[Statement]:
        """Return the opening balance, the transactions and the closing balance of an account for a period."""
        return self._get(Statement, id, "statement", **{"from": from_, "to": to})

    @Operation
    def statement_csv(
        self, id: str, *, from_: datetime | None = None, to: datetime | None = None
    ) -> ApiCall[str]:
        """Return the statement as CSV that is safe to open in a spreadsheet."""
        path, query = path_to(self.path, id, "statement"), {"from": from_, "to": to}
        return ApiCall(text_of, "GET", path, query=query, headers={"Accept": "text/csv"})


class Currencies(Objects[L]):
    """The currencies that an account may have."""

    path = "/v1/currencies"

    @Iteration
    def list(self) -> AsyncGenerator[Sequence[Currency], None]:
        """Return the currencies, in the order of their codes."""
        return self._pages(Currency)


class Transactions(Objects[L]):
    """The transactions: each adds an amount to an account, or takes an amount from it."""

    path = "/v1/transactions"

    @Operation
    def post(
        self,
        account: str,
        amount: int,
        type: TransactionType,
        *,
        description: str | None = None,
        destination: str | None = None,
        key: str | None = None,
    ) -> ApiCall[Transaction]:
        """Post a `credit` or `debit` on the account.

        With a destination, a debit moves the amount from `account` to `destination`, and a credit moves it
        from `destination` to `account` (docs/decisions.md#transactions-destination).
        """
        return self._create(
            Transaction,
            key,
            account=account,
            amount=amount,
            type=type,
            description=description,
            destination=destination,
        )

    @Operation
    def batch(self, transactions: Rows, *, key: str | None = None) -> ApiCall[list[Transaction]]:
        """Post 1 to 1000 transactions, all or none."""
        body = {"transactions": [*transactions]}
        return ApiCall(many(Transaction), "POST", path_to(self.path, "batch"), body, key=key)

    @Operation
    def reverse(
        self, id: str, *, key: str | None = None, if_match: str | None = None
    ) -> ApiCall[Transaction]:
        """Post the opposite of a transaction. A transaction can be reversed once."""
        return self._act(Transaction, id, "reverse", key, if_match)

    @Operation
    def get(self, id: str) -> ApiCall[Transaction]:
        """Return a transaction."""
        return self._get(Transaction, id)

    @Operation
    def related(self, id: str) -> ApiCall[list[Transaction]]:
        """Return the other side of a transfer, the reversal, and the reversed transaction, if these exist."""
        return ApiCall(many(Transaction), "GET", path_to(self.path, id, "related"))

    @Operation
    def proof(self, id: str) -> ApiCall[str]:
        """Return the proof that the transaction is in the log (c2sp.org/tlog-proof)."""
        return ApiCall(text_of, "GET", path_to(self.path, id, "proof"))

    @Iteration
    def list(
        self,
        *,
        account: str | None = None,
        type: TransactionType | None = None,
        created_after: datetime | None = None,
        at: datetime | None = None,
    ) -> AsyncGenerator[Sequence[Transaction], None]:
        """Return the transactions, newest first."""
        return self._pages(
            Transaction,
            paging="starting_after",
            account=account,
            type=type,
            created_after=created_after,
            at=at,
        )


class Invoices(Objects[L]):
    """Requests for payment: draft, open, paid or void."""

    path = "/v1/invoices"

    @Operation
    def create(
        self,
        account: str,
        customer: str,
        *,
        amount: int | None = None,
        lines: Rows | None = None,
        due_date: str | None = None,
        description: str | None = None,
        metadata: Metadata | None = None,
        key: str | None = None,
    ) -> ApiCall[Invoice]:
        """Draft an invoice, either for an amount or for the sum of its lines."""
        return self._create(
            Invoice,
            key,
            account=account,
            customer=customer,
            amount=amount,
            lines=lines,
            due_date=due_date,
            description=description,
            metadata=metadata,
        )

    @Operation
    def change(
        self,
        id: str,
        *,
        account: str = UNSET,
        customer: str = UNSET,
        amount: int | None = UNSET,
        lines: Rows | None = UNSET,
        due_date: str | None = UNSET,
        description: str | None = UNSET,
        metadata: Metadata | None = UNSET,
        if_match: str | None = None,
    ) -> ApiCall[Invoice]:
        """Change fields of a draft; None clears a field."""
        return self._change(
            Invoice,
            id,
            if_match,
            account=account,
            customer=customer,
            amount=amount,
            lines=lines,
            due_date=due_date,
            description=description,
            metadata=metadata,
        )

    @Operation
    def finalize(self, id: str, *, key: str | None = None, if_match: str | None = None) -> ApiCall[Invoice]:
        """Open a draft and give it a number."""
        return self._act(Invoice, id, "finalize", key, if_match)

    @Operation
    def pay(self, id: str, *, key: str | None = None, if_match: str | None = None) -> ApiCall[Invoice]:
        """Pay an open invoice: the ledger credits the invoice's account."""
        return self._act(Invoice, id, "pay", key, if_match)

    @Operation
    def void(self, id: str, *, if_match: str | None = None) -> ApiCall[Invoice]:
        """Void an open invoice."""
        return self._delete(Invoice, id, if_match)

    @Operation
    def get(self, id: str, *, at: datetime | None = None) -> ApiCall[Invoice]:
        """Return an invoice, now or as it was at a time."""
        return self._get(Invoice, id, at=at)

    @Iteration
    def list(
        self, *, status: InvoiceStatus | None = None, account: str | None = None, at: datetime | None = None
    ) -> AsyncGenerator[Sequence[Invoice], None]:
        """Return the invoices, newest first."""
        return self._pages(Invoice, paging="starting_after", status=status, account=account, at=at)


class Users(Objects[L]):
    """The people of the directory."""

    path = "/api/users"

    @Operation
    def create(
        self, name: str, email: str, *, role: Role | None = None, key: str | None = None
    ) -> ApiCall[User]:
        """Add a user, by default a member."""
        return self._create(User, key, name=name, email=email, role=role)

    @Operation
    def deactivate(self, id: str, *, if_match: str | None = None) -> ApiCall[User]:
        """Deactivate a user; a second call changes nothing."""
        return self._delete(User, id, if_match)

    @Operation
    def restore(self, id: str, *, key: str | None = None, if_match: str | None = None) -> ApiCall[User]:
        """Restore a user, within 30 days of the deactivation."""
        return self._act(User, id, "restore", key, if_match)

    @Operation
    def get(self, id: str, *, at: datetime | None = None) -> ApiCall[User]:
        """Return a user, now or as they were at a time."""
        return self._get(User, id, at=at)

    @Iteration
    def list(
        self, *, role: Role | None = None, at: datetime | None = None
    ) -> AsyncGenerator[Sequence[User], None]:
        """Return the users, newest first."""
        return self._pages(User, paging="page", role=role, at=at)

    @Iteration
    def orders(self, id: str) -> AsyncGenerator[Sequence[Order], None]:
        """Return the orders of a user, newest first."""
        return self._pages(Order, id, "orders")


class Orders(Objects[L]):
    """The orders of the directory's users: open, paid, shipped."""

    path = "/api/orders"

    @Operation
    def create(self, user_id: str, items: Rows, *, key: str | None = None) -> ApiCall[Order]:
        """Place an order of 1 to 100 items. The server stores the items as they are sent."""
        return self._create(Order, key, user_id=user_id, items=[*items])

    @Operation
    def pay(self, id: str, *, key: str | None = None, if_match: str | None = None) -> ApiCall[Order]:
        """Mark an open order as paid."""
        return self._act(Order, id, "pay", key, if_match)

    @Operation
    def ship(self, id: str, *, key: str | None = None, if_match: str | None = None) -> ApiCall[Order]:
        """Mark a paid order as shipped."""
        return self._act(Order, id, "ship", key, if_match)

    @Operation
    def get(self, id: str, *, at: datetime | None = None) -> ApiCall[Order]:
        """Return an order, now or as it was at a time."""
        return self._get(Order, id, at=at)

    @Iteration
    def list(
        self, *, status: OrderStatus | None = None, at: datetime | None = None
    ) -> AsyncGenerator[Sequence[Order], None]:
        """Return the orders, newest first."""
        return self._pages(Order, status=status, at=at)
