"""New rows arrive as events, without a request for a page."""

from ledger_tui.client.records import ListPage
from ledger_tui.lists.window import Window


def rows(*numbers: int) -> list[dict[str, object]]:
    return [{"id": f"evt_{number:06d}"} for number in numbers]


def loaded(*numbers: int, older: str | None = None, page_size: int = 10) -> Window:
    window = Window(page_size=page_size)
    want = window.want(0, 5)
    assert want is not None
    window.apply(want, ListPage(rows(*numbers), older))
    return window


def ids(window: Window) -> list[object]:
    return [record["id"] for record in window.rows_between(0, len(window))]


def test_they_come_on_top_while_it_follows() -> None:
    window = loaded(2, 1)
    assert window.push(rows(4, 3)) == rows(4, 3)
    assert ids(window) == ["evt_000004", "evt_000003", "evt_000002", "evt_000001"]
    assert window.cursor == 0


def test_they_are_counted_while_it_does_not() -> None:
    window = loaded(2, 1)
    window.hold()
    assert window.push(rows(4, 3)) == []
    assert window.push(rows(5)) == []
    assert (window.waiting, len(window)) == (3, 2)


def test_one_that_is_there_already_is_not_shown_twice() -> None:
    window = loaded(3, 2, 1)
    assert window.push(rows(4, 3)) == rows(4)
    assert len(window) == 4


def test_before_the_first_page_there_is_no_top_to_put_them_on() -> None:
    assert Window().push(rows(1)) == []


def test_the_head_stays_short_and_what_is_cut_off_can_be_fetched_again() -> None:
    window = loaded(*range(10, 0, -1), older="evt_000001")
    for number in range(11, 100):
        window.push(rows(number))
    assert len(window) <= 50
    assert window.row(0) == rows(99)[0]
    last = window.row(len(window) - 1)
    assert last is not None
    assert window.frontier in (last["id"], "evt_000001")
    assert not window.complete


def test_one_that_is_also_read_waits_once() -> None:
    window = loaded(2, 1)
    window.hold()
    window.push(rows(3))
    want = window.want_news()
    assert want is not None
    window.apply(want, ListPage(rows(4, 3, 2, 1), None))
    window.push(rows(4))
    assert window.waiting == 2
    window.push(rows(5))
    want = window.want_news()  # an answer that was on its way before the fifth came
    assert want is not None
    window.apply(want, ListPage(rows(4, 3, 2, 1), None))
    assert window.waiting == 3


def test_none_waits_once_they_are_shown() -> None:
    window = loaded(2, 1)
    window.hold()
    window.push(rows(4, 3))
    window.follow()
    want = window.want_news()
    assert want is not None
    window.apply(want, ListPage(rows(4, 3, 2, 1), None))
    assert (window.waiting, len(window)) == (0, 4)
