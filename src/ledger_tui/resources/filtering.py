"""The filter line: `type:credit after:2026-11-01`, checked here, run by the server."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ledger_tui.resources.base import Filter

_DATE = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)?)?")


class BadFilter(ValueError):
    """The line cannot be run; the message says why."""


def parse_filters(line: str, filters: Sequence[Filter]) -> dict[str, str]:
    """Query parameters by name. Raises BadFilter with a sentence."""
    by_name = {filter_.name: filter_ for filter_ in filters}
    params: dict[str, str] = {}
    for word in line.split():
        name, colon, value = word.partition(":")
        known = by_name.get(name)
        if known is None or not colon:
            raise BadFilter(f"“{word}” is none of {usage(filters)}.")
        if not value:
            raise BadFilter(f"{name}: needs a value, like {known.name}:{known.example}.")
        if (problem := known.check(value)) is not None:
            raise BadFilter(problem)
        if known.param in params:
            raise BadFilter(f"{name}: is there twice.")
        params[known.param] = value
    return params


def filter_line(params: dict[str, str], filters: Sequence[Filter]) -> str:
    """The line that gives these parameters."""
    return " ".join(f"{f.name}:{params[f.param]}" for f in filters if f.param in params)


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
    return "Write a date like 2026-11-20, or a time like 2026-11-20T04:31:00Z."
