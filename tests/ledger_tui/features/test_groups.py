"""Rows are summed in groups, in each currency."""

from __future__ import annotations

from typing import Any

import pytest

from ledger_tui.client.names import AccountNames
from ledger_tui.features.groups import groups_of


@pytest.fixture
def names() -> AccountNames:
    found = AccountNames()
    found.learn(
        [
            {"id": "acc_1", "name": "Till", "currency": "EUR"},
            {"id": "acc_2", "name": "Yen", "currency": "JPY"},
        ]
    )
    return found


def posting(account: str, kind: str, amount: int, day: int, description: str | None) -> dict[str, Any]:
    created = f"2026-11-{day}T10:00:00.000Z"
    return {
        "account": account,
        "type": kind,
        "amount": amount,
        "created": created,
        "description": description,
    }


ROWS = [
    posting("acc_1", "credit", 500, 20, "Invoice INV-000001: Ada"),
    posting("acc_1", "credit", 300, 20, "Invoice INV-000002: Bob"),
    posting("acc_1", "debit", 100, 19, None),
    posting("acc_2", "credit", 9_000, 19, "Beans, 12 kg"),
]


@pytest.mark.parametrize(
    ("by", "groups"),
    [
        ("type", [("credit", "EUR", 2, 800), ("debit", "EUR", 1, -100), ("credit", "JPY", 1, 9_000)]),
        (
            "day",
            [("2026-11-20", "EUR", 2, 800), ("2026-11-19", "EUR", 1, -100), ("2026-11-19", "JPY", 1, 9_000)],
        ),
        ("account", [("Till", "EUR", 3, 700), ("Yen", "JPY", 1, 9_000)]),
    ],
)
def test_rows_are_summed_by_group_and_currency(by: str, groups: list[Any], names: AccountNames) -> None:
    rows = groups_of(ROWS, by, names)
    found = [(row[by], row["currency"], row["count"], row["net"]) for row in rows]
    assert found == [*groups, ("sum", "EUR", 3, 700), ("sum", "JPY", 1, 9_000)]
    assert rows[-2]["credit"], rows[-2]["debit"] == (800, 100)


def test_a_description_counts_by_its_first_words_without_numbers(names: AccountNames) -> None:
    rows = groups_of(ROWS, "description", names)
    assert [(row["description"], row["count"]) for row in rows[:3]] == [
        ("Invoice Ada", 1),
        ("Invoice Bob", 1),
        ("–", 1),
    ]
    assert rows[3]["description"] == "Beans, kg"


def test_lines_of_a_statement_have_signed_amounts(names: AccountNames) -> None:
    lines = [{"amount": -100, "currency": "EUR", "date": "2026-11-20T10:00:00Z"}, {"id": "opening_balance"}]
    assert groups_of(lines, "day", names) == [
        {"day": "2026-11-20", "currency": "EUR", "count": 1, "credit": 0, "debit": 100, "net": -100},
        {"day": "sum", "currency": "EUR", "count": 1, "credit": 0, "debit": 100, "net": -100},
    ]
