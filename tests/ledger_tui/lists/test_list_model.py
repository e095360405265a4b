"""The model of a list, without widgets and without a server."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from pathlib import Path

import ledger_tui
from ledger_tui.client.past import moment_ms
from ledger_tui.client.records import ListPage, Record, Want
from ledger_tui.lists.list_model import ListModel
from ledger_tui.lists.window import Window
from ledger_tui.resources.registry import BY_KIND
from tests.ledger_tui.alone import unconnected

HEIGHT = 10
READS = {"row", "rows_between", "index_of", "at_hand", "position"}  # methods that change nothing


def accounts(*numbers: int) -> list[Record]:
    return [{"id": f"acc_{n}", "name": f"Till {n}", "currency": "EUR", "balance": n} for n in numbers]


def answer(model: ListModel, want: Want | None, rows: Sequence[Record], older: str | None = None) -> None:
    assert want is not None
    assert model.take_page(want, ListPage(rows, older), 0) is not None


def loaded(*numbers: int, older: str | None = None) -> ListModel:
    model = ListModel(BY_KIND["accounts"], unconnected())
    answer(model, model.page_for(0, HEIGHT), accounts(*numbers), older)
    return model


def ids(model: ListModel) -> list[object]:
    return [row["id"] for _row, row in model.window.at_hand()]


def test_only_the_model_changes_its_window() -> None:
    changes = {name for name in vars(Window) if not name.startswith("_")} - READS
    package = Path(ledger_tui.__file__).parent
    callers = set()
    for file in package.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                owner = ast.unparse(node.func.value).rpartition(".")[2]
                if owner == "window" and node.func.attr in changes:
                    callers.add(file.name)
    assert callers == {"list_model.py"}


def test_a_text_shows_the_rows_that_contain_it_and_new_filters_forget_it() -> None:
    model = loaded(3, 2, 1)
    assert model.narrow("Till 2")
    assert not model.narrow("Till 2")
    assert ids(model) == ["acc_2"]
    model.set_filters({"status": "active"})
    assert (model.text, model.filters, model.window.loaded) == ("", {"status": "active"}, False)
    answer(model, model.page_for(0, HEIGHT), accounts(3, 2))
    assert ids(model) == ["acc_3", "acc_2"]


def test_a_search_reads_older_pages_until_one_more_row_is_shown() -> None:
    model = loaded(30, 29, older="acc_29")
    model.narrow("Till 2")
    assert model.begin_search()
    answer(model, model.page_to_search(), accounts(18, 17), "acc_17")
    assert model.search_goes_on()
    answer(model, model.page_to_search(), accounts(2, 1))
    assert not model.search_goes_on()
    assert (ids(model), model.page_to_search()) == (["acc_29", "acc_2"], None)


def test_marks_keep_their_order_and_show_the_rows_as_they_are_now() -> None:
    model = loaded(3, 2, 1)
    for row in (2, 0):
        model.move(row)
        assert model.toggle_mark()
    model.replace({**accounts(1)[0], "balance": 7})
    assert [(row["id"], row["balance"]) for row in model.marked] == [("acc_1", 7), ("acc_3", 3)]
    model.move(2)
    model.toggle_mark()
    assert [*model.marks] == ["acc_3"]
    model.toggle_all_marks()
    assert {*model.marks} == {"acc_1", "acc_2", "acc_3"}
    model.toggle_all_marks()
    assert model.marked == []


def test_a_created_object_is_gone_to_when_it_is_listed_unless_the_user_has_moved_on() -> None:
    for moves_on, row in ((False, 0), (True, None)):
        model = loaded(2, 1)
        model.expect(accounts(3)[0])
        assert model.row_of_created() is None
        if moves_on:
            model.move(1)
        answer(model, model.page_to_poll(0, HEIGHT), accounts(3, 2, 1))
        if moves_on:
            model.follow()
            model.move(1)
            answer(model, model.page_again(), accounts(3, 2, 1))
        assert model.row_of_created() == row


def test_the_pinned_object_is_the_selected_one_until_its_row_is_under_the_cursor() -> None:
    model = loaded(2, 1)
    model.pin(accounts(9)[0])
    assert model.selected == accounts(9)[0]
    assert not model.is_pinned_listed
    answer(model, model.page_to_poll(0, HEIGHT), accounts(9, 2, 1))
    assert model.is_pinned_listed


def test_after_a_failure_only_a_poll_asks_the_server_again() -> None:
    model = loaded(2, 1, older="acc_1")
    want = model.page_for(0, HEIGHT)
    assert want is not None
    model.page_failed(want, "The server is busy.", forbidden=False)
    assert model.page_for(0, HEIGHT) is None
    answer(model, model.page_to_poll(0, HEIGHT), accounts(2, 1))
    assert model.problem == ""


def test_a_question_about_a_created_object_does_not_keep_the_list_from_its_row() -> None:
    model = loaded(2, 1)
    (created,) = accounts(3)
    model.pin(created)
    model.expect(created)
    model.hold()  # a question about the created object is open
    answer(model, model.page_to_poll(0, HEIGHT), accounts(3, 2, 1))
    assert model.window.waiting == 0
    assert model.row_of_created() == 0
    model.hold()
    answer(model, model.page_to_poll(0, HEIGHT), accounts(4, 3, 2, 1))
    assert model.window.waiting == 1


def test_invoices_are_overdue_by_the_date_of_the_shown_moment() -> None:
    model = ListModel(BY_KIND["invoices"], unconnected())
    invoice = {"id": "inv_1", "status": "open", "due_date": "2026-11-19"}
    model.set_filters({"overdue": "yes"})
    for moment, is_overdue in (("2026-11-19T23:59:59.999Z", False), ("2026-11-20T00:00:00.000Z", True)):
        model.context.session.moment_ms = moment_ms(moment)
        assert model.hides(invoice) is not is_overdue


def test_a_changed_row_stays_if_a_filter_hides_it_and_not_if_the_object_is_gone() -> None:
    model = ListModel(BY_KIND["invoices"], unconnected())
    model.set_filters({"status": "draft"})
    rows = [{"id": f"inv_{n}", "status": "draft"} for n in (3, 2, 1)]
    answer(model, model.page_for(0, HEIGHT), rows)
    model.show_changed({"id": "inv_3", "status": "open"})
    model.show_changed({"id": "inv_2", "status": "draft"})
    answer(model, model.page_to_poll(0, HEIGHT), rows[2:])
    assert ids(model) == ["inv_3", "inv_1"]


def test_an_older_answer_does_not_replace_a_newer_state() -> None:
    model = loaded(1, 2)
    now = {"at": 10.0}
    model._newest_states._clock = lambda: now["at"]
    model.replace({**accounts(2)[0], "name": "New"})
    page_before = model.page_to_poll(0, HEIGHT)
    assert page_before is not None
    model.take_page(page_before, ListPage(accounts(1, 2), None), 0, 9.0)
    assert model.window.row(1) == {**accounts(2)[0], "name": "New"}
    page_after = model.page_to_poll(0, HEIGHT)
    assert page_after is not None
    now["at"] = 12.0
    model.take_page(page_after, ListPage(accounts(1, 2), None), 0, 11.0)
    assert model.window.row(1) == accounts(2)[0]
    # A page has changed the row, so the answer to a request before this page is older.
    assert model.newest({"id": "acc_2", "name": "Older"}, 11.5) == accounts(2)[0]
    assert model.newest({"id": "acc_2", "name": "Newest"}, 12.0)["name"] == "Newest"
