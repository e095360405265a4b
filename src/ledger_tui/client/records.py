"""Defines a record as the server sends it, and a page of a list; finds the records and ids in a record."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Set
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from ledger_client.event_types import EVENT_TYPES as EVENT_TYPES
from ledger_client.pages import ListPage as ListPage

Record = dict[str, Any]


PAGE_SIZE = 100


@dataclass(frozen=True, slots=True)
class Want:
    """A page to fetch for a `Window`, the class that holds the loaded rows of a list (`lists/window.py`).

    `kind` says what the window does with the page:

    - `page`: put it into the slot with the number `slot`; each slot holds one page
    - `news`: look for new and changed rows in the first page
    - `newer`: add the page, whose rows are newer than the row with the id `cursor`, above this row
    - `anew`: start the list again with the first page

    For the kind `page`, `cursor` is the cursor of the page; None stands for the first page. `limit` is the
    maximum number of rows. The window increases `generation` whenever it starts the list again, and then
    ignores the pages of earlier generations.
    """

    generation: int
    kind: Literal["page", "news", "newer", "anew"]
    slot: int
    cursor: str | None
    limit: int = PAGE_SIZE
    # the cursors of earlier pages; if the server sends one of them again, the list would never end
    met: Set[str | None] = frozenset()


def records_of(value: object) -> list[Record]:
    """Return the records of a list in an answer; an empty list if the value is no list."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def attempts_of(delivery: Record) -> list[Record]:
    """Return the attempts of a delivery so far, oldest first."""
    return records_of(delivery.get("attempts"))


class FoundId(NamedTuple):
    """An id in a record; `where` is its dotted path."""

    where: str
    record_id: str


def ids_in(record: Any, is_id: Callable[[str], bool]) -> Iterator[FoundId]:
    """Yield every id in a record, also its own id, in the order of the fields."""
    yield from (FoundId(path, text) for path, text in _texts(record) if is_id(text))


def _texts(value: Any) -> Iterator[tuple[str, str]]:
    stack = [("", value)]
    while stack:  # no recursion, because an answer may be nested to any depth
        path, inner = stack.pop()
        if isinstance(inner, str):
            yield path, inner
        elif isinstance(inner, dict):
            stack.extend((f"{path}.{key}".lstrip("."), each) for key, each in reversed(inner.items()))
        elif isinstance(inner, list):
            stack.extend(
                (f"{path}.{number}".lstrip("."), each) for number, each in reversed([*enumerate(inner)])
            )
