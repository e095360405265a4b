"""The register of mechanisms, `docs/mechanisms.md`, as its tests read it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "mechanisms.md"
_ROW = re.compile(
    r"^\| (?P<name>[^|]+) \| (?P<places>`[^|]+`) \| (?P<lines>[\d,]+) \| [^|]+"
    r" \| (?P<test>`[^|]+`) \| [^|]+ \|$"
)


@dataclass(frozen=True)
class Mechanism:
    """A row: its name, its places under `src`, its number of lines, and the test that guards it."""

    name: str
    places: tuple[str, ...]
    lines: int
    test: str


def mechanisms() -> list[Mechanism]:
    """Return the rows of the register."""
    rows = map(_ROW.match, PAGE.read_text(encoding="utf-8").splitlines())
    return [
        Mechanism(
            row["name"],
            tuple(re.findall(r"`([^`]+)`", row["places"])),
            int(row["lines"].replace(",", "")),
            row["test"].strip("`"),
        )
        for row in rows
        if row
    ]


def files_by_mechanism() -> dict[str, list[Path]]:
    """Return the files of each row; a file belongs to the row with the longest place that contains it."""
    places = {place: row.name for row in mechanisms() for place in row.places}
    files: dict[str, list[Path]] = {row.name: [] for row in mechanisms()}
    for file in sorted((ROOT / "src").rglob("*.py")):
        path = file.relative_to(ROOT / "src").as_posix()
        owners = [place for place in places if path == place or path.startswith(f"{place.rstrip('/')}/")]
        if owners:
            files[places[max(owners, key=len)]].append(file)
    return files
