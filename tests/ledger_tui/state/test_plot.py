from ledger_tui.state import plot


def dots(picture: list[str]) -> int:
    return sum(bin(ord(cell) - 0x2800).count("1") for line in picture for cell in line if cell != " ")


def test_a_rising_line_runs_from_the_lower_left_to_the_upper_right() -> None:
    picture = plot.line([0, 1, 2, 3], 2, 1)
    assert picture == ["⣠⠞"]


def test_a_line_is_as_wide_and_as_high_as_asked_and_never_broken() -> None:
    picture = plot.line([5, 100, -3, 40], 12, 4)
    assert [len(line) for line in picture] == [12] * 4
    assert dots(picture) >= 24


def test_values_that_are_all_the_same_run_in_the_middle() -> None:
    above, middle, below = plot.line([7, 7, 7], 3, 3)
    assert (above, below) == ("   ", "   ")
    assert dots([middle]) == 6


def test_nothing_is_an_empty_picture() -> None:
    assert plot.line([], 3, 2) == ["   ", "   "]


def test_bars_are_eighths_and_what_is_not_known_is_a_dot() -> None:
    assert plot.bars([0, 4, 8, None], 1, 8) == [" ▄█·"]
    assert plot.bars([8, 16], 2, 16) == [" █", "██"]


def test_what_happened_at_all_is_seen_beside_the_highest() -> None:
    assert plot.bars([1, 100_000], 1, 100_000) == ["▁█"]


def test_a_meter_is_filled_by_its_share() -> None:
    assert plot.meter(0.5, 4) == ("██", "░░")
    assert plot.meter(1.7, 4) == ("████", "")
    assert plot.meter(-1, 4) == ("", "░░░░")


def test_the_top_of_an_axis_is_a_round_number() -> None:
    assert [plot.nice_top(value) for value in (0, 0.4, 1, 3, 12, 51, 100, 101)] == [
        1, 1, 1, 5, 20, 100, 100, 200,
    ]  # fmt: skip
