from ledger_tui.client.names import AccountNames
from ledger_tui.resources.accounts import balance_points, balance_sections

ACCOUNT = {"id": "acc_1", "balance": 825, "currency": "EUR"}
POSTINGS = [
    {"amount": 75, "type": "credit", "balance_after": 825, "created": "2026-11-20T04:33:00.000Z"},
    {"amount": 250, "type": "debit", "balance_after": 750, "created": "2026-11-20T04:32:00.000Z"},
    {"amount": 1000, "type": "credit", "balance_after": 1000, "created": "2026-11-20T04:31:00.000Z"},
]


def without(*names: str) -> list[dict[str, object]]:
    return [{key: value for key, value in row.items() if key not in names} for row in POSTINGS]


def test_the_balance_before_the_postings_is_not_shown_in_their_time() -> None:
    assert balance_points(ACCOUNT, POSTINGS).balances == (1000, 750, 825)


def test_missing_balances_are_computed_back_from_todays() -> None:
    assert balance_points(ACCOUNT, without("balance_after")).balances == (1000, 750, 825)


def test_missing_times_are_not_made_up() -> None:
    assert balance_points(ACCOUNT, without("created")).times is None


def test_no_posting_is_no_line() -> None:
    (section,) = balance_sections(ACCOUNT, balance_points(ACCOUNT, []), AccountNames())
    assert section.drawing is None
    assert section.facts[0].value.text == "none yet"


def test_the_same_points_are_the_same_picture_so_that_nothing_is_drawn_twice() -> None:
    one, other = (
        balance_sections(ACCOUNT, balance_points(ACCOUNT, POSTINGS), AccountNames()) for _ in range(2)
    )
    assert one == other


def test_every_line_of_the_picture_fits_its_width() -> None:
    (section,) = balance_sections(ACCOUNT, balance_points(ACCOUNT, POSTINGS), AccountNames())
    assert section.drawing is not None
    for width in (20, 44, 76):
        lines = ["".join(cell.text for cell in line) for line in section.drawing(width)]
        assert max(map(len, lines[:-1])) <= width


def test_the_axis_names_the_highest_and_the_lowest_balance_of_the_line_itself() -> None:
    account = {"id": "acc_1", "balance": 1_237_831, "currency": "KWD"}
    postings = [
        {"amount": 3_265, "type": "credit", "created": "2026-11-20T04:33:00.000Z"},
        {"amount": 1, "type": "debit", "created": "2026-11-20T04:31:00.000Z"},
        {"amount": 1_234_567, "type": "credit", "created": "2026-11-20T04:31:00.000Z"},
    ]
    (section,) = balance_sections(account, balance_points(account, postings), AccountNames())
    assert section.drawing is not None
    lines = ["".join(cell.text for cell in line) for line in section.drawing(60)]
    assert [line.partition("┤")[0].strip() for line in lines[:5]] == ["1,237.831", "", "", "", "1,234.566"]
    # It stands low until the last moment, in which it rises to the top.
    assert lines[4].count("⣀") > 40
    assert [len(line.rstrip()) for line in lines[:4]] == [60] * 4


def test_a_balance_that_never_changed_has_its_figure_beside_its_line() -> None:
    (section,) = balance_sections(ACCOUNT, balance_points(ACCOUNT, POSTINGS[:1]), AccountNames())
    assert section.drawing is not None
    (line,) = [
        "".join(cell.text for cell in line) for line in section.drawing(40)[:5] if line[1].text.strip()
    ]
    assert line.startswith("8.25 ┤")
