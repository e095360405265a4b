"""An order is drawn with one line for each item, and with the user's name if it is known."""

import pytest

from ledger_tui.client.names import AccountNames
from ledger_tui.resources.directory import ORDERS


def test_an_item_has_a_line_of_its_own_whatever_its_name_holds() -> None:
    items = [
        {"name": "Beans, roasted, 1 kg", "quantity": 2, "unit_amount": 1250},
        {"name": "Filter", "quantity": 1, "size": "4"},
        "loose",
    ]
    facts = ORDERS.detail({"id": "ord_1", "items": items}, AccountNames()).sections[-1].facts
    assert [(label, value.text) for label, value in facts] == [
        ("2 × 1,250", "Beans, roasted, 1 kg"),
        ("1", "Filter"),
        ("", "size 4"),
        ("3", "loose"),
    ]


@pytest.mark.parametrize(
    ("currencies", "total", "first"),
    [
        (("EUR", "EUR"), "34.00 EUR", "2 × 12.50"),
        (("jpy", "jpy"), "3,400 JPY", "2 × 1,250"),
        (("EUR", "USD"), "3,400", "2 × 1,250"),
        ((["EUR"], ["EUR"]), "3,400", "2 × 1,250"),
        ((None, None), "3,400", "2 × 1,250"),
    ],
)
def test_the_total_has_a_currency_where_all_prices_have_the_same(
    currencies: tuple[object, object], total: str, first: str
) -> None:
    prices = ((2, 1250), (1, 900))
    pairs = zip(prices, currencies, strict=True)
    items = [{"quantity": n, "unit_amount": price, "currency": of} for (n, price), of in pairs]
    order = {"id": "ord_1", "total": 3400, "items": [*items, {"name": "A gift"}]}
    sections = ORDERS.detail(order, AccountNames()).sections
    assert sections[1].facts[0].value.text == total
    assert sections[-1].facts[0].label == first
    columns = {column.title: column.cell(order, AccountNames()).text for column in ORDERS.columns}
    assert f"{columns['total']} {columns['cur']}".strip() == total


def test_a_user_that_was_seen_stands_by_name() -> None:
    names = AccountNames()
    record = {"id": "ord_1", "user_id": "usr_1"}
    (cell,) = [column.cell for column in ORDERS.columns if column.title == "user"]
    assert cell(record, names).text == "usr_1"
    assert names.learn_users([{"id": "usr_1", "name": "Ada"}])
    assert cell(record, names).text == "Ada"


def test_an_order_is_drawn_with_its_states_and_their_times() -> None:
    order = {"id": "ord_1", "status": "paid", "created": "2026-11-20T04:31:00.123Z"}
    order["paid_at"] = "2026-11-20T05:00:00.000Z"
    drawing = ORDERS.detail(order, AccountNames()).sections[0].drawing
    assert drawing is not None
    lines = ["".join(cell.text for cell in line) for line in drawing(60)]
    assert lines[0].startswith(" ○ open ──────▶[◐ paid]──────▶ ● shipped")
    assert lines[1].split("  ")[0].strip() == "11-20 04:31"
    assert "11-20 05:00" in lines[1]
