"""The filter line: `type:credit after:"2026-11-01 07:18"`, checked here, run by the server."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ledger_tui.resources.base import Filter
from ledger_tui.state.names import AccountNames

_WORD = re.compile(r'(?:[^\s"]|"[^"]*")+')
_DATE = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)?)?")


class BadFilter(ValueError):
    """The line cannot be run; the message says why."""


def is_filter_line(line: str, filters: Sequence[Filter]) -> bool:
    """Whether a line is meant for the server: any of its words is written as a filter is."""
    return not line.strip() or (bool(filters) and any(":" in word for word in line.split()))


def parse_filters(line: str, filters: Sequence[Filter], names: AccountNames) -> dict[str, str]:
    """Query parameters by name; a value with a space stands between quotes. Raises BadFilter with a sentence.

    An account is given by its id, or by its name where `names` knows exactly one of that name.
    """
    if line.count('"') % 2:
        raise BadFilter("A quote is not closed.")
    by_name = {filter_.name: filter_ for filter_ in filters}
    params: dict[str, str] = {}
    for word in _WORD.findall(line):
        name, colon, value = word.replace('"', "").partition(":")
        known = by_name.get(name)
        if known is None or not colon:
            raise BadFilter(f"“{word}” is none of {usage(filters)}.")
        if not value:
            raise BadFilter(f"{name}: needs a value, like {known.name}:{known.example}.")
        if (problem := known.check(value)) is not None:
            raise BadFilter(problem)
        if known.param in params:
            raise BadFilter(f"{name}: is there twice.")
        params[known.param] = _account_id(value, names) if known.account else value
    return params


def _account_id(value: str, names: AccountNames) -> str:
    """The id of the account that is meant. Raises BadFilter."""
    if value.startswith("acc_"):
        return value
    match names.called(value):
        case [only]:
            return only.id
        case []:
            raise BadFilter(f"No account met so far is called “{value}”; give its id, acc_….")
        case several:
            raise BadFilter(f"{len(several)} accounts are called “{value}”; give the id, acc_….")


def filter_line(params: dict[str, str], filters: Sequence[Filter]) -> str:
    """The line that gives these parameters."""
    return " ".join(f"{f.name}:{_quoted(params[f.param])}" for f in filters if f.param in params)


def _quoted(value: str) -> str:
    return f'"{value}"' if " " in value else value


def usage(filters: Sequence[Filter]) -> str:
    """How the filters are written, for the hint under the line."""
    return "  ".join(f"{filter_.name}:{filter_.example}" for filter_ in filters)


def one_of(value: str, *values: str) -> str | None:
    """What is wrong with a value of a filter that takes only these."""
    return None if value in values else f"Only {' or '.join(values)}."


def check_date(value: str) -> str | None:
    """What is wrong with a date or time, in form; whether it exists is the server's to say."""
    if _DATE.fullmatch(value):
        return None
    return 'Write a date like 2026-11-20, or a time like 2026-11-20T07:18 or "2026-11-20 07:18".'
