"""What the filter line offers while it is typed: filters, values, names, bookmarks, earlier lines. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ledger_tui.resources.base import Filter
from ledger_tui.state.names import AccountName, AccountNames, UserName

MOST_OFFERED = 8
_NAMES_OFFERED = 6


class Offer(NamedTuple):
    """A line to go on from. `complete`: it is a whole filter, which can be applied at once."""

    line: str
    shown: str
    beside: str = ""
    complete: bool = False


def offers_for(
    line: str,
    filters: Sequence[Filter],
    names: AccountNames,
    bookmarks: Sequence[str] = (),
    earlier: Sequence[str] = (),
) -> list[Offer]:
    """Return what the line may become; on an empty line bookmarks and earlier lines come first."""
    if not line.strip():
        kept = [Offer(each, each, "★ bookmark", True) for each in bookmarks]
        used = [Offer(each, each, "used before", True) for each in earlier if each not in bookmarks]
        return [*kept, *used, *_filter_names("", "", filters)][:MOST_OFFERED]
    before, word = _last_word(line)
    name, colon, value = word.partition(":")
    known = next((each for each in filters if each.name == name), None)
    if not colon:
        return _filter_names(before, word, filters)[:MOST_OFFERED]
    return _values(f"{before}{name}:", value.replace('"', ""), known, names) if known else []


def _last_word(line: str) -> tuple[str, str]:
    """Return the line up to its last word, and that word; a quote that is not closed belongs to it."""
    start, quoted = 0, False
    for number, character in enumerate(line):
        if character == '"':
            quoted = not quoted
        elif character == " " and not quoted:
            start = number + 1
    return line[:start], line[start:]


def _filter_names(before: str, begun: str, filters: Sequence[Filter]) -> list[Offer]:
    return [
        Offer(f"{before}{each.name}:", f"{each.name}:", f"such as {each.example}")
        for each in filters
        if each.name.startswith(begun) and f"{each.name}:" not in before
    ]


def _values(before: str, value: str, filter_: Filter, names: AccountNames) -> list[Offer]:
    if filter_.account or filter_.user:
        directory = names if filter_.account else names.users
        found: Sequence[AccountName | UserName] = directory.search(value, _NAMES_OFFERED)
        return [_named(before, each, directory.with_name(each.name)) for each in found]
    begun = value.casefold()
    fitting = [each for each in filter_.suggests() if each.casefold().startswith(begun) and each != value]
    return [Offer(f"{before}{each} ", each) for each in fitting[:MOST_OFFERED]]


def _named(before: str, named: AccountName | UserName, same: Sequence[object]) -> Offer:
    """Return the offer of an object: by its name, or by its id where others are called the same."""
    beside = named.currency if isinstance(named, AccountName) else named.email
    written = named.name if len(same) == 1 and '"' not in named.name else named.id
    return Offer(f'{before}"{written}" ' if " " in written else f"{before}{written} ", named.name, beside)
