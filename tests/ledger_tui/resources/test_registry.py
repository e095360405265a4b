import pytest
from textual.binding import Binding

from ledger_tui.actions import GLOBAL_KEYS, TABLE_KEYS, VIEW_KEYS
from ledger_tui.resources.base import Resource
from ledger_tui.resources.registry import RESOURCES, resource_of_id
from ledger_tui.state.names import AccountNames


def test_keys_kinds_and_prefixes_are_each_ones_own() -> None:
    for of in (lambda r: r.key, lambda r: r.kind, lambda r: r.id_prefix):
        values = [of(resource) for resource in RESOURCES]
        assert len(set(values)) == len(values)


def test_every_binding_has_an_id_of_its_own() -> None:
    bindings = [*Binding.make_bindings([*GLOBAL_KEYS, *TABLE_KEYS, *VIEW_KEYS])]
    by_id = {binding.id: binding.action for binding in bindings}
    assert "" not in by_id
    assert len(by_id) == len({binding.action for binding in bindings})


def test_an_id_tells_its_resource() -> None:
    found = resource_of_id("txn_0123")
    assert found is not None
    assert found.kind == "transactions"
    assert resource_of_id("zzz_0123") is None


@pytest.mark.parametrize("resource", RESOURCES, ids=lambda r: r.kind)
@pytest.mark.parametrize("value", [None, True, -1, 10**30, "\x1b]52;c;x\x07", [], {"a": {"b": []}}, 1.5])
def test_a_record_of_nonsense_is_drawn_and_never_fails(resource: Resource, value: object) -> None:
    names = ["id", "name", "account", "amount", "balance", "currency", "type", "created", "metadata"]
    names += ["description", "balance_after", "livemode", "destination", "reverses", "transfer"]
    for record in ({}, dict.fromkeys(names, value), {"metadata": {"k": value}, "amount": value}):
        cells = [column.cell(record, AccountNames()) for column in resource.columns]
        detail = resource.detail(record, AccountNames())
        cells += [detail.headline, *(fact.value for section in detail.sections for fact in section.facts)]
        assert all(cell.text.isprintable() for cell in cells)
