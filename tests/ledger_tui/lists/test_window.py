from collections.abc import Sequence

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ledger_tui.client.records import ListPage, Record, Want
from ledger_tui.lists.window import Window

HEIGHT = 10


class ServerList:
    """A list as a server keeps it: newest first, paged by the id of the last row."""

    def __init__(self, size: int) -> None:
        self.ids = list(range(size))  # oldest first

    def add(self, count: int) -> None:
        self.ids.extend(range(len(self.ids), len(self.ids) + count))

    def page(self, want: Want) -> ListPage:
        if want.kind == "newer":
            assert want.cursor is not None
            newer = [number for number in self.ids if number > int(want.cursor)]
            above = newer[: want.limit][::-1]
            return ListPage(records(above), str(above[0]) if len(newer) > len(above) else None)
        newest_first = self.ids[::-1]
        if want.cursor is not None:
            newest_first = [number for number in newest_first if number < int(want.cursor)]
        rows = newest_first[: want.limit]
        more = len(newest_first) > len(rows)
        return ListPage(records(rows), str(rows[-1]) if more else None)


def records(numbers: Sequence[int]) -> list[Record]:
    return [{"id": number} for number in numbers]


def fetch(window: Window, server: ServerList, top: int) -> None:
    """Fetch all pages that a reader at the row `top` needs."""
    while (want := window.want(top, HEIGHT)) is not None:
        moved = window.apply(want, server.page(want), top)
        assert moved is not None
        top += moved


def walk(window: Window, server: ServerList, *tops: int) -> None:
    for top in tops:
        window.move(top)
        fetch(window, server, top)


@pytest.fixture
def window() -> Window:
    return Window(page_size=20, cap=100)


def shown(window: Window, top: int) -> list[object]:
    return [record["id"] for record in window.rows_between(top, top + HEIGHT)]


def test_the_list_is_loaded_two_screens_ahead_and_no_further(window: Window) -> None:
    fetch(window, ServerList(1000), 0)
    assert len(window) == 40  # the eye's 10 rows and two screens of 10 more are within two pages


def test_one_request_is_in_flight_at_a_time(window: Window) -> None:
    assert window.want(0, HEIGHT) is not None
    assert window.want(0, HEIGHT) is None
    assert window.want_news() is None


def test_the_far_end_is_dropped_and_comes_back_row_by_row_the_same(window: Window) -> None:
    server = ServerList(1000)
    walk(window, server, *range(0, 800, 10))
    assert window.resident <= 100 + 20
    assert window.row(300) is None
    walk(window, server, 300)
    assert shown(window, 300) == list(range(699, 689, -1))
    walk(window, server, *range(300, 0, -10), 0)
    assert shown(window, 0) == list(range(999, 989, -1))
    assert window.resident <= 100 + 20


def test_scrolling_back_shows_the_rows_that_were_there_though_newer_ones_came(window: Window) -> None:
    server = ServerList(500)
    walk(window, server, *range(0, 400, 10))
    assert len([*window.rows_between(0, 400)]) < 400  # some pages were dropped meanwhile
    server.add(7)
    walk(window, server, *range(400, -1, -10))
    assert shown(window, 0) == list(range(499, 489, -1))


def test_an_answer_to_an_older_question_is_dropped(window: Window) -> None:
    server = ServerList(100)
    old = window.want(0, HEIGHT)
    assert old is not None
    window.reset()
    new = window.want(0, HEIGHT)
    assert new is not None
    assert window.apply(old, server.page(old)) is None
    assert window.apply(new, server.page(new)) is not None


def test_a_page_that_failed_is_wanted_again(window: Window) -> None:
    want = window.want(0, HEIGHT)
    assert want is not None
    window.failed(want)
    assert window.want(0, HEIGHT) == want


def test_a_page_that_failed_after_the_list_was_begun_anew_leaves_the_new_one_under_way(
    window: Window,
) -> None:
    old = window.want(0, HEIGHT)
    assert old is not None
    window.reset()
    new = window.want(0, HEIGHT)
    window.failed(old)
    assert window.in_flight == new


def news(window: Window, server: ServerList) -> int | None:
    want = window.want_news()
    assert want is not None
    return window.apply(want, server.page(want))


def test_new_rows_are_shown_at_once_to_a_cursor_on_the_newest(window: Window) -> None:
    server = ServerList(50)
    fetch(window, server, 0)
    server.add(3)
    news(window, server)
    assert (window.cursor, window.waiting, shown(window, 0)[0]) == (0, 0, 52)


def test_new_rows_are_counted_for_a_cursor_elsewhere(window: Window) -> None:
    server = ServerList(50)
    fetch(window, server, 0)
    window.move(4)
    server.add(12)
    assert news(window, server) == 0
    assert (window.waiting, window.waiting_is_minimum, shown(window, 0)[0]) == (12, False, 49)
    assert window.current == {"id": 45}


