"""A list and its detail handle keys without a row to act on, and answers that come late or never."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ledger_tui.client.records import ListPage, Record
from ledger_tui.client.session import ConnectionState
from ledger_tui.lists import detail_pane, record_list
from ledger_tui.lists.detail_pane import RecordFailed, RecordLoaded
from ledger_tui.lists.filter_bar import FilterBar
from ledger_tui.lists.paged_table import TableHeader
from ledger_tui.lists.record_list import PageFailed
from ledger_tui.lists.resource_view import ResourceView
from ledger_tui.resources.registry import BY_KIND
from ledger_tui.ui.view import ActionRequested, BulkRequested, LinkFollowed
from tests.ledger_tui.alone import Alone, unconnected
from tests.ledger_tui.driving import until


def accounts(count: int) -> list[Record]:
    """Return accounts in the form of a list, newest first."""
    return [
        {"id": f"acc_{n}", "object": "account", "name": f"Till {n}", "currency": "EUR", "balance": n}
        for n in reversed(range(count))
    ]


def view_of(kind: str) -> ResourceView:
    return ResourceView(BY_KIND[kind], unconnected())


def answer(view: ResourceView, rows: list[Record]) -> None:
    """Answer the list's requests for pages."""
    view.enter()
    want = view.model.window.in_flight
    assert want is not None
    view.record_list.take_page(want, ListPage(rows, None))


def id_at_cursor(view: ResourceView) -> object:
    return (view.model.window.current or {}).get("id")


async def test_on_an_empty_list_a_key_for_an_object_does_nothing() -> None:
    app = Alone(view := view_of("invoices"))
    async with app.run_test() as pilot:
        answer(view, [])
        for action in view.resource.actions:
            view.action_act(action.name)
        view.action_act("no such action")
        view.action_go("no such screen")
        view.action_locate()
        view.action_open()
        await pilot.pause()
        kinds = (ActionRequested, BulkRequested, LinkFollowed)
        assert not app.those_said(*kinds)
        assert not view.opened
        view.open(True)  # the empty detail may be shown, and is no object that was opened
        assert view.opened
        assert not [*view.context.recent]


async def test_the_id_of_a_loaded_row_opens_it_and_closes_the_line_it_was_typed_in() -> None:
    app = Alone(view := view_of("accounts"))
    async with app.run_test():
        answer(view, accounts(5))
        view.action_filter()
        view.open_typed_id(FilterBar.OpenId("acc_1"))
        assert (id_at_cursor(view), view.opened, view.filter_bar.display) == ("acc_1", True, False)
        assert view.shown_path() == "/v1/accounts/acc_1"
        view.open(False)
        assert view.shown_path() == "/v1/accounts"


async def test_an_object_that_is_read_after_the_user_has_moved_on_changes_only_its_row() -> None:
    app = Alone(view := view_of("accounts"))
    async with app.run_test():
        answer(view, accounts(5))
        view.table.go_to(2)
        view.take_record(RecordLoaded({**accounts(5)[0], "name": "Safe"}))
        row = view.model.window.row(0)
        assert row is not None
        assert row["name"] == "Safe"
        assert (id_at_cursor(view), view.opened, view.model.pinned) == ("acc_2", False, None)


async def test_an_object_that_cannot_be_read_is_named_where_nobody_has_typed_its_id() -> None:
    app = Alone(view := view_of("accounts"))
    async with app.run_test(notifications=True) as pilot:
        answer(view, accounts(2))
        for sentence in ("The server is busy.", "There is no acc_1."):
            view.take_record_failure(RecordFailed("acc_1", sentence))
        assert await app.sentences(pilot) == ["acc_1: The server is busy.", "There is no acc_1."]


async def test_f_closes_an_open_object_and_follows_the_newest() -> None:
    app = Alone(view := view_of("accounts"))
    async with app.run_test():
        answer(view, accounts(5))
        view.table.go_to(3)
        view.action_open()
        assert (view.opened, view.model.window.following) == (True, False)
        view.action_follow()
        assert (view.opened, view.model.window.following, id_at_cursor(view)) == (False, True, "acc_4")


async def test_an_open_object_whose_row_is_not_loaded_shows_its_new_state() -> None:
    app = Alone(view := view_of("accounts"))
    async with app.run_test():
        answer(view, accounts(2))
        old = {**accounts(1)[0], "id": "acc_9", "name": "Old"}
        view.open_record(old)
        assert view.selected == old
        view.show_changed({**old, "name": "New"})
        assert view.selected == {**old, "name": "New"}
        view.show_changed({**accounts(2)[0], "name": "Another"})
        assert view.selected == {**old, "name": "New"}


