"""Every tile fits its place, at any size and with any amount of data."""

from collections.abc import Callable

import pytest
from rich.cells import cell_len

from ledger_tui.client.figures import EndpointHealth, Mark
from ledger_tui.client.names import AccountNames
from ledger_tui.client.totals import BalanceSums, PostingRate, Stage, Stages, Sum, moment
from ledger_tui.features.overview import tiles
from ledger_tui.features.overview.request_figures import RequestFigures, RequestOutcome
from ledger_tui.formats import plot
from ledger_tui.resources.base import Cell
from ledger_tui.ui.tiles import TileContent

MARKS: list[Mark] = ["sent", "late", "waiting", "retrying", "failed"]
NOW = 1_795_000_000.0
TODAY = "2026-11-18"
LATER = moment("2026-11-18T13:48:20Z") or 0.0  # 110 s after the transaction of `rate`


DELIVERY = {"event_type": "invoice.paid", "status": "succeeded", "created": "2026-11-18T13:46:30Z"}


def balances(currencies: int) -> BalanceSums:
    sums = [Sum(f"C{number}X", 12_345_678 * (-1) ** number, 2) for number in range(currencies)]
    return BalanceSums(sums, 2 * currencies, True)


def stages(*names: str) -> Stages:
    found = [Stage(name, 10**n, n > 1, [Sum("EUR", 10**8, 1)]) for n, name in enumerate(names, 1)]
    return Stages(found, [3, 20, 100])


def requests(statuses: int) -> RequestFigures:
    figures = RequestFigures()
    figures.replace([RequestOutcome(400 + number, 1234.5) for number in range(statuses)])
    return figures


def endpoints(count: int) -> list[EndpointHealth]:
    urls = [f"https://example.com/hooks/{'x' * number}" for number in range(count)]
    return [
        EndpointHealth(
            {"id": f"whe_{n}", "url": url}, MARKS * 20, "it was a very long error", [DELIVERY] * 100
        )
        for n, url in enumerate(urls)
    ]


def rate() -> PostingRate:
    counted = PostingRate()
    row = {"id": "txn_1", "created": "2026-11-18T13:46:30Z"}
    counted.take([row], now=NOW, all_read=False)
    return counted


EVENT = {
    "id": "evt_1",
    "type": "transaction.created",
    "created": "2026-11-18T13:46:30Z",
    "data": {"object": {"amount": 123456789, "currency": "EUR", "description": "株式会社 " * 20}},
}
COURSE = {f"C{number}X": [0, 5, 3, 10**9] for number in range(9)}
DRAWN: dict[str, Callable[[int, int], TileContent]] = {
    "balances": lambda w, h: tiles.balances(balances(3), COURSE, 300, w, h),
    "many balances": lambda w, h: tiles.balances(balances(9), COURSE, 300, w, h),
    "postings": lambda w, h: tiles.postings(rate(), LATER, w, h),
    "invoices": lambda w, h: tiles.invoices(stages("draft", "open", "paid"), w, h),
    "orders": lambda w, h: tiles.orders(stages("open", "paid", "shipped"), w, h),
    "requests": lambda w, h: tiles.requests(requests(9), w, h),
    "an endpoint": lambda w, h: tiles.webhooks(endpoints(1), w, h, TODAY),
    "endpoints": lambda w, h: tiles.webhooks(endpoints(4), w, h, TODAY),
    "events": lambda w, h: tiles.events([EVENT] * 20, AccountNames(), w, h, TODAY),
    "postings in their place": lambda w, h: tiles.newest_postings([EVENT] * 20, AccountNames(), w, h, TODAY),
}


@pytest.mark.parametrize("name", DRAWN)
def test_a_tile_draws_at_any_size_and_only_remarks_are_cut(name: str) -> None:
    for width in (22, 36, 75):
        for height in (1, 2, 3, 5, 8, 14):
            content = DRAWN[name](width, height)
            assert content.rows, (width, height)
            for row in content.rows:
                cells = [*row.cells]
                while cells and (cells[-1].tone in ("dim", "minus") or not cells[-1].text.strip()):
                    cells.pop()  # a remark, or what is left of the line
                assert cell_len("".join(cell.text for cell in cells)) <= width, (width, height, cells)


@pytest.mark.parametrize("name", ["balances", "invoices", "orders", "endpoints", "events", "postings"])
@pytest.mark.parametrize("height", [5, 8, 12, 17])
def test_a_tile_with_enough_to_show_fills_its_rows(name: str, height: int) -> None:
    filled = len(DRAWN[name](75, height).rows)
    if name in ("invoices", "orders"):  # three states and at most a title and three ages
        assert filled == (4 if height < 7 else 7)
    else:
        assert filled == height


