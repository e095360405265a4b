"""The filter line: keys without an offer do nothing, and names that arrive after a change of the line are
ignored.
"""

from __future__ import annotations

import pytest
from textual.widgets import Input, OptionList

from ledger_tui.client.names import AccountNames
from ledger_tui.client.records import Record
from ledger_tui.lists import filter_bar
from ledger_tui.lists.filter_bar import FilterBar, offers_for, without_last_word
from ledger_tui.lists.resource_view import ResourceView
from ledger_tui.resources.directory import ORDERS
from ledger_tui.resources.registry import BY_KIND
from ledger_tui.resources.transactions import TRANSACTIONS
from ledger_tui.resources.webhooks import EVENTS
from tests.ledger_tui.alone import Alone, unconnected
from tests.ledger_tui.driving import until


def hint(bar: FilterBar) -> str:
    return str(bar.query_one("#filter-hint").render())


def line(bar: FilterBar) -> Input:
    return bar.query_one(Input)


def bar_of(kind: str) -> tuple[Alone, FilterBar]:
    view = ResourceView(BY_KIND[kind], unconnected())
    return Alone(view), view.filter_bar


async def test_where_nothing_is_offered_the_keys_that_choose_change_nothing() -> None:
    app, bar = bar_of("transactions")
    async with app.run_test() as pilot:
        bar.open()
        line(bar).value = "nobody offers this"
        await pilot.pause()
        assert not bar.query_one(OptionList).display
        bar.action_pick(1)
        bar.action_pick(-1)
        bar.action_take()
        assert (line(bar).value, bar.query_one(OptionList).highlighted) == ("nobody offers this", None)


@pytest.mark.parametrize(
    ("kind", "word", "filters"),
    [
        ("deliveries", "pending", {"status": "pending"}),
        ("deliveries", "delivered", {"status": "succeeded"}),
        ("deliveries", "503", {"answer": "503"}),
        ("deliveries", "failed", {"failed": "yes"}),
        ("events", "Pending", {"status": "pending"}),
        ("events", "5xx", {"answer": "5xx"}),
        ("events", "failed", {"failed": "yes"}),
        ("requests", "404", {"status": "404"}),
        ("requests", "post", {"method": "POST"}),
        ("invoices", "draft", {"status": "draft"}),
        ("invoices", "overdue", {"overdue": "yes"}),
        ("orders", "shipped", {"status": "shipped"}),
        ("transactions", "debit", {"type": "debit"}),
        ("deliveries", "fail", {"failed": "yes"}),
        ("events", "Fail", {"failed": "yes"}),
        ("deliveries", "pend", {"status": "pending"}),
        ("deliveries", "deliv", {"status": "succeeded"}),
        ("invoices", "dra", {"status": "draft"}),
        ("invoices", "over", {"overdue": "yes"}),
        ("transactions", "2026-11-20", {"created_after": "2026-11-20"}),
        ("transactions", "2026-11-20 07:18", {"created_after": "2026-11-20 07:18"}),
        ("requests", "2026-11-20T07:18", {"at": "2026-11-20T07:18"}),
        ("statement", "2026-11-20", {"from": "2026-11-20"}),
    ],
)
async def test_a_state_on_the_screen_means_its_filter(kind: str, word: str, filters: dict[str, str]) -> None:
    app, bar = bar_of(kind)
    async with app.run_test() as pilot:
        bar.open()
        line(bar).value = word
        bar.action_apply()
        await pilot.pause()
        assert bar._list.model.filters == filters


async def applied_to(
    rows: list[Record], word: str, kind: str = "invoices"
) -> tuple[str, dict[str, str], str]:
    """Return the hint below a word typed above these rows; then the filters and the text after enter."""
    app, bar = bar_of(kind)
    model = bar._list.model
    async with app.run_test() as pilot:
        model.stand_in(rows)
        bar.open()
        line(bar).value = word
        await pilot.pause()
        bar._search_after_pause()
        shown = hint(bar)
        bar.action_apply()
        await pilot.pause()
        return shown, model.filters, model.text


async def test_a_state_that_rows_contain_only_as_their_state_means_its_filter() -> None:
    rows: list[Record] = [
        {"id": "inv_1", "status": "open", "customer": "Copenhagen Traders"},
        {"id": "inv_2", "status": "draft", "customer": "Ada"},
    ]
    for word in ("draft", "open", "Open", "paid"):
        count = "" if word == "paid" else f"1 of 2 loaded rows match “{word}”; "
        said = f"{count}enter filters the list: status:{word}"
        assert await applied_to(rows, word) == (said, {"status": word.lower()}, "")