async def test_a_failure_of_a_request_that_is_not_awaited_any_more_is_not_shown() -> None:
    app = Alone(view := view_of("accounts"))
    async with app.run_test():
        view.enter()
        late = view.model.window.in_flight
        assert late is not None
        view.record_list.start_over()
        view.record_list.take_failure(PageFailed(late, "The server is busy."))
        assert view.model.problem == ""
        now = view.model.window.in_flight
        assert now is not None
        view.record_list.take_failure(PageFailed(now, "The server is busy."))
        assert view.model.problem == "The server is busy."


async def test_without_a_list_the_cursor_stays_when_another_object_is_read() -> None:
    app = Alone(view := view_of("invoices"))
    async with app.run_test():
        assert view.resource.part is not None
        view.context.session.missing_parts.add(view.resource.part)
        for number in range(3):
            view.record_list.remember({"id": f"inv_{number}", "status": "draft"})
        assert id_at_cursor(view) == "inv_2"
        view.table.go_to(1)
        view.record_list.remember({"id": "inv_3", "status": "draft"})
        assert (view.model.window.cursor, len(view.model.window)) == (1, 4)


@pytest.mark.parametrize(("module", "name"), [(record_list, "fetch_page"), (record_list, "learn_account")])
async def test_a_fault_in_a_worker_of_the_list_is_shown_and_no_answer_awaited_any_more(
    monkeypatch: pytest.MonkeyPatch, module: Any, name: str
) -> None:
    async def fail(*_arguments: object, **_named: object) -> None:
        raise RuntimeError("a fault")

    monkeypatch.setattr(module, name, fail)
    app = Alone(view := view_of("transactions"))
    async with app.run_test():
        if name == "learn_account":
            answer(view, [{"id": "txn_1", "account": "acc_1", "amount": 5, "type": "credit"}])
            view.at_rest()
        else:
            view.enter()
        await until(lambda: view.model.problem, "the fault")
        assert view.model.problem == "unexpected RuntimeError('a fault')"
        assert view.may_poll()


async def test_a_fault_while_an_object_is_read_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(*_arguments: object, **_named: object) -> None:
        raise RuntimeError("a fault")

    app = Alone(view := view_of("accounts"))
    async with app.run_test():
        answer(view, accounts(2))
        monkeypatch.setattr(view.context.api, "read", fail)
        view.detail.read("acc_9")
        await until(lambda: view.model.problem, "the fault")
        assert view.model.problem == "unexpected RuntimeError('a fault')"


async def test_an_order_that_cannot_be_kept_is_used_and_the_reason_said(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("LEDGER_TUI_CONFIG", str(tmp_path / "file" / "config.toml"))
    app = Alone(view := view_of("accounts"))
    async with app.run_test(notifications=True) as pilot:
        answer(view, accounts(3))
        name = next(each for each in view.resource.columns if each.name == "name")
        view.record_list.sort_by(TableHeader.Clicked(name))
        assert id_at_cursor(view) == "acc_0"
        assert view.query_one(TableHeader).sort == "name"
        (shown,) = await app.sentences(pilot)
        assert "The settings of this list" in shown


async def test_z_names_the_panes_that_it_shows_and_those_it_shows_next() -> None:
    app = Alone(view := view_of("accounts"))
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        answer(view, accounts(2))
        for _time in range(3):
            view.action_panes()
        assert await app.sentences(pilot) == [
            "List and detail; z shows the detail alone.",
            "The detail alone; z shows the list alone.",
            "The list alone; z shows list and detail.",
        ]


async def test_a_list_that_is_shown_whole_is_not_looked_through_for_more() -> None:
    app = Alone(view := view_of("accounts"))
    async with app.run_test():
        view.context.session.state = ConnectionState.ONLINE
        answer(view, accounts(3))
        view.action_look()
        assert not view.model.searching
        view.record_list.narrow("Till 1")
        view.action_look()  # narrowed, and there are no older rows
        assert not view.model.searching
        assert [row["id"] for _n, row in view.model.window.at_hand()] == ["acc_1"]


async def test_the_detail_follows_the_cursor_while_a_key_is_held_down_but_not_at_each_row(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app = Alone(view := view_of("accounts"))
    monkeypatch.setattr(view, "at_rest", lambda: None)  # the cursor does not rest
    async with app.run_test(size=(130, 24)) as pilot:
        answer(view, accounts(9))
        await pilot.pause()
        view.table.focus()
        await pilot.press("j")
        await until(lambda: view.detail._about == id_at_cursor(view), "the detail of the passed row")
        monkeypatch.setattr(detail_pane, "_LONGEST_PAUSE_SECONDS", 1000.0)
        view.detail._note_drawing(-1000.0)  # a drawing that took very long
        before = view.detail._about
        await pilot.press("j")
        assert view.detail._about == before != id_at_cursor(view)
        view.detail._follows_at = 0.0
        await pilot.press("j")
        await until(lambda: view.detail._about == id_at_cursor(view), "the detail of the passed row")
