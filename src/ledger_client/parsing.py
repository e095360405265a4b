"""The JSON of servers that are not trusted. It needs no httpx, which takes a tenth of a second to import."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

VALUES_MAX = 4_000_000  # each takes up to 100 bytes of memory, and 3 of the text
DEPTH_MAX = 100  # so that whoever walks through it, or writes it again, does not recurse too deeply


def parsed(text: bytes | str, *, number: Callable[[str], Any] | None = None) -> Any:
    """Return the value of a JSON text; `number` makes the values of its numbers, instead of int and float.

    Raises ValueError for what is not JSON, is nested too deeply, or has so many values that it would take
    many times the memory of its text.
    """
    if isinstance(text, str):
        text = text.encode("utf-8", "surrogatepass")
    containers = text.count(b"[") + text.count(b"{")
    if containers + text.count(b",") > VALUES_MAX:
        raise ValueError("too many values")
    try:
        found = json.loads(text, parse_int=number, parse_float=number, parse_constant=number)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if containers > DEPTH_MAX:
        _require_shallow(found)
    return found


def _require_shallow(found: Any) -> None:
    level = [found]
    for _ in range(DEPTH_MAX):
        level = [
            inner
            for each in level
            if isinstance(each, dict | list)
            for inner in (each.values() if isinstance(each, dict) else each)
        ]
        if not level:
            return
    raise ValueError("nested too deeply")
