"""Rectangles in place of block characters: no stripes with any font."""

from tools.block_shapes import rectangles, without_blocks


def test_equal_neighbours_become_one_rectangle_and_a_low_block_stands_on_the_line() -> None:
    full, low = rectangles("a ██▂", x=10, y=100, width=8, height=16)
    assert full == '<rect x="26.0" y="100.0" width="16.3" height="16.3" shape-rendering="crispEdges"/>'
    assert low == '<rect x="42.0" y="112.0" width="8.3" height="4.3" shape-rendering="crispEdges"/>'


def test_a_narrow_block_keeps_to_the_left_of_its_cell() -> None:
    [half] = rectangles("▌", x=0, y=0, width=8, height=16)
    assert half == '<rect x="0.0" y="0.0" width="4.3" height="16.3" shape-rendering="crispEdges"/>'


def test_the_other_characters_keep_their_places() -> None:
    assert without_blocks("12 ██▌ p95 ▁") == "12     p95  "
