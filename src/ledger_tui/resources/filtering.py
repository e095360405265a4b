"""Reads and checks a filter line, such as `type:credit after:"2026-11-01 07:18"`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from ledger_tui.client.names import AccountName, AccountNames, UserName
from ledger_tui.client.records import Record
from ledger_tui.resources.base import Filter, FilterContext

_NAMES_SAID = 3
_LETTERS_OF_A_BEGINNING = 3  # the beginning of a value means the value if it has at least this many letters
_WORD = re.compile(r'(?:[^\s"]|"[^"]*")+')
_DATE = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)?)?")


class BadLine(ValueError):
    """The typed filter, command or moment is not valid; the message gives the reason."""


class UnknownName(BadLine):
    """No account or user that the dashboard has read so far has this text in its name."""

    def __init__(self, sentence: str, name: str, *, user: bool) -> None:
        super().__init__(sentence)
        self.name = name
        self.user = user


def is_filter_line(line: str, filters: Sequence[Filter]) -> bool:
    """Return whether a line is a filter and not a text to find.

    An empty line is a filter. If the list has filters, a line is also a filter if one of its words contains a
    colon, or if each of its words is the name of a yes/no filter. A date or a time alone is a text.
    """
    if check_date(line.strip()) is None:
        return False
    words, alone = line.split(), {each.name for each in filters if each.is_yes_no}
    return not words or (bool(filters) and (any(":" in word for word in words) or alone.issuperset(words)))


class LineParts(NamedTuple):
    """The filters of a line, and the text to find in the filtered list."""

    filters: str
    text: str


def parts_of(line: str, filters: Sequence[Filter]) -> LineParts:
    """Split a line into filters and text.

    A word is a filter if it contains a colon, if it is the name of a yes/no filter, or if it is a value of
    one filter, such as `paid`. The beginning of a value is text.
    """
    filter_words, text_words = [], []
    for word in split_words(line):
        meaning = meaning_of(word, filters)
        if is_filter_line(word, filters):
            filter_words.append(word)
        elif meaning is not None and not meaning.is_beginning:
            filter_words.append(meaning.line)
        else:
            text_words.append(word.replace('"', ""))
    return LineParts(" ".join(filter_words), " ".join(text_words))


def split_words(line: str) -> list[str]:
    """Return the words of a line with their quotes. A space in quotes does not end a word."""
    return _WORD.findall(line)


def parse_filters(line: str, filters: Sequence[Filter], names: AccountNames) -> dict[str, str]:
    """Return the values of the filters in a line, by their query parameters.

    A value that contains a space must be in quotes. Instead of a value that the filter suggests, the line can
    contain the beginning of this value, if no other suggested value begins in the same way. The name of a
    yes/no filter without a value stands for yes.

    The line names an account or user by its id, its name, or a part that only one name contains. Raises
    BadLine with a sentence, and UnknownName for a name that is not in `names`.
    """
    if line.count('"') % 2:
        raise BadLine("A quote is not closed.")
    by_name = {filter_.name: filter_ for filter_ in filters}
    params: dict[str, str] = {}
    for word in split_words(line):
        name, colon, value = word.replace('"', "").partition(":")
        filter = by_name.get(name)
        if filter is not None and filter.is_yes_no and not colon:
            colon, value = ":", "yes"
        if filter is None or not colon:
            raise BadLine(f"“{word}” is not one of {usage(filters)}.")
        if not value:
            raise BadLine(f"{name}: needs a value, like {filter.name}:{filter.example}.")
        value = complete_value(value, filter)
        if (problem := filter.check(value)) is not None:
            raise BadLine(problem)
        if filter.param in params:
            raise BadLine(f"{name}: is given twice.")
        params[filter.param] = _object_id(value, filter, names) if filter.account or filter.user else value
    return params


def extended(present: str, added: str) -> str:
    """Return the filter line `present` with the filters `added`; an added value replaces an earlier value."""
    names = {_name_in(word) for word in split_words(added)}
    return " ".join([*(word for word in split_words(present) if _name_in(word) not in names), added]).strip()


def _name_in(word: str) -> str:
    return word.partition(":")[0]


class WordMeaning(NamedTuple):
    """The filter that a word stands for; `is_beginning` if the user typed only the beginning of the value."""

    filter: Filter
    value: str
    is_beginning: bool = False

    @property
    def line(self) -> str:
        return f"{self.filter.name}:{_quoted(self.value)}"


def meaning_of(word: str, filters: Sequence[Filter]) -> WordMeaning | None:
    """Return the filter that a word on the screen means, such as `status` for `4xx`; otherwise None.

    The word means a filter if exactly one filter has the word as a value. The values of a yes/no filter do
    not count. The unique beginning of a value, or of the name of a yes/no filter, means the same filter. A
    date means the list's first filter by time, such as `after`.
    """
    if check_date(word) is None:
        return next((WordMeaning(each, word) for each in filters if each.check is check_date), None)
    typed = word.casefold()
    fitting = [each for each in filters if typed in _words_of(each)]
    if not fitting and len(word) >= _LETTERS_OF_A_BEGINNING:
        return _meaning_of_beginning(typed, filters)
    if len(fitting) == 1 and not fitting[0].is_yes_no:
        return WordMeaning(fitting[0], word)
    return None


def _meaning_of_beginning(typed: str, filters: Sequence[Filter]) -> WordMeaning | None:
    """Return the filter of the only word that begins with `typed`, or None.

    Such a word, for example `failed`, can be both the name of a yes/no filter and a value of another filter.
    In this case return the yes/no filter.
    """
    fitting = [(each, word) for each in filters for word in _words_of(each) if word.startswith(typed)]
    if len({word for _filter, word in fitting}) != 1:
        return None
    filter_, word = next((each for each in fitting if each[0].is_yes_no), fitting[0])
    if filter_.is_yes_no:
        return WordMeaning(filter_, "yes", True)
    return WordMeaning(filter_, complete_value(word, filter_), True) if len(fitting) == 1 else None


def _words_of(filter_: Filter) -> set[str]:
    """Return the words that mean a value of the filter; for a yes/no filter, its name."""
    words = [filter_.name] if filter_.is_yes_no else [*filter_.suggests(), *filter_.words]
    return {word.casefold() for word in words}


def complete_value(value: str, filter_: Filter) -> str:
    """Return the suggested value that begins with `value`; if there are none or several, return `value`.

    But if `value` is one of the filter's `words`, return the value that this word stands for.
    """
    beginning = value.casefold()
    if beginning in filter_.words:
        return filter_.words[beginning]
    fitting = [each for each in filter_.suggests() if each.casefold().startswith(beginning)]
    return fitting[0] if len(fitting) == 1 else value


def _object_id(value: str, filter_: Filter, names: AccountNames) -> str:
    """Return the id of the account or user that the value names. Raises BadLine."""
    prefix, kind = ("acc_", "account") if filter_.account else ("usr_", "user")
    if value.startswith(prefix):
        return value
    exact: Sequence[AccountName | UserName]
    directory = names if filter_.account else names.users
    exact = directory.with_name(value)
    matches = exact or directory.containing(value)
    if not matches:
        raise UnknownName(
            f"No {kind} is called “{value}”; give its id, {prefix}….", value, user=not filter_.account
        )
    if len(matches) == 1:
        return matches[0].id
    if exact:
        raise BadLine(f"{len(matches)} {kind}s are called “{value}”; give the id, {prefix}….")
    some = ", ".join(match.name for match in matches[:_NAMES_SAID])
    more = f" and {len(matches) - _NAMES_SAID} more" if len(matches) > _NAMES_SAID else ""
    raise BadLine(f"“{value}” may be {some}{more}; write more of it.")


def filter_line(params: dict[str, str], filters: Sequence[Filter]) -> str:
    """Return the filter line that stands for these parameters."""
    return " ".join(f"{f.name}:{_quoted(params[f.param])}" for f in filters if f.param in params)


def _quoted(value: str) -> str:
    return f'"{value}"' if " " in value else value


def usage(filters: Sequence[Filter]) -> str:
    """Return examples of the filters, for the hint below the line."""
    return "  ".join(f"{filter_.name}:{filter_.example}" for filter_ in filters)


def choice(
    name: str,
    values: Sequence[str],
    example: str,
    *,
    matches: Callable[[Record, str, FilterContext], bool] | None = None,
    default: str = "",
) -> Filter:
    """Return a filter that accepts only these values and suggests them. `name` is also its parameter."""
    problem = f"Only {' or '.join(values)}."
    return Filter(
        name,
        name,
        example,
        lambda value: None if value in values else problem,
        suggests=lambda: values,
        matches=matches,
        default=default,
    )


_HTTP_STATUS = re.compile(r"\d{3}|[1-5]xx")
# the statuses to offer while the user types
_STATUSES = ("4xx", "5xx", "400", "401", "403", "404", "409", "422", "429", "500", "502", "503", "504")


def has_http_status(record: Record, value: str) -> bool:
    """Return whether a record's status is `value`. `value` can be a class of statuses such as `4xx`."""
    return str(record.get("status")).startswith(value.removesuffix("xx"))


def http_status(
    name: str,
    example: str,
    answers: Callable[[Record], Iterable[Record]],
    *,
    is_sent: Callable[[str], bool] = lambda _value: False,
) -> Filter:
    """Return a filter by the status of an answer, such as `404` or `4xx`.

    `answers` returns the answers of a row, which are records with a `status`. `Filter` explains `is_sent`.
    """

    def matches(record: Record, value: str, _context: FilterContext) -> bool:
        return any(has_http_status(each, value) for each in answers(record))

    return Filter(
        name,
        name,
        example,
        lambda value: None if _HTTP_STATUS.fullmatch(value) else "A status is like 404 or 4xx.",
        suggests=lambda: _STATUSES,
        matches=matches,
        is_sent=is_sent,
    )


def check_date(value: str) -> str | None:
    """Return a sentence if a date or time is not well-formed, else None.

    The server checks whether the date exists.
    """
    if _DATE.fullmatch(value):
        return None
    return 'Write a date like 2026-11-20, or a time like 2026-11-20T07:18 or "2026-11-20 07:18".'
