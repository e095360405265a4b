"""The recording of the tour has only the cells that change, and leads to the same screens."""

from tools.terminal_grid import TerminalGrid


def test_only_the_cells_that_change_are_written() -> None:
    grid = TerminalGrid(20, 3)
    grid.feed("\x1b[2;1H\x1b[1;31mred\x1b[0m and plain")
    assert grid.changes() == "\x1b[2;1H\x1b[0;1;31mred\x1b[m and plain"
    grid.feed("\x1b[2;1H\x1b[1;31mrod\x1b[0m and plaid")  # all of it is drawn again
    assert grid.changes() == "\x1b[2;2H\x1b[0;1;31mo\x1b[2;13H\x1b[md"
    grid.feed("\x1b[?25l\x1b[2;1H\x1b[1;31mrod\x1b[0m and plaid\x1b[?1003h")
    assert grid.changes() == ""


def test_written_text_leads_to_the_same_screen_with_wide_characters_too() -> None:
    drawn, played = TerminalGrid(12, 2), TerminalGrid(12, 2)
    for output in (
        "\x1b[1;1Ha漢字b",
        "\x1b[1;2Hxy",
        "\x1b[1;1H\x1b[32m漢é\x1b[0m",
        "\x1b[1;11H漢\x1b[2;12H漢!",
    ):
        drawn.feed(output)
        played.feed(drawn.changes())
        assert played._now == drawn._now


def test_the_colours_that_follow_a_reset_are_kept_together() -> None:
    grid = TerminalGrid(4, 1)
    grid.feed("\x1b[1;1H\x1b[1m\x1b[32mA\x1b[mB")
    assert grid.changes() == "\x1b[1;1H\x1b[0;1;32mA\x1b[mB"
