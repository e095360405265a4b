"""A key that does nothing on an object is answered with the reason."""

from __future__ import annotations

import pytest

from ledger_tui.resources.availability import why_not
from ledger_tui.resources.base import Resource
from ledger_tui.resources.directory import ORDERS
from ledger_tui.resources.invoices import INVOICES

KEYS = {"act.finalize": "F", "act.pay_order": "p"}


@pytest.mark.parametrize(
    ("resource", "action", "record", "sentence"),
    [
        (INVOICES, "pay", {"status": "draft"}, "Still a draft: F finalizes it first."),
        (INVOICES, "void", {"status": "draft"}, "Still a draft: F finalizes it first."),
        (INVOICES, "pay", {"status": "paid", "number": "INV-000202"}, "INV-000202 is paid."),
        (ORDERS, "ship", {"status": "open"}, "Still open: p pays it first."),
        (ORDERS, "pay_order", {"status": "paid"}, "The order is paid."),
    ],
)
def test_a_key_that_comes_too_early_names_the_action_before_it(
    resource: Resource, action: str, record: dict[str, object], sentence: str
) -> None:
    assert why_not(resource, action, record, has_marks=False, key_of=KEYS.__getitem__) == sentence
