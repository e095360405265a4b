"""Measure claims: run the sides of a comparison in turns, and return the median of the rounds' ratios."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Result:
    """A line of the report.

    `value` is the median of the ratios ours / other; if `other` is None, it is the median of a single side in
    `unit`. The claim is that `value` is `>=` or `<=` (`bound`) the `target`. Without a claim, `bound` and
    `target` are None.
    """

    name: str
    value: float
    unit: str
    ours: float
    other: float | None
    unit_measured: str
    bound: str | None
    target: float | None
    low: float
    high: float
    rounds: int
    label: str = ""
    against: str = ""
    note: str = ""

    @property
    def holds(self) -> bool:
        """Return whether the claim is met. A result without a claim or with a note is no failure."""
        if self.bound is None or self.target is None or self.note:
            return True
        return self.value >= self.target if self.bound == ">=" else self.value <= self.target


def compare(
    name: str,
    ours: Callable[[], float],
    other: Callable[[], float],
    *,
    rounds: int,
    unit_measured: str,
    bound: str | None = None,
    target: float | None = None,
    label: str = "",
    against: str = "",
) -> Result:
    """Measure both sides in turns, and return the median of ours / other.

    The machine's speed changes from minute to minute, but it is nearly the same for the two sides of a round.
    The side that begins changes with each round.
    """
    pairs: list[tuple[float, float]] = []
    for number in range(rounds):
        if number % 2:
            denominator = other()
            numerator = ours()
        else:
            numerator = ours()
            denominator = other()
        pairs.append((numerator, denominator))
        say(
            f"  {name}: {numerator:,.5g} / {denominator:,.5g} {unit_measured} = {numerator / denominator:.3f}"
        )
    return paired(name, pairs, unit_measured, bound, target, label=label, against=against)


def rotate(sides: dict[str, Callable[[], float]], rounds: int, unit: str) -> dict[str, list[float]]:
    """Measure all sides in each round; return the measured values by side. Each round reverses the order."""
    measured: dict[str, list[float]] = {name: [] for name in sides}
    for number in range(rounds):
        for name in list(sides) if number % 2 == 0 else reversed(list(sides)):
            measured[name].append(sides[name]())
            say(f"  {name}: {measured[name][-1]:,.5g} {unit}")
    return measured


def paired(
    name: str,
    pairs: Sequence[tuple[float, float]],
    unit_measured: str,
    bound: str | None = None,
    target: float | None = None,
    *,
    label: str = "",
    against: str = "",
) -> Result:
    """Return a result with the median of the rounds' ratios ours / other."""
    ratios = [numerator / denominator for numerator, denominator in pairs]
    return Result(
        name=name,
        value=statistics.median(ratios),
        unit="x",
        ours=statistics.median(pair[0] for pair in pairs),
        other=statistics.median(pair[1] for pair in pairs),
        unit_measured=unit_measured,
        bound=bound,
        target=target,
        low=min(ratios),
        high=max(ratios),
        rounds=len(pairs),
        label=label,
        against=against,
    )


def single(
    name: str,
    values: Sequence[float],
    unit: str,
    bound: str | None = None,
    target: float | None = None,
    *,
    label: str = "",
) -> Result:
    """Return a result with the median of one side's values in the rounds."""
    middle = statistics.median(values)
    return Result(
        name=name,
        value=middle,
        unit=unit,
        ours=middle,
        other=None,
        unit_measured=unit,
        bound=bound,
        target=target,
        low=min(values),
        high=max(values),
        rounds=len(values),
        label=label,
    )


def missing(name: str, *, label: str = "", against: str = "", note: str = "not installed") -> Result:
    """Return a result for a measure that was not possible, with the reason in `note`."""
    return Result(
        name, 0.0, "x", 0.0, None, "", None, None, 0.0, 0.0, 0, label=label, against=against, note=note
    )


def time_out(
    name: str, measure: Callable[[], float], *, rounds: int, target: float | None = None, label: str = ""
) -> Result:
    """Return a result with the median of the seconds that `measure` returns. `target` is the maximum."""
    seconds = [measure() for _ in range(rounds)]
    say(f"  {name}: {', '.join(f'{value:.3f}' for value in seconds)} s")
    return single(name, seconds, "s", None if target is None else "<=", target, label=label)


def say(line: str) -> None:
    """Print a line to stderr, because stdout contains only the JSON."""
    print(line, file=sys.stderr, flush=True)


def table(results: list[Result]) -> str:
    """Return a text table of the results."""
    rows = [("", "measured", "claim", "lowest", "highest", "ours", "against")]
    for result in results:
        if result.note:
            rows.append((result.name, result.note, "", "", "", "", ""))
            continue
        claim = "" if result.bound is None else f"{result.bound} {result.target:g} {result.unit}"
        rows.append(
            (
                result.name + ("" if result.holds else "  MISSED"),
                f"{result.value:.3f} {result.unit}",
                claim,
                f"{result.low:.3f}",
                f"{result.high:.3f}",
                f"{result.ours:,.5g} {result.unit_measured}",
                "" if result.other is None else f"{result.other:,.5g} {result.unit_measured}",
            )
        )
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )
