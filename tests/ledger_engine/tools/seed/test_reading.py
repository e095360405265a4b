"""A mistake in a data set is raised with its place."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from ledger_engine.tools.export import ROOTS
from ledger_engine.tools.seed import reading
from ledger_engine.tools.seed.reading import BadDataSet, IntegerRange, TransactionEntry, read
from tests.ledger_engine.tools.seed.conftest import ADA, BANK, Written

CREDIT: dict[str, Any] = {"account": "bank", "type": "credit", "amount": 100}
INVOICE: dict[str, Any] = {"account": "bank", "customer": "C", "amount": 100}
ORDER: dict[str, Any] = {"user": "ada", "items": [{"sku": "x"}]}

MISTAKES: list[tuple[dict[str, Any], str]] = [
    ({"title": 5}, "title: must be a string"),
    ({"days": 0}, "days: must be an integer from 1"),
    ({"days": 10.0}, "days: must be an integer"),
    ({"days": True}, "days: must be an integer"),
    ({"currency": "EUR"}, "currency: is not a known field"),
    ({"accounts": {}}, "accounts: must be a list"),
    ({"accounts": ["bank"]}, "accounts[0]: must be an object"),
    ({"accounts": [{"ref": "a", "currency": "EUR"}]}, "accounts[0].name: is missing"),
    ({"accounts": [{**BANK, "colour": "red"}]}, "accounts[0].colour: is not a known field"),
    ({"accounts": [BANK, BANK]}, "accounts[1].ref: 'bank' is already used"),
    ({"accounts": [{**BANK, "day": 11}]}, "accounts[0].day: must be an integer from 1 to 10"),
    (
        {"accounts": [{**BANK, "metadata": {"a": 1}}]},
        "accounts[0].metadata.a: must be a string",
    ),
    ({"accounts": [{**BANK, "metadata": 5}]}, "accounts[0].metadata: must be an object with string values"),
    ({"accounts": [{**BANK, "repeat": {}}]}, "accounts[0].repeat: is not a known field"),
    ({"users": [{"ref": "x", "name": "X"}]}, "users[0].email: is missing"),
    ({"users": [ADA, ADA]}, "users[1].ref: 'ada' is already used"),
    ({"transactions": [{**CREDIT, "account": "bnak"}]}, "transactions[0].account: there is no ref 'bnak'"),
    ({"transactions": [{**CREDIT, "account": []}]}, "transactions[0].account: must be a string, or a list"),
    (
        {"transactions": [{**CREDIT, "account": ["bank", "x"]}]},
        "transactions[0].account: there is no ref 'x'",
    ),
    ({"transactions": [{**CREDIT, "destination": "x"}]}, "transactions[0].destination: there is no ref 'x'"),
    ({"transactions": [{**CREDIT, "amount": 0}]}, "transactions[0].amount: must lie between 1 and"),
    ({"transactions": [{**CREDIT, "amount": "5"}]}, "transactions[0].amount: must be an integer, or"),
    ({"transactions": [{**CREDIT, "amount": 1.5}]}, "transactions[0].amount: must be an integer, or"),
    ({"transactions": [{**CREDIT, "amount": {"from": 5}}]}, "transactions[0].amount: must be an integer, or"),
    ({"transactions": [{**CREDIT, "amount": {"from": 9, "to": 5}}]}, "transactions[0].amount: must lie"),
    (
        {"transactions": [{**CREDIT, "amount": {"from": 1, "to": 2, "up": 1}}]},
        "transactions[0].amount: must be",
    ),
    ({"transactions": [{**CREDIT, "time": "25:00"}]}, "transactions[0].time: must be like"),
    ({"transactions": [{**CREDIT, "time": 9}]}, "transactions[0].time: must be like"),
    (
        {"transactions": [{**CREDIT, "time": "10:00-09:00"}]},
        "transactions[0].time: must begin with the earlier",
    ),
    ({"transactions": [{**CREDIT, "repeat": 3}]}, "transactions[0].repeat: must be an object"),
    (
        {"transactions": [{**CREDIT, "repeat": {"every": 0}}]},
        "transactions[0].repeat.every: must be an integer",
    ),
    (
        {"transactions": [{**CREDIT, "day": 5, "repeat": {"until": 4}}]},
        "transactions[0].repeat.until: must be an integer from 5 to 10",
    ),
    ({"invoices": [{**INVOICE, "pick": 2}]}, "invoices[0].pick: must lie between 1 and 1"),
    ({"orders": [{**ORDER, "pick": 2}]}, "orders[0].pick: must lie between 1 and 1"),
    (
        {"transactions": [{**CREDIT, "repeat": {"times": 3}}]},
        "transactions[0].repeat.times: is not a known field",
    ),
    ({"transactions": [{**CREDIT, "fee": {"percent": 5}}]}, "transactions[0].fee.to: is missing"),
    (
        {"transactions": [{**CREDIT, "fee": {"percent": 5, "to": "x"}}]},
        "transactions[0].fee.to: there is no ref",
    ),
    ({"transactions": [{**CREDIT, "reverse": {"share": 3}}]}, "transactions[0].reverse.after: is missing"),
    (
        {"invoices": [{**INVOICE, "lines": [{"description": "d", "unit_amount": 1}]}]},
        "invoices[0].amount: is required",
    ),
    (
        {"invoices": [{"account": "bank", "customer": "C"}]},
        "invoices[0].amount: is required without lines",
    ),
    ({"invoices": [{"account": "bank", "customer": "C", "lines": [{}]}]}, "invoices[0].lines[0].description"),
    ({"invoices": [{**INVOICE, "pay_after": 3}]}, "invoices[0].finalize_after: is required"),
    (
        {"invoices": [{**INVOICE, "finalize_after": 0, "pay_after": 3, "void_after": 3}]},
        "invoices[0].void_after: is forbidden",
    ),
    ({"orders": [{**ORDER, "user": "eve"}]}, "orders[0].user: there is no ref 'eve'"),
    ({"orders": [{**ORDER, "items": [5]}]}, "orders[0].items[0]: must be an object"),
    ({"orders": [{**ORDER, "items": [{"quantity": 0}]}]}, "orders[0].items[0].quantity: must lie"),
    ({"orders": [{**ORDER, "ship_after": 1}]}, "orders[0].pay_after: is required"),
]


@pytest.mark.parametrize(("fields", "message"), MISTAKES, ids=[message for _, message in MISTAKES])
def test_a_mistake_is_told_with_its_place(written: Written, fields: dict[str, Any], message: str) -> None:
    with pytest.raises(BadDataSet) as raised:
        written(**fields)
    assert str(raised.value).startswith(message)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{\n  'title'", "made.json:2:3: "),
        ("", "made.json:1:1: "),
        ("[]", "made.json: must be an object"),
        ('{"title": "a", "title": "b"}', "made.json: the field 'title' occurs twice"),
        ("[" * 100_000, "made.json: "),
        ("\ud800", "made.json: "),
        ('{"title": "\\ud800"}', "made.json: "),
        ('{"title": "\\u0000"}', "made.json: the character U+0000"),
        ('{"days": NaN}', "made.json: "),
        ("[" * 100_000, "made.json: it is nested too deeply."),
    ],
)
def test_a_file_that_is_no_json_object_is_reported(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "made.json"
    file.write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.raises(BadDataSet) as raised:
        read(file)
    assert str(raised.value).startswith(message)


def test_a_data_set_has_the_name_of_its_file(written: Written) -> None:
    data_set = written("roasters")
    assert (data_set.name, data_set.title, data_set.days) == ("roasters", "Made up", 10)


def test_a_varying_value_is_kept_for_later(written: Written) -> None:
    data_set = written(transactions=[{**CREDIT, "amount": {"from": 5, "to": 25, "step": 10}}])
    entry = data_set.entries["transactions[0]"]
    assert isinstance(entry, TransactionEntry)
    assert entry.amount == IntegerRange(5, 25, 10)


@pytest.mark.parametrize("name", reading.names())
def test_each_data_set_tells_what_it_is_about(name: str) -> None:
    value = json.loads(reading.path(name).read_bytes())
    assert value["about"]
    assert read(reading.path(name)).title == value["title"]


@pytest.mark.parametrize("name", reading.names())
def test_each_account_of_a_data_set_has_a_type_for_the_exports(name: str) -> None:
    accounts = json.loads(reading.path(name).read_bytes())["accounts"]
    assert {each["ref"] for each in accounts if each["metadata"].get("type") not in ROOTS} == set()


def test_every_field_of_a_data_set_is_documented() -> None:
    models = [
        each for each in vars(reading).values() if isinstance(each, type) and issubclass(each, BaseModel)
    ]
    fields = {field for each in models for field in each.model_fields}
    assert {"ref", "finalize_after", "repeat", "metadata"} <= fields
    page = (Path(__file__).parents[4] / "docs" / "seeds-format.md").read_text(encoding="utf-8")
    assert {field for field in fields if f"`{field}`" not in page} == set()
