"""Reads JSON of servers that are not trusted. This module avoids httpx, whose import takes 0.1 seconds."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

VALUES_MAX = 4_000_000  # limits the memory: a value that takes 3 bytes of text can take 100 in memory
# a deeper value could exceed Python's recursion limit in functions that walk through it
DEPTH_MAX = 100


def parsed(text: bytes | str, *, number: Callable[[str], Any] | None = None) -> Any:
    """Return the value of a JSON text; `number` converts each number instead of int and float.

    Raises ValueError for text that is not JSON, is nested too deeply or contains too many values.
    """
    if isinstance(text, str):
        text = text.encode("utf-8", "surrogatepass")
    containers = text.count(b"[") + text.count(b"{")
    if containers + text.count(b",") > VALUES_MAX:
        raise ValueError("too many values")
    try:
        value = json.loads(text, parse_int=number, parse_float=number, parse_constant=number)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if containers > DEPTH_MAX:
        _require_shallow(value)
    return value


def _require_shallow(value: Any) -> None:
    level = [value]
    for _ in range(DEPTH_MAX):
        level = [
            inner
            for container in level
            if isinstance(container, dict | list)
            for inner in (container.values() if isinstance(container, dict) else container)
        ]
        if not level:
            return
    raise ValueError("nested too deeply")
