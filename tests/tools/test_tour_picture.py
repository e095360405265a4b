"""The moving picture of the tour shows each screen of the recording in its time."""

from __future__ import annotations

import json
from xml.etree import ElementTree

from tools.tour_picture import BEGINS_WITH, frames, picture

SVG = "{http://www.w3.org/2000/svg}"
DRAWN: list[tuple[float, str, str]] = [
    (0.0, "o", "\x1b[2J"),
    (0.5, "o", "\x1b[1;1H\x1b[1mloading\x1b[m"),
    (2.0, "o", f"\x1b[1;1H\x1b[0;38;2;255;0;0;48;2;1;2;3m{BEGINS_WITH} <1>\x1b[m"),
    (2.1, "o", "\x1b[2;3H\x1b[0;38;2;255;0;0m漢字 & more\x1b[m"),
    (5.0, "o", "\x1b[1;1H\x1b[mthe end   "),
]


def test_a_drawing_in_pieces_is_one_frame_from_its_beginning() -> None:
    found = [*frames(DRAWN, 30, 2)]
    assert [frame.begins for frame in found] == [0.0, 2.0, 5.0]
    assert found[1].rows[1] == (("  ", ""), ("漢字 & more", "38;2;255;0;0"))
    assert found[1].rows[1] == found[2].rows[1]


def test_each_frame_is_shown_once_and_a_line_that_stays_is_written_once() -> None:
    lines = [{"version": 2, "width": 30, "height": 2}, *DRAWN, (10.0, "o", "\x1b[?25h")]
    svg = ElementTree.fromstring(picture([json.dumps(line) for line in lines]))
    shown = [group.find(f"{SVG}animate") for group in svg.findall(f"{SVG}g")]
    assert [(each.get("values"), each.get("keyTimes")) for each in shown if each is not None] == [
        ("inline;none", "0;0.375"),
        ("none;inline", "0;0.375"),
    ]
    assert [group.get("display") for group in svg.findall(f"{SVG}g")] == ["inline", "none"]
    texts = [*svg.iter(f"{SVG}text")]
    assert [text.text for text in texts] == [
        f"{BEGINS_WITH} <1>",
        "漢字 & more",
        "the end",
        "d again <1>",
    ]
    assert (texts[1].get("x"), texts[1].get("textLength")) == ("16.8", "92.4")
    assert "#ff0000" in (svg.find(f"{SVG}style").text or "")  # type: ignore[union-attr]
