"""Pages of long objects are read and sent in parts, and are the same as in one piece."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import httpx
import pytest

from ledger_engine.core.clock import iso
from ledger_engine.core.tenant import Tenant
from ledger_engine.events import outbox
from ledger_engine.http import lists
from ledger_engine.http.operations import StreamedAnswer, text_of_items
from ledger_engine.ledger import accounts, invoices, orders, past, users
from ledger_engine.store import Parameters, Row, Unit, pages
from ledger_engine.store.engine import Engine
from ledger_engine.store.group_cache import NOTHING
from ledger_engine.store.pages import Page, PageRequest
from tests.ledger_engine.conftest import Run
from tests.ledger_engine.manual_clock import ManualClock

LENGTHS = (1, 900, 1, 1, 900, 900, 1, 400, 400, 900, 1)
LISTINGS = {
    "/api/orders": (orders, "_LISTING"),
    "/v1/events": (outbox, "_LISTING"),
    "/v1/invoices": (invoices, "_LISTING"),
}
LISTINGS_OF_THE_PAST = {"/api/orders": (past, "_ORDERS"), "/v1/invoices": (past, "_INVOICES")}


def add_objects(unit: Unit, tenant: Tenant) -> None:
    """Create orders and invoices of these lengths; change every second invoice."""
    user = users.create(unit, tenant, users.NewUser("Ada", "ada@example.com")).id
    till = accounts.create(unit, tenant, accounts.NewAccount("Till", "EUR", {})).id
    for number, length in enumerate(LENGTHS):
        order = orders.create(unit, tenant, orders.NewOrder(user, [{"note": "x" * length}])).id
        text, long = "x" * (length // 2 + 1), number % 2 == 1
        line = invoices.InvoiceLine(description=text, quantity=1, unit_amount=1)
        invoice = invoices.create(
            unit,
            tenant,
            invoices.NewInvoice(
                till,
                "Grace",
                amount=100 if long else None,
                lines=None if long else [line] * 2,
                metadata={"a": text, "b": text} if long else {},
            ),
        ).id
        if number % 3 == 0:
            invoices.update(unit, tenant, invoice, {"customer": "Ada"})
            orders.pay(unit, tenant, order)


@pytest.fixture
def in_small_parts(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, bool], list[int]]:
    """Return a function that makes the parts of a list small, and returns the sizes of the parts."""

    def make_small(path: str, in_past: bool) -> list[int]:
        sizes: list[int] = []

        def text_of(items: list[Any], text: Callable[[list[Any]], str] = text_of_items) -> str:
            sizes.append(len(items))
            return text(items)

        monkeypatch.setattr(lists, "text_of_items", text_of)
        monkeypatch.setattr(pages, "TOGETHER_MAX", 1000)
        module, name = LISTINGS_OF_THE_PAST[path] if in_past else LISTINGS[path]
        listing = getattr(module, name)
        columns = listing.short_columns.replace(str(pages.SHORT_MAX), "300")
        monkeypatch.setattr(module, name, replace(listing, short_columns=columns))
        return sizes

    return make_small


@pytest.mark.parametrize("in_past", [False, True])
@pytest.mark.parametrize("path", list(LISTINGS))
async def test_a_page_of_long_objects_is_sent_in_parts_and_has_its_whole_length(
    api: httpx.AsyncClient,
    write: Run,
    clock: ManualClock,
    in_small_parts: Callable[[str, bool], list[int]],
    path: str,
    in_past: bool,
) -> None:
    await write(add_objects)
    clock.advance(10)
    cursor = "starting_after" if path == "/v1/invoices" else "cursor"
    at = {"at": iso(clock.now())} if in_past else {}
    listed = (await api.get(path, params={"limit": "100"} | at)).json()["data"]
    asked = [{"limit": "10"}, {"limit": "9", cursor: listed[1]["id"]}]
    if path != "/api/orders":
        asked += [{"limit": str(limit), "ending_before": listed[-1]["id"]} for limit in (1, 2, 7, 10)]
    whole = [(await api.get(path, params=params | at)).text for params in asked]
    sizes = in_small_parts(path, in_past and path != "/v1/events")
    assert [(await api.get(path, params=params | at)).text for params in asked] == whole
    assert len(sizes) > len(asked), "the pages were sent in parts"


@pytest.mark.parametrize(
    ("path", "status"), [("/api/orders", "open"), ("/api/orders", "paid"), ("/v1/invoices", "draft")]
)
async def test_a_filtered_list_of_the_past_in_parts_has_the_same_objects(
    api: httpx.AsyncClient,
    write: Run,
    clock: ManualClock,
    in_small_parts: Callable[[str, bool], list[int]],
    path: str,
    status: str,
) -> None:
    await write(add_objects)
    clock.advance(10)
    query = {"limit": "4", "status": status, "at": iso(clock.now())}
    whole = (await api.get(path, params=query | {"limit": "100"})).json()["data"]
    sizes = in_small_parts(path, True)
    cursor = "starting_after" if path == "/v1/invoices" else "cursor"
    listed: list[dict[str, Any]] = []
    while True:
        page = (await api.get(path, params=query)).json()
        assert len(page["data"]) <= 4
        listed += page["data"]
        if not page["has_more"]:
            break
        query[cursor] = page["next_cursor"]
    assert listed == whole
    assert len(sizes) > len(listed) / 4, "the pages were sent in parts"


async def test_an_object_that_leaves_a_filter_between_two_readings_of_a_part_repeats_no_other(
    engine: Engine, tenant: Tenant, write: Run, in_small_parts: Callable[[str, bool], list[int]]
) -> None:
    await write(add_objects)
    work = partial(invoices.page, tenant=tenant, status="draft")
    listed = [each.id for each in (await engine.read(partial(work, request=PageRequest(100)))).items]
    in_small_parts("/v1/invoices", False)
    left_the_filter = False

    async def read(request: PageRequest) -> Page[invoices.Invoice]:
        nonlocal left_the_filter
        page = await engine.read(partial(work, request=request))
        if not page.is_part and not left_the_filter:
            left_the_filter = True
            await write(invoices.finalize, listed[-2])
        return page

    answer = await lists.in_parts(read, PageRequest(9, before=listed[-1]))
    assert isinstance(answer, StreamedAnswer)
    page = json.loads("".join([piece async for piece in answer.pieces]))
    assert [each["id"] for each in page["data"]] == listed[1:-2]


@pytest.mark.parametrize("backwards", [False, True])
async def test_the_parts_of_a_page_look_at_hardly_more_objects_than_they_show(
    engine: Engine,
    tenant: Tenant,
    write: Run,
    in_small_parts: Callable[[str, bool], list[int]],
    backwards: bool,
) -> None:
    user = (await write(users.create, users.NewUser("Ada", "ada@example.com"))).id
    long = orders.NewOrder(user, [{"note": "x" * 1000}])
    ids = [(await write(orders.create, long)).id for _ in range(30)]
    in_small_parts("/api/orders", False)
    looked_at = 0

    def page_of(unit: Unit, request: PageRequest) -> Page[orders.Order]:
        def execute(sql: str, parameters: Parameters = NOTHING, /) -> list[Row]:
            nonlocal looked_at
            rows = unit.execute(sql, parameters)
            looked_at += len(rows)
            return rows

        counting = SimpleNamespace(execute=execute, first=unit.first)
        return orders.page(cast(Unit, counting), tenant, request)

    async def read(request: PageRequest) -> Page[orders.Order]:
        return await engine.read(partial(page_of, request=request))

    answer = await lists.in_parts(read, PageRequest(30, before=ids[0] if backwards else None))
    assert isinstance(answer, StreamedAnswer)
    page = json.loads("".join([piece async for piece in answer.pieces]))
    assert [each["id"] for each in page["data"]] == (ids[:0:-1] if backwards else ids[::-1])
    assert looked_at < 30 * 8
