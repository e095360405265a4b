"""The screen of transactions finds the invoice that a transaction pays."""

from collections.abc import AsyncIterator
from datetime import date
from typing import Any

import pytest

from ledger_tui.client.api import Api
from ledger_tui.client.errors import NotOffered
from ledger_tui.client.names import AccountNames
from ledger_tui.client.session import Session
from ledger_tui.client.traffic import Traffic
from ledger_tui.lists.arranging import selected_by
from ledger_tui.resources.base import FilterContext
from ledger_tui.resources.filtering import BadLine, parse_filters
from ledger_tui.resources.transactions import TRANSACTIONS, TransactionExtras
from tests.ledger_tui.contract_server import KEY, ContractServer

PAYMENT = {"id": "txn_1", "type": "credit", "account": "acc_1", "description": "Invoice INV-7: Rent"}


@pytest.fixture
async def api(server: ContractServer) -> AsyncIterator[Api]:
    api = Api(Session(), Traffic())
    await api.open(server.url, KEY)
    yield api
    await api.close()


def give_pages(server: ContractServer, count: int, *, last: bool = True, pays: str | None = None) -> None:
    """Make the server answer with so many pages of invoices; `pays` pays an invoice on the last page."""
    for number in range(1, count + 1):
        invoice = {"id": f"inv_{number}", "transaction": pays if number == count else "txn_other"}
        server.refuse(200, {"data": [invoice], "has_more": not (last and number == count)})


async def read(api: Api, record: dict[str, Any]) -> Any:
    assert TRANSACTIONS.more is not None
    return (await TRANSACTIONS.more.load(api, record)).invoice


async def test_the_invoice_is_found_on_whatever_page_it_is(api: Api, server: ContractServer) -> None:
    give_pages(server, 3, pays="txn_1")
    assert (await read(api, PAYMENT))["id"] == "inv_3"
    assert [query.get("starting_after") for _, path, query in server.requests if path == "/v1/invoices"] == [
        None,
        "inv_1",
        "inv_2",
    ]


async def test_a_payment_whose_invoice_is_not_in_the_list_has_none(api: Api, server: ContractServer) -> None:
    give_pages(server, 2)
    assert await read(api, PAYMENT) is None


async def test_it_is_looked_for_on_the_newest_pages_only(api: Api, server: ContractServer) -> None:
    give_pages(server, 9, last=False)
    assert await read(api, PAYMENT) == "INV-7, not among the newest paid ones"
    assert len([path for _, path, _ in server.requests if path == "/v1/invoices"]) == 5


@pytest.mark.parametrize("other", [{"description": "Rent"}, {"description": None}, {"type": "debit"}])
async def test_for_what_is_no_payment_nothing_is_asked(
    api: Api, server: ContractServer, other: dict[str, Any]
) -> None:
    assert await read(api, PAYMENT | other) is None
    assert "/v1/invoices" not in [path for _, path, _ in server.requests]


@pytest.mark.parametrize(
    ("found", "facts", "links"),
    [
        (None, [], []),
        (NotOffered("No such thing."), [], []),
        ("INV-7, not there", ["INV-7, not there"], []),
        ({"id": "inv_1", "number": "INV-7", "customer": "Eve"}, ["INV-7  Eve"], ["inv_1"]),
    ],
)
def test_the_invoice_of_a_transaction_is_one_line_with_a_link(
    found: Any, facts: list[str], links: list[str]
) -> None:
    more = TRANSACTIONS.more
    assert more is not None
    sections = more.sections(PAYMENT, TransactionExtras(found, None), AccountNames())
    assert [fact.value.text for section in sections for fact in section.facts] == facts
    assert [link.record_id for link in more.links(PAYMENT, TransactionExtras(found, None))] == links


def test_the_detail_leads_to_the_other_account_and_to_what_it_reverses() -> None:
    names = AccountNames()
    names.learn([{"id": "acc_2", "name": "Safe", "currency": "EUR"}])
    record = PAYMENT | {"amount": 5, "destination": "acc_2", "reverses": "txn_0"}
    detail = TRANSACTIONS.detail(record, names)
    facts = {fact.label: fact.value.text for section in detail.sections for fact in section.facts}
    assert facts["other side"] == "Safe"
    assert not {"mode", "id", "account id"} & set(facts)
    links = [(link.resource, link.record_id) for link in detail.links]
    assert ("accounts", "acc_2") in links
    assert ("transactions", "txn_0") in links


def test_a_transaction_that_reverses_another_is_marked_in_the_list() -> None:
    type_ = next(column for column in TRANSACTIONS.columns if column.title == "type")
    undone = {"type": "debit", "reverses": "txn_1"}
    assert type_.cell(undone, AccountNames()).text == "↩ debit"
    assert type_.cell(undone | {"reverses": None}, AccountNames()).text == "▼ debit"


@pytest.mark.parametrize(
    ("line", "amounts"),
    [
        ("amount:>100", [("EUR", 10_001), ("JPY", 10_000)]),
        ("amount:=100", [("EUR", 10_000)]),
        ("amount:<1", []),
    ],
)
def test_an_amount_is_filtered_in_the_unit_that_its_row_shows(
    line: str, amounts: list[tuple[str, int]]
) -> None:
    pairs = (("EUR", 10_000), ("EUR", 10_001), ("JPY", 10_000), ("EUR", None))
    rows = [{"currency": currency, "amount": amount} for currency, amount in pairs]
    names = AccountNames()
    context = FilterContext(names, date(2026, 11, 20))
    is_kept = selected_by(TRANSACTIONS, parse_filters(line, TRANSACTIONS.filters, names), context)
    assert is_kept
    assert [(row["currency"], row["amount"]) for row in filter(is_kept, rows)] == amounts


def test_a_bound_of_an_amount_is_typed_with_the_decimal_comma_of_the_locale(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ledger_tui.formats.money.decimal_comma", lambda: True)
    names = AccountNames()
    context = FilterContext(names, date(2026, 11, 20))
    is_kept = selected_by(TRANSACTIONS, parse_filters("amount:=99,5", TRANSACTIONS.filters, names), context)
    assert is_kept
    assert is_kept({"currency": "EUR", "amount": 9_950})
    with pytest.raises(BadLine, match="Write amount:>99,50"):
        parse_filters("amount:>99.5", TRANSACTIONS.filters, names)
