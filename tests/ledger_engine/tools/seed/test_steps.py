"""A data set's history: deterministic, in order, within its days."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from ledger_engine.core.clock import DAY
from ledger_engine.ledger import invoices
from ledger_engine.tools.seed import steps
from ledger_engine.tools.seed.reading import BadDataSet, IntegerRange
from ledger_engine.tools.seed.steps import steps_of
from tests.ledger_engine.tools.seed.conftest import BANK, Written

CREDIT: dict[str, Any] = {"account": "bank", "type": "credit", "amount": {"from": 1, "to": 999}}
INVOICE: dict[str, Any] = {"account": "bank", "customer": "C", "amount": 100}


def test_steps_come_in_order_and_within_the_days(written: Written) -> None:
    found = steps_of(written(transactions=[{**CREDIT, "repeat": {"per_day": 3}}]))
    moments = [step.at for step in found]
    assert moments == sorted(moments)
    assert moments[0] >= 0
    assert moments[-1] < 10 * DAY


def test_the_same_file_gives_the_same_history(written: Written) -> None:
    varied = [{**CREDIT, "repeat": {"per_day": {"from": 0, "to": 5}}}]
    first, second = steps_of(written(transactions=varied)), steps_of(written(transactions=varied))
    assert [(step.at, step.path) for step in first] == [(step.at, step.path) for step in second]


def test_an_entry_more_changes_none_of_the_others(written: Written) -> None:
    varied = {**CREDIT, "repeat": {"per_day": {"from": 0, "to": 5}}}
    alone = steps_of(written(transactions=[varied]))
    both = steps_of(written(transactions=[varied, CREDIT]))
    assert [step.at for step in both if step.path != "transactions[1]"] == [step.at for step in alone]


@pytest.mark.parametrize(
    ("when", "days"),
    [
        ({}, [1]),
        ({"day": 4}, [4]),
        ({"repeat": {}}, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]),
        ({"day": 3, "repeat": {"every": 3}}, [3, 6, 9]),
        ({"day": 3, "repeat": {"every": 3, "until": 8}}, [3, 6]),
        ({"day": 9, "repeat": {"per_day": 2}}, [9, 9, 10, 10]),
    ],
)
def test_an_entry_happens_on_the_days_it_names(
    written: Written, when: dict[str, Any], days: list[int]
) -> None:
    found = steps_of(written(transactions=[{**CREDIT, **when}]))
    assert [step.at // DAY + 1 for step in found if step.path == "transactions[0]"] == days


def test_a_time_is_exact_or_somewhere_between(written: Written) -> None:
    minute = 60_000
    found = steps_of(written(transactions=[{**CREDIT, "time": "09:30"}]))
    assert [step.at for step in found if step.path == "transactions[0]"] == [(9 * 60 + 30) * minute]
    found = steps_of(
        written(transactions=[{**CREDIT, "time": "09:30-09:31", "repeat": {"per_day": 20, "until": 1}}])
    )
    moments = [step.at for step in found if step.path == "transactions[0]"]
    assert len(set(moments)) > 10
    assert all((9 * 60 + 30) * minute <= at < (9 * 60 + 32) * minute for at in moments)


def test_accounts_and_users_are_there_before_what_happens_that_day(written: Written) -> None:
    found = steps_of(written(transactions=[{**CREDIT, "repeat": {"per_day": 9}}]))
    assert {step.path for step in found[:3]} == {"accounts[0]", "accounts[1]", "users[0]"}


def test_a_step_after_the_end_has_not_happened_yet(written: Written) -> None:
    paid = {**INVOICE, "day": 8, "finalize_after": 1, "pay_after": 5}
    found = steps_of(written(invoices=[paid]))
    assert [step.at // DAY + 1 for step in found if step.path == "invoices[0]"] == [8, 9]


def test_each_stage_of_an_invoice_comes_after_the_one_before(written: Written) -> None:
    paid = {**INVOICE, "finalize_after": 0, "pay_after": 0}
    for day in range(1, 10):  # each is drawn anew
        opened, drafted, *moved = steps_of(
            written(accounts=[BANK], users=[], invoices=[{**paid, "day": day}])
        )
        assert [step.happen.args[0] for step in moved] == [invoices.finalize, invoices.pay]
        assert opened.at < drafted.at < moved[0].at < moved[1].at


def test_a_data_set_that_never_ends_is_refused(written: Written, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "STEPS_MAX", 50)
    with pytest.raises(BadDataSet, match=r"transactions\[0\]: the data set has more than 50 steps"):
        steps_of(written(transactions=[{**CREDIT, "repeat": {"per_day": 10}}]))


def test_a_range_is_drawn_from_evenly_and_to_its_ends() -> None:
    random = Random(1)
    drawn = [IntegerRange(10, 35, 10).draw(random) for _ in range(300)]
    assert set(drawn) == {10, 20, 30}
    assert min(drawn.count(each) for each in (10, 20, 30)) > 60
