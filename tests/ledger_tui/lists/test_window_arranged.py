"""A window in another order, or of only some rows."""

from ledger_tui.client.records import ListPage, Record
from ledger_tui.lists.window import Window


def rows(*numbers: int) -> list[Record]:
    return [{"id": f"t{number:05}", "n": number} for number in numbers]


def loaded(*numbers: int, older: str | None = None, **sizes: int) -> Window:
    window = Window(**sizes)
    want = window.want(0, 10)
    assert want is not None
    window.apply(want, ListPage(rows(*numbers), older))
    return window


def numbers(window: Window) -> list[int]:
    return [record["n"] for record in window.rows_between(0, len(window))]


def by_number(record: Record) -> int:
    return int(record["n"])


def test_sorting_keeps_the_cursor_on_its_object_and_can_be_taken_back() -> None:
    window = loaded(5, 9, 1, 7)
    window.move(2)
    window.sort(by_number, descending=True)
    assert numbers(window) == [9, 7, 5, 1]
    assert window.current == rows(1)[0]
    window.sort(None)
    assert numbers(window) == [5, 9, 1, 7]
    assert window.cursor == 2


def test_new_rows_are_sorted_in_while_the_cursor_is_on_top_and_counted_elsewhere() -> None:
    window = loaded(5, 9, older="t00009")
    window.sort(by_number)
    want = window.want_news()
    assert want is not None
    window.apply(want, ListPage(rows(7, 5, 9), "t00009"))
    assert numbers(window) == [5, 7, 9]
    window.move(2)
    want = window.want_news()
    assert want is not None
    window.apply(want, ListPage(rows(1, 7, 5, 9), "t00009"))
    assert (numbers(window), window.waiting, window.current) == ([5, 7, 9], 1, rows(9)[0])


def test_only_an_explicit_wish_loads_older_rows_while_rows_are_arranged() -> None:
    window = loaded(5, 9, older="t00009")
    window.show_only(lambda record: record["n"] < 6)
    assert window.want(0, 10) is None
    assert (len(window), window.resident) == (1, 2)
    want = window.want_more()
    assert want is not None
    assert (want.slot, want.cursor) == (1, "t00009")
    assert window.want_more() is None  # one page at a time
    window.apply(want, ListPage(rows(3, 8), None))
    assert numbers(window) == [5, 3]
    assert not window.has_older


def test_rows_that_match_stay_when_their_page_is_dropped() -> None:
    window = loaded(*range(10), older="a", page_size=10, cap=20)
    window.show_only(lambda record: record["n"] % 10 == 3)
    for page in range(1, 6):
        want = window.want_more()
        assert want is not None
        window.apply(want, ListPage(rows(*range(10 * page, 10 * page + 10)), f"a{page}"))
    assert numbers(window) == [3, 13, 23, 33, 43, 53]
    assert window.resident <= 20


def test_a_changed_object_is_shown_in_its_place() -> None:
    window = loaded(5, 9, 1)
    window.sort(by_number)
    assert window.replace({"id": "t00009", "n": 0})
    assert numbers(window) == [0, 1, 5]
    assert not window.replace({"id": "t00077", "n": 0})


def test_of_a_sorted_list_the_rows_of_a_page_that_is_dropped_go_with_it() -> None:
    window = loaded(*range(10), older="a", page_size=10, cap=20)
    window.sort(by_number, descending=True)
    for page in range(1, 4):
        want = window.want_more()
        assert want is not None
        window.apply(want, ListPage(rows(*range(10 * page, 10 * page + 10)), f"a{page}"))
    assert window.resident == 20
    window.arrange_again()
    assert numbers(window) == [*range(39, 29, -1), *range(9, -1, -1)]


def test_rows_that_happen_are_sorted_in_when_only_some_are_shown_too() -> None:
    window = loaded(5, 9)
    window.show_only(lambda record: record["n"] != 7)
    window.sort(by_number)
    window.push(rows(11, 7))
    assert numbers(window) == [5, 9, 11]


def test_a_page_of_arranged_rows_is_read_again_when_no_other_is_under_way() -> None:
    window = loaded(*range(10), older="a", page_size=10)
    window.sort(by_number, descending=True)
    more = window.want_more()
    assert more is not None
    assert window.want_again(0, 4) is None
    window.apply(more, ListPage(rows(*range(10, 20)), None))
    again = window.want_again(0, 4)
    assert again is not None
    assert (again.slot, again.cursor) == (1, "a")
