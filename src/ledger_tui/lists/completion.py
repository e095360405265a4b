"""What the filter line offers while it is typed: filters, values, names, bookmarks, earlier lines. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ledger_tui.client.names import AccountName, AccountNames, UserName
from ledger_tui.resources.base import Filter

MOST_OFFERED = 8
_NAMES_OFFERED = 6
_LETTERS_OF_A_VALUE = 2  # so many are typed before values and names are offered without their filter


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
    begun = begun_name(line, filters)
    starts = _starts(line)
    if begun is not None:
        named = _names(begun, names)
        if named or begun.before == line[: starts[-1]]:
            return named
    before, word = line[: starts[-1]], line[starts[-1] :]
    name, colon, value = word.partition(":")
    if colon:
        known = next((each for each in filters if each.name == name), None)
        return _values(f"{before}{name}:", value.replace('"', ""), known) if known else []
    found = [*_filter_names(before, word, filters), *_with_value(before, word, filters)]
    return [*found, *_with_name(line, starts, filters, names)][:MOST_OFFERED]


def without_last_word(line: str) -> str:
    """Return the line without its last word; one in quotes goes with its spaces."""
    line = line.rstrip()
    return line[: _starts(line)[-1]]


class BegunName(NamedTuple):
    """The end of a line that names an account or a user, as far as it is typed."""

    before: str
    filter: Filter
    text: str


def begun_name(line: str, filters: Sequence[Filter]) -> BegunName | None:
    """Return the name that the line ends with, after `account:` or `user:`; its words need no quotes here."""
    starts = _starts(line)
    number = len(starts) - 1
    while number and ":" not in line[starts[number] :]:
        number -= 1
    name, colon, text = line[starts[number] :].partition(":")
    filter_ = next((each for each in filters if each.name == name and (each.account or each.user)), None)
    if not colon or filter_ is None or (number < len(starts) - 1 and _ends_before(text)):
        return None
    return BegunName(line[: starts[number]], filter_, text.replace('"', "").strip())


def _ends_before(text: str) -> bool:
    """Return whether a value is complete, so that the words after it do not belong to it."""
    return text.startswith('"') or text.endswith(" ")


def _starts(line: str) -> list[int]:
    """Return where each word begins; in quotes a space does not end a word."""
    starts, quoted = [0], False
    for number, character in enumerate(line):
        if character == '"':
            quoted = not quoted
        elif character == " " and not quoted:
            starts.append(number + 1)
    return starts


def _filter_names(before: str, begun: str, filters: Sequence[Filter]) -> list[Offer]:
    return [
        Offer(f"{before}{each.name}:", f"{each.name}:", f"such as {each.example}")
        for each in filters
        if each.name.startswith(begun) and f"{each.name}:" not in before
    ]


def _with_value(before: str, begun: str, filters: Sequence[Filter]) -> list[Offer]:
    """Return the filters that have a value with this beginning."""
    return [
        Offer(f"{before}{each.name}:{value} ", f"{each.name}:{value}")
        for each in filters
        if len(begun) >= _LETTERS_OF_A_VALUE and f"{each.name}:" not in before
        for value in each.suggests()
        if value.casefold().startswith(begun.casefold())
    ]


def _with_name(
    line: str, starts: Sequence[int], filters: Sequence[Filter], names: AccountNames
) -> list[Offer]:
    """Return the accounts and users whose name has the words that the line ends with."""
    number = len(starts) - 1
    while number and ":" not in line[starts[number - 1] : starts[number]]:
        number -= 1
    before, text = line[: starts[number]], line[starts[number] :].strip()
    offers: list[Offer] = []
    for each in filters:
        if not (each.account or each.user) or len(text) < _LETTERS_OF_A_VALUE or f"{each.name}:" in before:
            continue
        for offer in _names(BegunName(before, each, text), names):
            if text.casefold() in f"{offer.shown} {offer.beside}".casefold():  # an id is no name
                offers.append(offer._replace(shown=f"{each.name}:{offer.shown}"))
    return offers


def _names(begun: BegunName, names: AccountNames) -> list[Offer]:
    before = f"{begun.before}{begun.filter.name}:"
    directory = names if begun.filter.account else names.users
    found: Sequence[AccountName | UserName] = directory.search(begun.text, _NAMES_OFFERED)
    return [_named(before, each, directory.with_name(each.name)) for each in found]


def _values(before: str, value: str, filter_: Filter) -> list[Offer]:
    begun = value.casefold()
    fitting = [each for each in filter_.suggests() if each.casefold().startswith(begun) and each != value]
    return [Offer(f"{before}{each} ", each) for each in fitting[:MOST_OFFERED]]


def _named(before: str, named: AccountName | UserName, same: Sequence[object]) -> Offer:
    """Return the offer of an object: by its name, or by its id where others are called the same."""
    beside = named.currency if isinstance(named, AccountName) else named.email
    written = named.name if len(same) == 1 and '"' not in named.name else named.id
    return Offer(f'{before}"{written}" ' if " " in written else f"{before}{written} ", named.name, beside)
