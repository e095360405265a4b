"""A record that a copy cannot hold is left out with its reason, or refused where the books need it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from ledger_engine.core.clock import DAY
from ledger_engine.core.errors import Conflict
from ledger_engine.core.ids import IdSource
from ledger_engine.core.money import MAX_AMOUNT
from ledger_engine.store import Unit
from ledger_engine.store.engine import Engine
from ledger_engine.tools.pull import applying, staging
from ledger_engine.tools.pull.applying import Applied, Fields, Unusable, id_of, total_of
from ledger_engine.tools.pull.remote import PullFailed
from ledger_engine.tools.pull.staging import Book, Origin
from tests import auditing
from tests.ledger_engine.conftest import START

Record = dict[str, Any]
IDS = IdSource()
ACCOUNT, USER = IDS.new("acc", START), IDS.new("usr", START)
NOWHERE = IDS.new("acc", START)
TILL = {"id": ACCOUNT, "name": "Till", "currency": "EUR"}
ADA = {"id": USER, "name": "Ada", "email": "ada@example.com"}
ITEMS = [{"quantity": 2, "unit_amount": 90}]
ORDER = {"id": IDS.new("ord", START), "user_id": USER, "items": ITEMS, "status": "open"}
INVOICE = {
    "id": IDS.new("inv", START), "account": ACCOUNT, "customer": "Ada", "currency": "EUR", "amount": 180,
    "lines": ITEMS, "status": "open", "number": "INV-000001",
}  # fmt: skip
EVENT = {"id": IDS.new("evt", START), "type": "order.created", "data": {"object": ORDER}}
KEPT = {"accounts": TILL, "users": ADA, "orders": ORDER, "invoices": INVOICE, "events": EVENT}


class Copy:
    """A copy to which records are applied as if a pull had read them."""

    def __init__(self, engine: Engine, book: Book) -> None:
        self.engine = engine
        self.book = book

    async def apply(self, kind: str, *records: Record) -> Applied:
        def work(unit: Unit) -> Applied | None:
            self._keep(unit, kind, records)
            return applying.apply_turn(unit, self.book, kind)

        applied = await self.engine.write(work)
        assert applied is not None
        return applied

    def _keep(self, unit: Unit, kind: str, records: tuple[Record, ...]) -> None:
        if not staging.readings(unit, self.book):
            staging.begin(unit, self.book)
        reading = staging.readings(unit, self.book)[kind]
        if reading.done:
            staging.again(unit, self.book, kind)
            reading = staging.readings(unit, self.book)[kind]
        staging.keep(unit, self.book, reading, [(record["id"], record) for record in records], None)


@pytest.fixture
async def copy(engine: Engine) -> Copy:
    """Return a copy that has an account and a user."""
    origin = Origin("http://source.test", livemode=False, project=None)
    opened = Copy(engine, await engine.write(partial(staging.ensure, origin=origin)))
    await opened.apply("accounts", TILL)
    await opened.apply("users", ADA)
    return opened


def posted(**changed: Any) -> Record:
    return {"id": IDS.new("txn", START), "account": ACCOUNT, "amount": 5, "type": "credit", **changed}


@pytest.mark.parametrize(
    ("kind", "changed", "reason"),
    [
        ("users", {"name": None}, "its name or email is missing"),
        ("users", {"email": None}, "its name or email is missing"),
        ("orders", {"user_id": IDS.new("usr", START)}, "its user is not shown"),
        ("orders", {"total": 181}, "its total is not the sum of its items"),
        ("orders", {"items": [{"unit_amount": "9"}]}, "its total is not the sum of its items"),
        ("invoices", {"account": NOWHERE}, "its account is not shown"),
        ("invoices", {"number": None}, "its number is not that of an invoice which is open"),
        ("invoices", {"status": "draft"}, "its number is not that of an invoice which is draft"),
        ("invoices", {"amount": 181}, "its amount is not the sum of its lines"),
        (
            "invoices",
            {"status": "paid", "transaction": IDS.new("txn", START)},
            "its transaction is not shown",
        ),
        ("events", {"data": None}, "its data is not about an object"),
        ("events", {"data": {"object": {"id": 5}}}, "its data is not about an object"),
        (
            "events",
            {"type": "transaction.created", "data": {"object": None}},
            "its data is not about an object",
        ),
    ],
)
async def test_a_record_that_contradicts_itself_is_left_out_with_the_reason(
    copy: Copy, kind: str, changed: Record, reason: str
) -> None:
    id = IDS.new(KEPT[kind]["id"][:3], START + 1)
    sound = KEPT[kind]
    applied = await copy.apply(kind, sound, {**sound, "id": id, **changed})
    assert applied.left_out == {id: f"{kind.removesuffix('s')} {id}: {reason}"}
    assert applied.new[kind] == (0 if kind == "users" else 1), "the other one is there, as a user before"
    assert (await copy.engine.read(auditing.verify)).fault is None


async def test_an_account_or_a_transaction_that_is_known_is_not_applied_twice(copy: Copy) -> None:
    credit = posted()
    assert (await copy.apply("transactions", credit)).new["transactions"] == 1
    again = await copy.apply("transactions", credit, posted(balance_after=10))
    assert again.new["transactions"] == 1
    assert (await copy.apply("accounts", TILL)).new["accounts"] == 0
    report = await copy.engine.read(auditing.verify)
    assert (report.fault, report.accounts, report.transactions) == (None, 1, 2)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"account": NOWHERE}, "transaction txn_.*: .*account"),
        ({"reverses": IDS.new("txn", START)}, "its reverses is not shown"),
        ({"transfer": "txn_1", "destination": ACCOUNT}, "it shows one side of the transfer txn_1"),
        ({"amount": 0}, "its amount is not an integer from 1"),
        ({"balance_after": 6}, f"has the balance_after 6 for {ACCOUNT}, but the transactions add up to 5"),
    ],
    ids=["unknown account", "reverses", "transfer", "amount", "balance"],  # as ACCOUNT is new in each process
)
async def test_a_transaction_that_the_books_cannot_hold_ends_the_pull(
    copy: Copy, changed: Record, words: str
) -> None:
    with pytest.raises(PullFailed, match=f"The source cannot be copied: .*{words}"):
        await copy.apply("transactions", posted(**changed))
    assert (await copy.engine.read(auditing.verify)).transactions == 0


@pytest.mark.parametrize(
    ("destination", "words"),
    [(NOWHERE, f"account.*{NOWHERE}|{NOWHERE}.*account"), (None, "its destination is missing")],
    ids=["unknown", "missing"],
)
async def test_a_transfer_to_an_account_that_is_not_shown_ends_the_pull(
    copy: Copy, destination: str | None, words: str
) -> None:
    sides = [posted(transfer="txn_1", destination=destination) for _ in range(2)]
    with pytest.raises(PullFailed, match=words):
        await copy.apply("transactions", *sides)
    assert (await copy.engine.read(auditing.verify)).transactions == 0


async def test_a_page_that_another_command_has_kept_is_not_kept_again(copy: Copy) -> None:
    def twice(unit: Unit) -> None:
        reading = staging.readings(unit, copy.book)["orders"]
        for _ in range(2):
            staging.keep(unit, copy.book, reading, [], None)

    with pytest.raises(Conflict, match="Another command pulls into this database"):
        await copy.engine.write(twice)


@pytest.mark.parametrize(("numbers", "gap"), [((1, 2), False), ((1, 3), True), ((2,), True), ((), False)])
async def test_numbers_of_invoices_have_no_gap(copy: Copy, numbers: tuple[int, ...], gap: bool) -> None:
    found: Callable[[Unit], bool] = partial(applying.numbers_have_a_gap, book=copy.book)
    made = [{**INVOICE, "id": IDS.new("inv", START), "number": f"INV-{each:06d}"} for each in numbers]
    await copy.engine.write(lambda unit: copy._keep(unit, "invoices", (*made, {"id": IDS.new("inv", START)})))
    assert await copy.engine.read(found) is gap


#


def fields(**record: Any) -> Fields:
    return Fields("order", "ord_1", record, START)


@pytest.mark.parametrize(
    ("record", "read", "words"),
    [
        ({}, lambda read: read.text("x"), "missing"),
        ({"x": None}, lambda read: read.text("x"), "missing"),
        ({"x": 5}, lambda read: read.text_or_none("x"), "no text"),
        ({"x": "lost"}, lambda read: read.one_of("x", ("open", "paid")), "not one of open, paid"),
        ({"x": "yesterday"}, lambda read: read.time("x", 0), "no time"),
        ({}, lambda read: read.amount("x"), "not an integer from 0 to 9,"),
        ({"x": 0}, lambda read: read.amount("x", 1), "not an integer from 1 to 9,"),
        ({"x": True}, lambda read: read.amount("x"), "not an integer from 0 to 9,"),
        ({"x": MAX_AMOUNT + 1}, lambda read: read.amount("x"), "not an integer from 0 to 9,"),
        ({"x": 1.5}, lambda read: read.integer_or_none("x"), "not an integer"),
        ({"x": ["a"]}, lambda read: read.texts("x"), "not an object with string values"),
        ({"x": {"a": 1}}, lambda read: read.texts("x"), "not an object with string values"),
        ({"x": {}}, lambda read: read.objects("x"), "not a list of objects"),
        ({"x": [1]}, lambda read: read.objects("x"), "not a list of objects"),
    ],
)
def test_a_value_of_another_kind_is_refused(
    record: dict[str, Any], read: Callable[[Fields], object], words: str
) -> None:
    with pytest.raises(Unusable, match=f"^order ord_1: its x is {words}"):
        read(fields(**record))


def test_what_is_not_shown_is_filled_in() -> None:
    empty = fields()
    assert empty.created == START
    assert (empty.text_or_none("x"), empty.integer_or_none("x"), empty.objects("x")) == (None, None, None)
    assert (empty.texts("x"), empty.text("x", "here"), empty.one_of("x", ("here",), "here")) == (
        {}, "here", "here",
    )  # fmt: skip


@pytest.mark.parametrize("id", [None, 7, "", "ord_1", "usr_" + "0" * 26, "ord_" + "ä" * 26])
def test_an_id_of_another_form_is_refused(id: object) -> None:
    with pytest.raises(Unusable, match="has not the form ord_ and 26 letters and digits"):
        id_of({"id": id}, "ord", START)


def test_an_id_may_be_a_day_ahead_of_this_machine_and_no_more() -> None:
    source = IdSource()
    ahead, too_far = source.new("ord", START + DAY), source.new("ord", START + DAY + 1)
    assert id_of({"id": ahead}, "ord", START) == ahead
    with pytest.raises(Unusable, match="or is from the future"):
        id_of({"id": too_far}, "ord", START)


@pytest.mark.parametrize(
    ("items", "total"),
    [
        ([], 0),
        ([{"quantity": 2, "unit_amount": 90}, {"unit_amount": 5}, {"note": "none"}], 185),
        ([{"quantity": "2", "unit_amount": 90}], None),
        ([{"quantity": 2, "unit_amount": 0.5}], None),
        ([{"quantity": True, "unit_amount": 1}], None),
    ],
)
def test_only_items_in_integers_have_a_total(items: list[dict[str, Any]], total: int | None) -> None:
    assert total_of(items) == total
