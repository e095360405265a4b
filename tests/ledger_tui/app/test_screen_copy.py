"""The terminal shows each frame, and gets little more than the changed cells."""

from __future__ import annotations

import time
import tracemalloc
import unicodedata
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import set_cell_size
from rich.color import ColorSystem
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from ledger_tui.app.screen_copy import ScreenCopy
from tests.ledger_tui.contract_server import ContractServer
from tests.ledger_tui.drawn import Drawn, DrawnDashboard, dashboard_drawn_for, sgr

_WIDTH, _HEIGHT = 12, 3
_STYLES = [
    None,
    *map(Style.parse, ("red", "bold red on blue", "on blue", "dim #123456", "bold", "underline on #0000f0")),
]
_TEXTS = st.lists(st.sampled_from(["a", "b", " ", "倉", "e\u0301"]), min_size=1, max_size=4).map("".join)
_STRIPS = st.lists(st.builds(Segment, _TEXTS, st.sampled_from(_STYLES), st.none()), max_size=4).map(Strip)


@st.composite
def pieces(draw: st.DrawFn) -> tuple[int, int, Strip]:
    """Draw a strip at some place of the screen."""
    x, width = draw(st.sampled_from([(0, _WIDTH), (0, 4), (3, 4), (7, 5)]))
    return x, draw(st.integers(0, _HEIGHT - 1)), draw(_STRIPS).adjust_cell_length(width)


def written_whole(x: int, y: int, strip: Strip) -> str:
    """Return sequences that write each cell of a strip."""
    styled = (
        text if style is None else style.render(text, color_system=ColorSystem.TRUECOLOR)
        for text, style, _control in strip
    )
    return f"\x1b[{y + 1};{x + 1}H" + "".join(styled)


@given(st.lists(st.lists(pieces(), max_size=3), max_size=4))
def test_the_changed_cells_alone_draw_the_same_screen(frames: list[list[tuple[int, int, Strip]]]) -> None:
    copy, terminal, whole = ScreenCopy(), Drawn(_WIDTH, _HEIGHT), Drawn(_WIDTH, _HEIGHT)
    for frame in frames:
        terminal.write(copy.write(frame, ColorSystem.TRUECOLOR))
        for x, y, strip in frame:
            whole.write(written_whole(x, y, strip))
        assert terminal.cells == whole.cells


def test_an_unchanged_frame_writes_nothing_and_a_forgotten_one_everything() -> None:
    copy, frame = ScreenCopy(), [(0, 0, Strip([Segment("Till", Style.parse("red"))]))]
    first = copy.write(frame, ColorSystem.TRUECOLOR)
    assert (copy.write(frame, ColorSystem.TRUECOLOR), "Till" in first) == ("", True)
    copy.forget()
    assert copy.write(frame, ColorSystem.TRUECOLOR) == first


def test_a_style_is_written_only_as_far_as_it_changes() -> None:
    assert sgr(sgr("", "1;31;44"), "32") == sgr("", "1;32;44")
    line = Strip(
        [Segment("a", Style.parse("bold red on blue")), Segment("b", Style.parse("bold green on blue"))]
    )
    assert (
        ScreenCopy().write([(0, 0, line)], ColorSystem.STANDARD)
        == "\x1b[1;1H\x1b[0;1;31;44ma\x1b[32mb\x1b[0m"
    )


def width_in_xterm(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def width_in_kitty(character: str) -> int:
    if unicodedata.category(character).startswith("M"):
        return 0
    return 2 if "\U0001f1e6" <= character <= "\U0001f1ff" else width_in_xterm(character)


def width_before_emoji(character: str) -> int:
    return 1 if character > "\U0001f000" else width_in_xterm(character)


@pytest.mark.parametrize("width_of", [width_in_xterm, width_in_kitty, width_before_emoji])
@pytest.mark.parametrize(
    "name",
    ["काकी की", "❤\ufe0f heart", "👍🏽 thumb", "🇩🇪 flag", "🇩 half", "\U0001d300 sign", "1\ufe0f\u20e3"],
)
def test_a_character_of_unsure_width_does_not_shift_its_line(
    name: str, width_of: Callable[[str], int]
) -> None:
    copy, terminal = ScreenCopy(), Drawn(24, 1, width_of)
    for text in ("x" * 24, set_cell_size(name, 20) + "│"):
        terminal.write(copy.write([(0, 0, Strip([Segment(text)]))], ColorSystem.STANDARD))
    line = [character for character, _pen in terminal.cells[0]]
    assert (line[20], "x" in line[:20]) == ("│", False), line


# The figures of docs/dashboard-configuration.md.
QUIET_BYTES_A_SECOND = 1_000
BYTES_OF_A_CHARACTER = 2_000


def waits_for_a_request(dashboard: DrawnDashboard, server: ContractServer) -> None:
    count = len(server.requests)
    dashboard.reads_until(lambda: len(server.requests) > count, "another request")


def bytes_a_second(dashboard: DrawnDashboard, server: ContractServer) -> float:
    """Return how much is written between two reads of the list, and after the second."""
    waits_for_a_request(dashboard, server)
    begin, written = time.monotonic(), dashboard.bytes_written
    waits_for_a_request(dashboard, server)
    return (dashboard.bytes_written - written) / max(1.0, time.monotonic() - begin)


def bytes_of_typing(dashboard: DrawnDashboard, text: str) -> int:
    """Return how much is written at most for one character of a text."""
    sizes = []
    for at, character in enumerate(text, 1):
        before = dashboard.bytes_written
        dashboard.press(character)
        dashboard.sees(text[:at])
        sizes.append(dashboard.bytes_written - before)
    return max(sizes)


@pytest.mark.process
def test_a_slow_line_gets_few_bytes_from_a_list_a_form_a_question_and_a_typed_character() -> None:
    with ContractServer() as server:
        tills = [server.add_account(f"Till {number}") for number in range(50)]
        for number in range(100):
            server.post(tills[number % 50], 100 + number)
        with dashboard_drawn_for(server.url, server.key) as dashboard:
            dashboard.sees("online", "Till 40", "3.48 ┤")
            for _read in range(3):  # the first of them draw what was read late
                waits_for_a_request(dashboard, server)
            assert dashboard.bytes_written <= 40_000
            assert bytes_a_second(dashboard, server) <= QUIET_BYTES_A_SECOND
            dashboard.press("n")
            dashboard.sees("Currency *", "^s send")
            assert bytes_a_second(dashboard, server) <= QUIET_BYTES_A_SECOND
            assert bytes_of_typing(dashboard, "Kiosk") <= BYTES_OF_A_CHARACTER
            dashboard.press("\x1b")
            dashboard.sees("Leave the form?")
            assert bytes_a_second(dashboard, server) <= QUIET_BYTES_A_SECOND


def test_lines_that_were_drawn_once_take_little_memory() -> None:
    copy, style = ScreenCopy(), Style.parse("red")
    tracemalloc.start()
    try:
        for number in range(5_000):
            copy.write([(0, 0, Strip([Segment(f"{number:<120}", style)]))], ColorSystem.TRUECOLOR)
        assert tracemalloc.get_traced_memory()[0] < 6_000_000
    finally:
        tracemalloc.stop()
