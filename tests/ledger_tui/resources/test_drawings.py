"""The lines of a body fit the detail, lose nothing, and never begin with a comma."""

from __future__ import annotations

import json

import pytest
from rich.cells import cell_len

from ledger_tui.resources.drawings import body_section

BODY = {
    "description": "Beans, roasted, 1 kg, for the café, and filters",
    "customer": "株式会社 青灯",
    "lines": [{"quantity": 12, "unit_amount": 1250}, {"quantity": 3, "unit_amount": 89}],
    "metadata": {"team": "north", "a,b": "x" * 70},
}


@pytest.mark.parametrize("width", range(4, 80))
def test_a_body_fits_its_width_and_no_line_begins_with_a_comma(width: int) -> None:
    drawing = body_section("body", BODY).drawing
    assert drawing is not None
    lines = ["".join(cell.text for cell in line) for line in drawing(width)]
    assert not [line for line in lines if line.lstrip().startswith(",")]
    assert max(map(cell_len, lines)) <= width
    together = "".join(line.strip() for line in lines)
    assert together.replace(" ", "") == json.dumps(BODY, ensure_ascii=False).replace(" ", "")
