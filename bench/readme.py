"""Write the table of figures for `python -m bench --record` between two markers in this folder's README.md.

The table has a row for each result with a label.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench.runs import Result

README = Path(__file__).parent / "README.md"
BEGIN, END = "<!-- figures: made by make bench -->", "<!-- figures: end -->"


def write(about: dict[str, Any], results: list[Result], path: Path = README) -> None:
    """Write the table. Raises ValueError if the page lacks the markers."""
    text = path.read_text(encoding="utf-8")
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{path.name} has no markers for the figures: {BEGIN} and {END}")
    path.write_text(f"{before}{BEGIN}\n{figures(about, results)}\n{END}{after}", encoding="utf-8")


def figures(about: dict[str, Any], results: list[Result]) -> str:
    """Return the table of the results with a label, and a line about the commit and the machine."""
    rows = ["| | ledger | against | | ratio |", "| --- | --- | --- | --- | --- |"]
    last = ""
    for result in results:
        if result.label:
            label = result.label if result.label != last else ""
            last = result.label
            rows.append(_row(result, label))
    rows.append("")
    rows.append(
        "Medians of {rounds} rounds in which the sides took turns, with the lowest and the highest ratio;"
        " commit {commit}, {date}, {cores} cores, Python {python}, SQLite {sqlite}.".format(
            rounds=max((result.rounds for result in results if result.other is not None), default=0),
            **about | {"date": about["date"][:10]},
        )
    )
    return "\n".join(rows)


def _row(result: Result, label: str) -> str:
    if result.note:
        return f"| {label} | | {result.against} | {result.note} | |"
    ours = _amount(result.ours, result.unit_measured)
    if result.other is None:
        spread = "" if result.low == result.high else f"{_number(result.low)} to {_number(result.high)}"
        return f"| {label} | {ours} | | | {spread} |"
    other = _amount(result.other, result.unit_measured)
    ratio = f"{result.value:.2f} ({result.low:.2f} to {result.high:.2f})"
    return f"| {label} | {ours} | {result.against} | {other} | {ratio} |"


def _amount(value: float, unit: str) -> str:
    per_second = unit.endswith("/s")
    name = "a second" if per_second else unit
    return f"{_number(value)} {name}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
