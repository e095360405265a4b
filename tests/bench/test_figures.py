"""The recorded figures: one that became worse is seen, and the table of figures is made of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench import history, readme
from bench.runs import Result, missing, paired, single

ABOUT = {
    "commit": "abc1234",
    "date": "2026-11-22T12:00:00Z",
    "cores": 2,
    "python": "3.11.7",
    "sqlite": "3.40.1",
}


def changed(before: Result, after: Result) -> bool:
    """Return whether the second run counts as worse than the first."""
    first, second = (json.loads(history.line_of(ABOUT, [result])) for result in (before, after))
    lines, is_worse = history.compare(first, second, worse=0.1)
    assert len(lines) == 1
    return is_worse


@pytest.mark.parametrize(
    ("before", "after", "unit", "is_worse"),
    [
        ([100, 101, 102], [80, 81, 82], "/s", True),
        ([80, 81, 82], [100, 101, 102], "/s", False),
        ([100, 101, 102], [95, 96, 97], "/s", False),
        ([70, 100, 130], [60, 80, 90], "/s", False),
        ([10, 11, 12], [13, 14, 15], "ms", True),
        ([13, 14, 15], [10, 11, 12], "ms", False),
        ([443], [500], "bytes", True),
    ],
)
def test_a_figure_is_worse_when_all_its_rounds_are_by_more_than_a_tenth(
    before: list[float], after: list[float], unit: str, is_worse: bool
) -> None:
    assert changed(single("a", before, unit), single("a", after, unit)) is is_worse


def test_of_a_ratio_the_claim_says_which_direction_is_worse() -> None:
    low, high = [(10.0, 10.0)], [(20.0, 10.0)]
    assert changed(paired("a", low, "ms", "<=", 3), paired("a", high, "ms", "<=", 3))
    assert not changed(paired("a", low, "/s", ">=", 1), paired("a", high, "/s", ">=", 1))


def test_a_ratio_of_times_is_worse_when_it_is_greater() -> None:
    low, high = [(3.0, 1.0), (3.1, 1.0)], [(4.0, 1.0), (4.1, 1.0)]
    assert changed(paired("a", low, "ms"), paired("a", high, "ms"))
    assert not changed(paired("a", low, "/s"), paired("a", high, "/s"))


def test_an_unmeasured_figure_is_in_the_table_and_not_in_the_history() -> None:
    result = missing("POST", label="posted", against="emulate's Stripe")
    assert json.loads(history.line_of(ABOUT, [result]))["figures"] == {}
    assert "| posted | | emulate's Stripe | not installed | |" in readme.figures(ABOUT, [result])


def test_the_table_is_changed_only_between_its_markers(tmp_path: Path) -> None:
    page = tmp_path / "page"
    page.write_text(f"before\n{readme.BEGIN}\nold\n{readme.END}\nafter\n", encoding="utf-8")
    readme.write(ABOUT, [paired("POST", [(4000.0, 2000.0)], "/s", label="posted", against="empty")], page)
    text = page.read_text(encoding="utf-8")
    assert text.startswith(f"before\n{readme.BEGIN}\n")
    assert text.endswith(f"{readme.END}\nafter\n")
    assert "| posted | 4,000 a second | empty | 2,000 a second | 2.00 (2.00 to 2.00) |" in text
    assert "old" not in text


def test_the_page_has_the_markers() -> None:
    text = readme.README.read_text(encoding="utf-8")
    assert text.index(readme.BEGIN) < text.index(readme.END)
