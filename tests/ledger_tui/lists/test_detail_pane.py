"""The width of the detail next to the list follows rules."""

import pytest
from textual.widget import Widget

from ledger_tui.lists.detail_pane import Panes, drawn
from ledger_tui.resources.base import Cell, Detail, Fact, Section
from ledger_tui.settings.config import PaneChoice


@pytest.mark.parametrize(
    ("width", "choice", "expected"),
    [
        (120, PaneChoice(), 47),
        (160, PaneChoice(), 60),
        (160, PaneChoice(detail_width=52), 52),
        (90, PaneChoice(split=True), 45),
        (90, PaneChoice(split=True, detail_width=30), 30),
        (40, PaneChoice(split=True, detail_width=30), 24),
    ],
)
def test_the_detail_is_as_wide_as_the_screen_allows_or_the_user_chose(
    width: int, choice: PaneChoice, expected: int
) -> None:
    detail = Widget()
    Panes(Widget(), detail, choice).lay_out(width, is_open=False)
    assert detail.styles.width is not None
    assert detail.styles.width.cells == expected


def test_the_border_is_moved_only_where_it_is_shown() -> None:
    choice = PaneChoice(detail_width=50)
    panes = Panes(Widget(), Widget(), choice)
    panes.lay_out(80, is_open=False)
    panes.resize(1, 80)
    assert choice.detail_width == 50
    panes.lay_out(160, is_open=False)
    panes.resize(1, 160)
    assert choice.detail_width < 50


@pytest.mark.parametrize("figure", ["751 ms", "12 s", "5 min", "99 %", "151.00 EUR", "64 KB"])
def test_a_figure_and_its_unit_stay_on_one_line(figure: str) -> None:
    words = "06:37:26 answered"
    detail = Detail(Cell(""), (Section("", (Fact("attempt 1", Cell(f"{words} {figure} late")),)),))
    for width in range(26, 50):
        assert any(figure in line for line in drawn(detail, width).plain.splitlines()), width
