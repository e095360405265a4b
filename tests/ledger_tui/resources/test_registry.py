import pytest
from textual.binding import Binding

from ledger_tui.client.names import AccountNames
from ledger_tui.resources.accounts import TO_STATEMENT
from ledger_tui.resources.base import RelatedView, Resource
from ledger_tui.resources.endpoints import ENDPOINTS
from ledger_tui.resources.registry import PLACE_OF_KIND, PLACES, RESOURCES, resource_of_id
from ledger_tui.ui.keys import GLOBAL_KEYS, RESOURCE_KEYS, TABLE_KEYS, TOKEN_KEYS


def test_keys_kinds_and_prefixes_are_each_ones_own() -> None:
    places = PLACE_OF_KIND.values()
    for values in (
        [place.key for place in places if place.key],
        [place.kind for place in dict.fromkeys((*PLACES, *RESOURCES))],
        [resource.id_prefix for resource in RESOURCES if resource.id_prefix],
    ):
        assert len(set(values)) == len(values)


def test_every_screen_has_the_number_key_of_decisions_15() -> None:
    by_key = {place.key: place.kind for place in PLACES}
    assert [by_key[key] for key in "1234567890"] == [
        "accounts", "transactions", "invoices", "users", "orders",
        "token", "events", "requests", "api_keys", "overview",
    ]  # fmt: skip


def test_a_list_without_a_key_of_its_own_belongs_to_a_screen_that_has_one() -> None:
    keyed = {place.kind for place in PLACES}
    assert {resource.under for resource in RESOURCES if not resource.key} <= keyed


def test_every_binding_has_an_id_of_its_own() -> None:
    bindings = [*Binding.make_bindings([*GLOBAL_KEYS, *TABLE_KEYS, *RESOURCE_KEYS, *TOKEN_KEYS])]
    by_id = {binding.id: binding.action for binding in bindings}
    assert "" not in by_id
    assert len(by_id) == len({(binding.id, binding.action) for binding in bindings})


def test_an_id_names_its_resource() -> None:
    found = resource_of_id("txn_0123")
    assert found is not None
    assert found.kind == "transactions"
    assert resource_of_id("zzz_0123") is None


@pytest.mark.parametrize("resource", RESOURCES, ids=lambda r: r.kind)
@pytest.mark.parametrize("value", [None, True, -1, 10**30, "\x1b]52;c;x\x07", [], {"a": {"b": []}}, 1.5])
def test_a_record_of_nonsense_is_drawn_and_never_fails(resource: Resource, value: object) -> None:
    names = ["id", "name", "account", "amount", "balance", "currency", "type", "created", "metadata"]
    names += ["description", "balance_after", "livemode", "destination", "reverses", "transfer"]
    names += ["status", "lines", "items", "scopes", "last4", "events", "attempts", "url", "data", "path"]
    names += ["query", "duration_ms", "request_body", "response_body", "disabled_reason", "running_balance"]
    names += ["method", "user_id", "next_attempt_at", "endpoint", "event", "revoked_at", "role", "total"]
    for record in ({}, dict.fromkeys(names, value), {"metadata": {"k": value}, "amount": value}):
        cells = [column.cell(record, AccountNames()) for column in resource.columns]
        detail = resource.detail(record, AccountNames())
        cells += [detail.headline, *(fact.value for section in detail.sections for fact in section.facts)]
        drawings = [section.drawing for section in detail.sections if section.drawing]
        cells += [cell for drawing in drawings for line in drawing(20) for cell in line]
        assert all(cell.text.isprintable() for cell in cells)


@pytest.mark.parametrize(
    ("key", "leads_to", "by"),
    [(TO_STATEMENT, "statement", "account"), (ENDPOINTS.related[0], "deliveries", "endpoint")],
)
def test_a_key_to_what_belongs_to_an_object_leads_nowhere_in_an_empty_list(
    key: RelatedView, leads_to: str, by: str
) -> None:
    assert key.link(None, {}) is None
    link = key.link({"id": "x_1"}, {})
    assert link is not None
    assert (link.resource, link.filters[by]) == (leads_to, "x_1")
