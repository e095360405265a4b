from ledger_tui.formats import plot


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


def test_a_small_value_is_visible_next_to_the_highest() -> None:
    assert plot.bars([1, 100_000], 1, 100_000) == ["▁█"]


def test_a_meter_is_filled_by_its_share() -> None:
    assert plot.meter(0.5, 4) == ("██", "░░")
    assert plot.meter(1.7, 4) == ("████", "")
    assert plot.meter(-1, 4) == ("", "░░░░")


def test_the_top_of_an_axis_is_a_round_number() -> None:
    assert [plot.nice_top(value) for value in (0, 0.4, 1, 3, 12, 51, 100, 101)] == [
        1, 1, 1, 3, 15, 60, 100, 150,
    ]  # fmt: skip


def test_an_axis_ends_near_the_highest_value() -> None:
    assert all(plot.nice_top(value) <= value * 1.5 for value in range(1, 5000))
    assert plot.nice_top(260) == 300


def test_no_extreme_is_lost_however_many_values_share_a_column() -> None:
    values = [50.0] * 1000
    values[333], values[334] = 100.0, 0.0
    assert plot.line(values, 5, 3) != plot.line([50.0] * 1000, 5, 3)
    above, middle, below = plot.line(values, 5, 3)
    assert (above.count(" "), below.count(" ")) == (4, 4)
    times = [float(number) for number in range(1000)]
    assert plot.line(values, 5, 3, times) == [above, middle, below]


def test_each_value_stands_from_its_time_to_the_next() -> None:
    early, late = (plot.line([0, 9], 10, 1, times) for times in ([0.0, 9.0], [0.0, 0.0]))
    assert early == ["⣀⣀⣀⣀⣀⣀⣀⣀⣀⣸"]
    assert late == ["⣀⣀⣀⣀⣀⡏⠉⠉⠉⠉"]  # at one time: evenly spaced