async def test_a_state_that_a_row_contains_in_a_name_stays_a_text_and_the_filter_is_named() -> None:
    rows: list[Record] = [
        {"id": "inv_1", "status": "draft", "customer": "Open Air GmbH"},
        {"id": "inv_2", "status": "paid", "customer": "Ada"},
    ]
    said = "1 of 2 loaded rows match “open”; enter keeps them. As a filter: status:open"
    assert await applied_to(rows, "open") == (said, {}, "open")


async def test_the_beginning_of_a_state_means_its_filter_unless_a_word_in_a_row_begins_with_it() -> None:
    rows: list[Record] = [
        {"id": "inv_1", "status": "draft", "customer": "Ada"},
        {"id": "inv_2", "status": "paid", "customer": "Operating GmbH"},
    ]
    said = "1 of 2 loaded rows match “dra”; enter filters the list: status:draft"
    assert await applied_to(rows, "dra") == (said, {"status": "draft"}, "")
    said = "1 of 2 loaded rows match “ope”; enter keeps them. As a filter: status:open"
    assert await applied_to(rows, "ope") == (said, {}, "ope")
    assert (await applied_to(rows, "dr"))[1:] == ({}, "dr")  # two letters are too few


async def test_a_day_becomes_a_filter_unless_a_row_contains_it_outside_its_own_time() -> None:
    day = {"id": "txn_1", "created": "2026-11-20T07:18:00Z", "description": "Beans"}
    said = "1 of 1 loaded rows match “2026-11-20”; enter filters the list: after:2026-11-20"
    after = (said, {"created_after": "2026-11-20"}, "")
    assert await applied_to([day], "2026-11-20", "transactions") == after
    named = day | {"description": "Takings of 2026-11-20"}
    said = "1 of 1 loaded rows match “2026-11-20”; enter keeps them. As a filter: after:2026-11-20"
    assert await applied_to([named], "2026-11-20", "transactions") == (said, {}, "2026-11-20")
    due: Record = {"id": "inv_1", "status": "open", "due_date": "2026-11-20"}
    said = "1 of 1 loaded rows match “2026-11-20”; enter keeps them"
    assert await applied_to([due], "2026-11-20") == (said, {}, "2026-11-20")


async def test_a_text_that_no_row_contains_names_the_filters() -> None:
    app, bar = bar_of("deliveries")
    async with app.run_test():
        bar.open()
        line(bar).value = "no"
        bar.action_apply()
        assert hint(bar).startswith("✕ No loaded row matches “no”. Filters: ")
        assert "failed:yes" in hint(bar)


def test_a_list_without_a_row_that_contains_the_text_names_the_filters() -> None:
    view = ResourceView(BY_KIND["deliveries"], unconnected())
    view.model.text = "error"
    assert view.caption.why_empty.startswith("No row contains this text. Filters: endpoint:whe_…  failed:yes")


@pytest.mark.parametrize("text", ["", "coffee beans"])
async def test_a_text_that_is_no_filter_is_no_bookmark(text: str) -> None:
    app, bar = bar_of("transactions")
    async with app.run_test():
        bar.open()
        line(bar).value = text
        bar.action_bookmark()
        assert hint(bar) == "✕ Only a filter can be a bookmark."


async def test_an_empty_line_shows_all_and_is_not_offered_as_a_filter_later() -> None:
    app, bar = bar_of("transactions")
    async with app.run_test() as pilot:
        bar.open()
        for text, params in (("type:debit", {"type": "debit"}), ("  ", {})):
            line(bar).value = text
            bar.action_apply()
            await pilot.pause()
            assert bar._list.model.filters == params
        assert app.view.context.saved.used_filters("transactions") == ["type:debit"]


async def test_names_that_are_read_are_offered_but_not_when_the_line_is_closed() -> None:
    app, bar = bar_of("transactions")
    async with app.run_test() as pilot:
        bar.open()
        line(bar).value = "account:til"
        await pilot.pause()
        assert not bar._offers
        bar._list.model.context.names.learn([{"id": "acc_1", "name": "Till", "currency": "EUR"}])
        bar.display = False
        bar.names_read()
        assert not bar._offers
        bar.display = True
        bar.names_read()
        assert [each.shown for each in bar._offers] == ["Till"]


async def test_a_name_that_was_looked_up_is_applied_once_it_is_known() -> None:
    app, bar = bar_of("transactions")
    async with app.run_test() as pilot:
        bar.open()
        line(bar).value = "account:till"
        bar.action_apply()
        assert hint(bar) == "Looking up the account…"
        bar._list.model.context.names.learn([{"id": "acc_1", "name": "Till", "currency": "EUR"}])
        bar.names_read()
        await pilot.pause()
        assert bar._list.model.filters == {"account": "acc_1"}