def test_orders_are_drawn_like_invoices_with_the_ages_of_those_to_do() -> None:
    figure = Stages([Stage(name, 5, False, [Sum("EUR", 2_500, 5)]) for name in ("open", "paid")], [4, 6, 0])
    rows = ["".join(cell.text for cell in row.cells) for row in tiles.orders(figure, 60, 8).rows]
    assert rows[0].startswith("○ open        5 █")
    assert rows[0].endswith(" 25.00 EUR")
    assert rows[2].split() == ["to", "do,", "by", "age"]
    assert rows[3].split()[:4] == ["≤", "1", "d", "4"]
    low = tiles.orders(figure, 60, 4).rows[-1]
    assert "".join(cell.text for cell in low.cells) == "· to do      10 ≤ 1 d 4 · ≤ 7 d 6"


def test_the_bars_of_postings_begin_with_the_first_interval_that_was_read() -> None:
    counted = rate()
    for width in (60, 130):
        content = tiles.postings(counted, LATER, width, 6)
        rows = ["".join(cell.text for cell in row.cells) for row in content.rows]
        assert plot.UNKNOWN not in "".join(rows)
        assert {len(row.rstrip()) for row in rows[-1:]} == {width}
        assert "not read" not in rows[-1]


def test_endpoints_of_one_host_go_by_their_paths_and_others_by_their_urls() -> None:
    shown = tiles.webhooks(endpoints(2), 60, 2, TODAY).rows
    assert [row.cells[1].text.strip() for row in shown] == ["/hooks/", "/hooks/x"]
    other = EndpointHealth({"id": "whe_9", "url": "http://127.0.0.1:9/hooks"}, [], None)
    shown = tiles.webhooks([*endpoints(1), other], 90, 2, TODAY).rows
    assert [row.cells[1].text.strip() for row in shown] == ["example.com/hooks/", "127.0.0.1:9/hooks"]


def test_how_an_endpoint_does_is_said_in_words_too() -> None:
    health = EndpointHealth({"id": "whe_1", "url": "http://h/a"}, ["sent", "late", "failed"], "answered 503")
    shown = tiles.webhooks([health], 60, 4, TODAY).rows
    assert "".join(cell.text for cell in shown[0].cells).split() == ["●", "h/a", "66", "%"]
    assert shown[2].cells[1].text == "1 failed · answered 503"


def test_the_failing_endpoints_are_named_next_to_the_title_if_they_fit() -> None:
    healths = [
        EndpointHealth({"id": f"whe_{name}", "url": f"http://h/{name}"}, [mark], None)
        for name, mark in (("shop", "sent"), ("books", "failed"), ("store", "retrying"))
    ]
    named = tiles.webhooks(healths, 60, 4, TODAY)
    assert [cell.text for cell in named.fact] == ["2 of 3 failing: /books, /store"]
    assert [cell.text for cell in tiles.webhooks(healths, 30, 4, TODAY).fact] == ["2 of 3 failing"]


def test_the_failing_endpoints_come_first_and_the_one_that_fails_most_before_the_others() -> None:
    marks: dict[str, list[Mark]] = {
        "shop": ["failed", "sent"],
        "store": ["failed"],
        "till": ["sent"],
        "books": ["failed", "failed"],
    }
    healths = [
        EndpointHealth({"id": f"whe_{name}", "url": f"http://h/{name}"}, of_one, None)
        for name, of_one in marks.items()
    ]
    rows = tiles.webhooks(healths, 60, 4, TODAY).rows
    assert [row.cells[1].text.strip() for row in rows] == ["/books", "/store", "/shop", "/till"]


def test_an_endpoint_whose_newest_delivery_arrived_does_not_fail() -> None:
    health = EndpointHealth({"id": "whe_1", "url": "http://h/a"}, ["failed", "retrying", "sent"], None)
    shown = tiles.webhooks([health], 60, 4, TODAY)
    assert [cell.text for cell in shown.fact] == ["2 not delivered"]
    assert shown.rows[0].cells[0] == Cell("● ", "plus")


def test_where_statuses_have_no_room_they_are_counted_by_their_first_digit() -> None:
    figures = RequestFigures()
    statuses = enumerate((200, 201, 201, 404, 409, 503))
    figures.take(
        [{"id": f"req_{n}", "status": status, "duration_ms": 1.0} for n, status in statuses],
        set().__contains__,
    )

    def shown(height: int) -> list[str]:
        rows = tiles.requests(figures, 60, height).rows[:-1]
        return [" ".join("".join(cell.text for cell in row.cells[:2]).split()) for row in rows]

    assert shown(5) == ["✓ 200 1", "✓ 201 2", "✕ 404 1", "✕ 409 1", "✕ 503 1"]
    assert shown(4) == ["✓ 2xx 3", "✕ 404 1", "✕ 409 1", "✕ 503 1"]
    assert shown(3) == ["✓ 2xx 3", "✕ 4xx 2", "✕ 5xx 1"]