def test_an_opened_row_is_held_though_it_is_the_newest(window: Window) -> None:
    server = ServerList(50)
    fetch(window, server, 0)
    window.hold()
    server.add(2)
    news(window, server)
    assert (window.current, window.waiting) == ({"id": 49}, 2)


def test_more_news_than_a_page_are_counted_as_at_least(window: Window) -> None:
    server = ServerList(50)
    fetch(window, server, 0)
    window.move(4)
    server.add(70)
    news(window, server)
    assert (window.waiting, window.waiting_is_minimum) == (20, True)
    window.follow()
    news(window, server)
    assert (shown(window, 0)[0], window.waiting) == (119, 0)
    fetch(window, server, 30)
    assert shown(window, 20) == list(range(99, 89, -1))


def test_a_row_that_left_the_list_leaves_the_window_and_the_cursor_stays_on_its_object(
    window: Window,
) -> None:
    server = ServerList(50)
    fetch(window, server, 0)
    window.move(4)
    server.ids.remove(47)
    assert news(window, server) == -1
    assert window.current == {"id": 45}
    assert 47 not in shown(window, 0)


def test_a_changed_row_is_shown_as_it_is_now(window: Window) -> None:
    fetch(window, ServerList(50), 0)
    assert window.replace({"id": 45, "balance": 7})
    assert window.row(4) == {"id": 45, "balance": 7}
    assert not window.replace({"id": 999})


def test_following_for_long_keeps_the_window_small(window: Window) -> None:
    server = ServerList(50)
    fetch(window, server, 0)
    for _ in range(40):
        server.add(15)
        news(window, server)
    assert shown(window, 0)[0] == 649
    assert window.resident <= 100 + 20


def test_an_empty_list_that_fills_is_shown(window: Window) -> None:
    server = ServerList(0)
    fetch(window, server, 0)
    assert (len(window), window.loaded, window.complete) == (0, True, True)
    server.add(2)
    news(window, server)
    assert shown(window, 0) == [1, 0]


def test_a_list_opened_in_the_middle_holds_its_object_and_grows_both_ways(window: Window) -> None:
    server = ServerList(500)
    window.open_at({"id": 250})
    fetch(window, server, 0)
    assert window.current == {"id": 250}
    assert window.newer is not None
    assert shown(window, window.cursor) == list(range(250, 240, -1))
    assert window.cursor >= 2 * HEIGHT


def test_from_the_middle_the_newest_is_met_and_followed(window: Window) -> None:
    server = ServerList(90)
    window.open_at({"id": 50})
    for _ in range(10):
        fetch(window, server, 0)
        window.move(0)
    assert (window.newer, window.current, window.following) == (None, {"id": 89}, True)
    server.add(3)
    news(window, server)
    assert shown(window, 0)[:2] == [92, 91]


def test_a_list_in_the_middle_looks_for_no_news_and_follow_begins_at_the_newest(window: Window) -> None:
    server = ServerList(500)
    window.open_at({"id": 250})
    assert window.want_news() is None
    assert not window.following
    window.follow()
    fetch(window, server, 0)
    assert window.current == {"id": 499}


def test_a_server_that_cannot_go_upwards_shows_what_is_below(window: Window) -> None:
    server = ServerList(500)
    window.open_at({"id": 250})
    want = window.want(0, HEIGHT)
    assert want is not None
    assert want.kind == "newer"
    window.note_newer_refused()
    fetch(window, server, 0)
    assert shown(window, 0) == list(range(250, 240, -1))


def test_an_unchanged_row_stays_the_very_same_object(window: Window) -> None:
    server = ServerList(30)
    fetch(window, server, 0)
    before = window.row(3)
    news(window, server)
    assert window.row(3) is before


