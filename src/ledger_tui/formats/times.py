"""Writes times in the style that the user chose: UTC, this machine's time zone, or a distance from now.

The style holds for the whole program, like a locale, so code that draws a time reads the style from `chosen`.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from enum import Enum

_TIME = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(?:\.\d+)?(Z|[+-]\d\d:\d\d)?")
_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


class TimeStyle(Enum):
    UTC = "utc"
    LOCAL = "local"
    RELATIVE = "relative"

    @property
    def next(self) -> TimeStyle:
        """The style that follows this style when the user switches styles with a key."""
        styles: list[TimeStyle] = [*TimeStyle]
        return styles[(styles.index(self) + 1) % len(styles)]

    @property
    def in_words(self) -> str:
        """The name of the style, for use in a sentence."""
        return {"utc": "UTC", "local": "the time of this machine", "relative": "how long ago"}[self.value]

    @property
    def heading(self) -> str:
        """The text that replaces `UTC` in a column's title."""
        return {"utc": "UTC", "local": "local", "relative": "ago"}[self.value]


class _Chosen:
    style = TimeStyle.UTC


chosen = _Chosen()


def written(text: str, now: datetime | None = None) -> str | None:
    """Return an ISO 8601 time in the style that the user chose; None if `text` is not such a time."""
    match = _TIME.match(text)
    if match is None:
        return None
    as_sent = f"{match[1]} {match[2]}"
    if chosen.style is TimeStyle.UTC:
        return as_sent
    try:
        moment = datetime.fromisoformat(match[0].replace("Z", "+00:00"))
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        if chosen.style is TimeStyle.LOCAL:
            return moment.astimezone().strftime("%Y-%m-%d %H:%M:%S")
    # the day does not exist, or the local time is before the year 1 or after the year 9999
    except (ValueError, OverflowError):
        return as_sent
    return since((now or datetime.now(UTC)) - moment)


def since(difference: timedelta) -> str:
    """Return a time difference in its two largest units: `3 h 12 min ago`, `in 5 min`."""
    seconds = round(difference.total_seconds())
    rest = abs(seconds)
    parts: list[str] = []
    for size, unit in _UNITS:
        count, rest = divmod(rest, size)
        if count or parts:
            parts.append(f"{count} {unit}")
        if len(parts) == 2:
            break
    text = " ".join(parts) or "now"
    if not seconds:
        return text
    return f"{text} ago" if seconds > 0 else f"in {text}"


def heading(title: str) -> str:
    """Return a column's title, with the chosen style in place of `(UTC)`: `created (local)`."""
    return title.replace("(UTC)", f"({chosen.style.heading})")