@pytest.mark.parametrize(("width", "end"), [(18, "  ▲ +4.00"), (24, "  ▲ +4.00"), (17, "⣀⣀⡤⠤⠏⠉")])
def test_a_narrow_balance_shows_its_whole_change_or_else_its_course(width: int, end: str) -> None:
    rows = tiles.balances(
        BalanceSums([Sum("EUR", 500, 1)], 1, False), {"EUR": [100, 300, 500]}, 300, width, 1
    ).rows
    text = "".join(cell.text for cell in rows[0].cells)
    assert text.startswith("EUR  5.00  ")
    assert text.endswith(end)
    assert ("▲" in text) is ("+4.00" in text)
    assert "+4.00" in "".join(
        cell.text
        for cell in tiles.balances(
            BalanceSums([Sum("EUR", 500, 1)], 1, False), {"EUR": [100, 300, 500]}, 5, 60, 1
        )
        .rows[0]
        .cells
    )


def test_a_change_names_the_time_that_is_known_and_not_the_time_asked_for() -> None:
    figure = BalanceSums([Sum("EUR", 500, 1)], 1, False)
    for values, time in (([100, 300, 500], "+4.00  in 10 s"), ([300, 500], "+2.00  in 5 s")):
        rows = tiles.balances(figure, {"EUR": values}, 5, 60, 4).rows
        assert time in "".join(cell.text for cell in rows[0].cells)


def test_an_endpoint_that_is_disabled_has_that_said_before_what_failed() -> None:
    endpoint = {"id": "whe_1", "url": "http://h/a", "status": "disabled"}
    shown = tiles.webhooks([EndpointHealth(endpoint, ["failed"], "answered 503")], 60, 4, TODAY).rows
    assert shown[0].cells[0].text == "✕ "
    assert [cell.text for cell in shown[2].cells] == ["  ", "disabled"]


def test_without_events_or_postings_a_tile_says_that_there_are_none() -> None:
    for draw, said in ((tiles.events, "No events yet."), (tiles.newest_postings, "No postings yet.")):
        rows = draw([], AccountNames(), 60, 5, TODAY).rows
        assert ["".join(cell.text for cell in row.cells).strip() for row in rows] == [said]


@pytest.mark.parametrize(
    ("today", "shown"), [(TODAY, "13:46:30"), ("2026-11-19", "11-18   "), ("2027-01-01", "2026-11-18")]
)
def test_an_event_that_is_not_of_today_has_its_date(today: str, shown: str) -> None:
    row = tiles.events([EVENT], AccountNames(), 60, 5, today).rows[0]
    assert row.cells[0].text == shown
    assert cell_len("".join(cell.text for cell in row.cells)) == 60


def test_requests_that_nobody_answered_are_counted_without_a_duration() -> None:
    figures = RequestFigures()
    figures.replace([RequestOutcome(None, 30_000.0), RequestOutcome(None, 30_000.0)])
    content = tiles.requests(figures, 60, 5)
    assert "".join(cell.text for cell in content.rows[0].cells[:2]).split()[-1] == "2"
    assert content.fact == ()
    figures.replace([RequestOutcome(None, 30_000.0), RequestOutcome(200, 4.0)])
    assert "p50 4 ms" in "".join(cell.text for cell in tiles.requests(figures, 60, 5).fact)


@pytest.mark.parametrize(
    ("width", "sums", "text"),
    [
        (70, 3, " 300,200 JPY and 2 other currencies"),
        (70, 2, " 300,200 JPY and 1 other currency"),
        (45, 3, " 300,200 JPY +2"),
        (70, 1, " 300,200 JPY"),
    ],
)
def test_a_stage_shows_its_largest_sum_and_how_many_other_currencies_there_are(
    width: int, sums: int, text: str
) -> None:
    stage_sums = [Sum("JPY", 300_200, 3), Sum("EUR", 100, 1), Sum("KWD", 100, 1)][:sums]
    figure = Stages([Stage("draft", 5, False, stage_sums)], [0, 0, 1])
    rows = tiles.invoices(figure, width, 9).rows
    assert rows[0].cells[-1].text == text
    assert [cell.text for cell in rows[1].cells] == ["open and overdue"]