async def test_a_fault_while_names_are_looked_up_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(*_arguments: object) -> None:
        raise RuntimeError("a fault")

    monkeypatch.setattr(filter_bar, "learn_accounts_until", fail)
    app, bar = bar_of("transactions")
    async with app.run_test():
        bar.open()
        line(bar).value = "account:till"
        bar.action_apply()
        await until(lambda: bar._list.model.problem, "the fault")
        assert bar._list.model.problem == "unexpected RuntimeError('a fault')"


async def test_a_list_without_filters_and_ids_is_searched_by_text_only() -> None:
    app, bar = bar_of("accounts")
    async with app.run_test():
        bar._id_prefix = ""
        bar.open()
        assert hint(bar) == "This list has no filters; type part of a row to find it"


NAMES = AccountNames()
NAMES.learn(
    {"id": f"acc_{number}", "name": name, "currency": "EUR"}
    for number, name in enumerate(["Till", "Beans, Berlin", "Twice", "Twice"])
)
NAMES.learn_users([{"id": "usr_1", "name": "Ada Lovelace", "email": "ada@example.com"}])


def lines(line: str) -> list[str]:
    return [offer.line for offer in offers_for(line, TRANSACTIONS.filters, NAMES)]


def test_a_filter_is_offered_by_its_beginning_and_once() -> None:
    assert lines("t") == ["type:"]
    assert lines("type:debit ") == [
        f"type:debit {name}:" for name in ("account", "after", "before", "other", "amount")
    ]


def test_a_yes_no_filter_is_offered_with_yes() -> None:
    offer, other = offers_for("fai", EVENTS.filters, NAMES)
    assert (offer.line, offer.beside, offer.complete) == ("failed:yes ", "or failed:no", True)
    assert other.line == "status:failed "


def test_values_and_names_are_offered_so_that_the_line_can_be_applied() -> None:
    assert lines("type:") == ["type:credit ", "type:debit "]
    assert lines("type:debit") == []
    assert lines("account:berlin") == ['account:"Beans, Berlin" ']
    assert lines('type:debit account:"beans, b') == ['type:debit account:"Beans, Berlin" ']
    assert lines("account:Twice") == ["account:acc_2 ", "account:acc_3 "]  # the name would be ambiguous
    assert lines("after:2026") == lines("unknown:x") == []


def test_users_are_offered_by_name_or_email() -> None:
    offers = offers_for("user:ada@", ORDERS.filters, NAMES)
    assert [(offer.line, offer.beside) for offer in offers] == [('user:"Ada Lovelace" ', "ada@example.com")]


def test_an_empty_line_offers_bookmarks_then_what_was_used() -> None:
    offers = offers_for("", TRANSACTIONS.filters, NAMES, ["type:debit"], ["type:debit", "type:credit"])
    assert [(offer.line, offer.complete) for offer in offers][:3] == [
        ("type:debit", True),
        ("type:credit", True),
        ("account:", False),
    ]


def test_a_name_of_several_words_needs_no_quotes_to_be_found() -> None:
    assert lines("account:beans, b") == ['account:"Beans, Berlin" ']
    assert lines("type:debit account:beans, berl") == ['type:debit account:"Beans, Berlin" ']
    assert lines('account:"Beans, Berlin" ty') == ['account:"Beans, Berlin" type:']
    assert lines("account:Till ty") == ["account:Till type:"]
    assert lines("account:beans type:deb") == ["account:beans type:debit "]


def test_a_bare_word_is_offered_as_the_value_or_the_name_that_it_begins_or_is_in() -> None:
    assert lines("deb") == ["type:debit "]
    assert lines("type:debit cre") == []
    assert lines("berl") == ['account:"Beans, Berlin" ']
    assert lines("beans, ber") == ['account:"Beans, Berlin" ']
    assert lines("type:debit til") == ["type:debit account:Till "]
    assert lines("account:Till twi") == []
    assert lines("acc_") == []
    [offer] = offers_for("example.com", ORDERS.filters, NAMES)
    assert (offer.line, offer.shown, offer.beside) == (
        'user:"Ada Lovelace" ', "user:Ada Lovelace", "ada@example.com"
    )  # fmt: skip


def test_the_last_filter_is_removed_with_its_value() -> None:
    assert without_last_word('type:debit account:"Beans, Berlin" ') == "type:debit "
    assert without_last_word("after:2026-11-20") == without_last_word(" ") == ""
