"""Routes of transactions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from ledger_engine.core.clock import parse_moment
from ledger_engine.core.money import MAX_AMOUNT
from ledger_engine.core.records import JsonText
from ledger_engine.http.bodies import Body
from ledger_engine.http.lists import AccountField, LedgerList, LookingBack, Time
from ledger_engine.http.operations import Call, Routes
from ledger_engine.ledger import transactions
from ledger_engine.ledger.transactions import Transaction
from ledger_engine.store.pages import Page

routes = Routes("transactions", "/v1")

Amount = Annotated[int, Field(ge=1, le=MAX_AMOUNT)]
Description = Annotated[str, Field(max_length=transactions.DESCRIPTION_MAX)]


class PostTransaction(Body):
    account: AccountField
    amount: Amount
    type: Literal["credit", "debit"]
    description: Description | None = None
    destination: AccountField | None = None

    def new(self) -> transactions.NewTransaction:
        """Return the argument for `transactions.post`."""
        return transactions.NewTransaction(
            self.account, self.amount, self.type, self.description, self.destination
        )


class PostBatch(Body):
    transactions: Annotated[list[PostTransaction], Field(min_length=1, max_length=transactions.BATCH_MAX)]


@dataclass(slots=True)
class PostedBatch:
    """The transactions of a batch, in its order.

    Of the two transactions of a transfer, the list contains only the transaction on the requested `account`.
    """

    data: list[Transaction]


@dataclass(slots=True)
class RelatedTransactions:
    """A transaction's counterpart in a transfer, its reversal, and the transaction that it reverses."""

    data: list[Transaction]


class ListTransactions(LedgerList, LookingBack):
    account: str | None = None
    type: Literal["credit", "debit"] | None = None
    created_after: Time | None = None


@routes.add("GET", "/transactions", answer=Transaction, in_contract=True, tagged=True)
async def list_transactions(call: Call, query: ListTransactions) -> Page[JsonText]:
    """List the transactions, newest first."""
    after = None if query.created_after is None else parse_moment(query.created_after, "created_after")
    # Even a page of 100 rows is a short read, because a row contains only a few short values.
    return await (call.read_short if query.at is None else call.read)(
        transactions.page,
        query.page(),
        account=query.account,
        type=query.type,
        created_after=after,
        at=query.moment(call.engine.clock),
        as_text=True,
    )


@routes.add("POST", "/transactions", status=201, in_contract=True)
async def post_transaction(call: Call, body: PostTransaction) -> Transaction:
    """Post a transaction."""
    return await call.write(transactions.post, body.new(), call.idempotency_key)


@routes.add("POST", "/transactions/batch", answer=PostedBatch, status=201)
async def post_batch(call: Call, body: PostBatch) -> list[Transaction]:
    """Post up to 1000 transactions, all or none."""
    batch = [item.new() for item in body.transactions]
    return await call.write_long(transactions.post_batch, batch, call.idempotency_key)


@routes.add("GET", "/transactions/<id>")
async def get_transaction(call: Call, id: str) -> Transaction:
    """Get one transaction."""
    return await call.read_short(transactions.get, id)


@routes.add("GET", "/transactions/<id>/related", answer=RelatedTransactions, tagged=True)
async def list_related_transactions(call: Call, id: str) -> list[Transaction]:
    """List the counterpart in the transaction's transfer, its reversal, and the transaction it reverses."""
    return await call.read(transactions.related, id)


@routes.add("POST", "/transactions/<id>/reverse", status=201, changes=transactions.get)
async def reverse_transaction(call: Call, id: str) -> Transaction:
    """Post the opposite of a transaction; a transaction can be reversed only once."""
    return await call.write(transactions.reverse, id, call.idempotency_key)
