"""How a list is shown, as the user chose it and the config file keeps it. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class ListSettings:
    """The settings of one list; empty values stand for what the program chooses.

    `sort` is the name of a column, with a `-` before it for descending.
    """

    columns: tuple[str, ...] = ()
    sort: str = ""
    filters: tuple[str, ...] = ()  # the bookmarks: lines of the filter

    @property
    def sorted_by(self) -> str:
        return self.sort.removeprefix("-")

    @property
    def descending(self) -> bool:
        return self.sort.startswith("-")

    def sorted_next(self, column: str) -> ListSettings:
        """Return the next sorting by this column: ascending, then descending, then none."""
        following = {column: f"-{column}", f"-{column}": ""}.get(self.sort, column)
        return replace(self, sort=following)

    def with_filter(self, line: str) -> ListSettings:
        """Return the settings with a bookmark added, or removed if it was there."""
        there = line in self.filters
        filters = tuple(each for each in self.filters if each != line) if there else (*self.filters, line)
        return replace(self, filters=filters)