class WindowMachine(RuleBasedStateMachine):
    """Any order of scrolling, moving, growing, losing answers and jumping shows the server's rows."""

    @initialize(size=st.integers(0, 400))
    def begin(self, size: int) -> None:
        self.server = ServerList(size)
        self.window = Window(page_size=20, cap=100)
        self.top = 0
        self.late: list[Want] = []

    @rule(to=st.integers(0, 400))
    def scroll(self, to: int) -> None:
        self.top = min(to, max(0, len(self.window) - 1))
        self.window.move(self.top)

    @rule(step=st.integers(-15, 15))
    def step(self, step: int) -> None:
        self.scroll(max(0, self.top + step))

    @rule()
    def load(self) -> None:
        self.load_one()

    def load_one(self) -> None:
        want = self.window.want(self.top, HEIGHT)
        if want is not None:
            held = self.window.current
            moved = self.window.apply(want, self.server.page(want), self.top)
            assert moved is not None
            if held is not None and not self.window.following:
                assert self.window.current == held
            self.top = max(0, self.top + moved)

    @rule(count=st.integers(1, 60))
    def grow(self, count: int) -> None:
        self.server.add(count)

    @precondition(
        lambda self: self.window.loaded and self.window.in_flight is None and self.window.newer is None
    )
    @rule()
    def look_for_news(self) -> None:
        held = self.window.current
        want = self.window.want_news()
        assert want is not None
        moved = self.window.apply(want, self.server.page(want), self.top)
        assert moved is not None
        if self.window.following:
            self.top = 0
            assert self.window.current == ({"id": self.server.ids[-1]} if self.server.ids else None)
        else:
            assert self.window.current == held
            newer = [number for number in self.server.ids if number > self.newest()]
            assert self.window.waiting == len(newer) or (
                self.window.waiting_is_minimum and self.window.waiting <= len(newer)
            )

    def newest(self) -> int:
        row = self.window.row(0)
        assert row is not None
        return int(row["id"])

    @rule()
    def lose_an_answer(self) -> None:
        want = self.window.want(self.top, HEIGHT)
        if want is not None:
            self.window.failed(want)
            self.late.append(want)

    @precondition(lambda self: self.late)
    @rule()
    def a_lost_answer_comes_late(self) -> None:
        want = self.late.pop()
        assert self.window.apply(want, self.server.page(want), self.top) is None

    @rule()
    def start_anew(self) -> None:
        self.window.reset()
        self.top = 0

    @precondition(lambda self: self.server.ids)
    @rule(share=st.floats(0, 1))
    def open_in_the_middle(self, share: float) -> None:
        chosen = self.server.ids[int(share * (len(self.server.ids) - 1))]
        self.window.open_at({"id": chosen})
        self.top = 0

    @invariant()
    def the_rows_at_hand_are_the_servers_in_order_without_gaps(self) -> None:
        if not len(self.window):
            return
        newest = self.newest()
        for index in range(len(self.window)):
            row = self.window.row(index)
            assert row is None or row["id"] == newest - index

    @invariant()
    def it_never_keeps_more_than_its_cap_and_a_screen_of_pages(self) -> None:
        assert self.window.resident <= self.window.cap + 3 * self.window.page_size

    @invariant()
    def what_the_eye_is_on_can_be_loaded(self) -> None:
        if self.window.in_flight is None:
            for _ in range(8):
                self.load_one()
            assert all(
                self.window.row(n) is not None
                for n in range(self.top, min(self.top + HEIGHT, len(self.window)))
            )


TestWindowMachine = WindowMachine.TestCase
TestWindowMachine.settings = settings(max_examples=60, stateful_step_count=30)


def test_the_page_at_the_end_is_wanted_with_the_cursors_before_it(window: Window) -> None:
    server = ServerList(200)
    walk(window, server, 0, 45)
    window.move(len(window) - 1)
    want = window.want(len(window) - HEIGHT, HEIGHT)
    assert want is not None
    assert want.met == {slot.cursor for slot in window.slots}
    assert want.cursor not in want.met


def test_a_page_may_be_empty_though_more_follow() -> None:
    window = Window()
    pages = {
        None: ListPage([], "90"),
        "90": ListPage([], "80"),
        "80": ListPage(records([75]), "70"),
        "70": ListPage([], None),
    }
    while (want := window.want(0, HEIGHT)) is not None:
        window.apply(want, pages[want.cursor])
    assert (len(window), window.complete, window.row(0)) == (1, True, {"id": 75})
    news = window.want_news()
    assert news is not None
    window.apply(news, ListPage([], "91"))
    assert (len(window), window.complete, window.want(0, HEIGHT)) == (1, True, None)
    news = window.want_news()
    assert news is not None
    window.apply(news, ListPage(records([95]), "92"))
    assert window.row(0) == {"id": 95}


def test_a_changed_row_stays_in_its_place_until_the_list_is_read_from_its_start(window: Window) -> None:
    server = ServerList(5)
    fetch(window, server, 0)
    window.let_stay(3)  # its new state no longer matches the filter
    for left, rows in (([0, 1, 2, 4, 9], [9, 4, 3, 2, 1, 0]), ([0], [3, 0]), ([], [3])):
        server.ids = left
        news = window.want_news()
        assert news is not None
        window.apply(news, server.page(news))
        assert shown(window, 0) == rows
    anew = window.want_anew()
    window.apply(anew, server.page(anew))
    assert len(window) == 0


def test_a_changed_row_stays_on_a_later_page_and_under_a_condition(window: Window) -> None:
    server = ServerList(60)
    walk(window, server, 0, 25)
    window.let_stay(30)
    server.ids.remove(30)
    again = window.want_again(25, HEIGHT)
    assert again is not None
    window.apply(again, server.page(again))
    assert [row["id"] for row in window.rows_between(28, 31)] == [31, 30, 29]
    window.show_only(lambda row: int(row["id"]) > 57)
    assert [row["id"] for _n, row in window.at_hand()] == [59, 58, 30]
