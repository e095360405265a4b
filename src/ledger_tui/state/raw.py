"""A record as it came over the wire, line by line, and the ids in it. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from ledger_tui.state.json_tree import DEEPEST
from ledger_tui.state.traffic import masked


def json_text(value: Any) -> str:
    """Return indented JSON with secrets masked; it is still JSON when copied."""
    if _is_too_deep(value):  # the indents take its depth squared, and not every Python has a limit of its own
        return "nested too deep to be shown"
    try:
        text = json.dumps(value, indent=2, ensure_ascii=False)
        text.encode()
    except UnicodeEncodeError:  # JSON allows a lone surrogate, but it cannot be encoded
        text = json.dumps(value, indent=2)
    return masked(text)


def _is_too_deep(value: Any) -> bool:
    level = [value]
    for _ in range(DEEPEST + 1):
        filled = [each for each in level if isinstance(each, dict | list) and each]
        if not filled:
            return False
        level = [inner for each in filled for inner in (each.values() if isinstance(each, dict) else each)]
    return True


class FoundId(NamedTuple):
    """An id in a record; `where` is its dotted path."""

    where: str
    record_id: str


def ids_in(value: Any, is_id: Callable[[str], bool], where: str = "") -> Iterator[FoundId]:
    """Yield every id in a record, in its order, each once, the record's own last."""
    seen: dict[str, FoundId] = {}
    for path, text in _texts(value, where):
        if is_id(text):
            seen.setdefault(text, FoundId(path, text))
    own = value.get("id") if isinstance(value, dict) else None
    yield from (found for found in seen.values() if found.record_id != own)
    if own in seen:
        yield seen[own]


def _texts(value: Any, where: str) -> Iterator[tuple[str, str]]:
    stack = [(where, value)]
    while stack:  # without recursion, because the server decides how deeply an answer is nested
        path, inner = stack.pop()
        if isinstance(inner, str):
            yield path, inner
        elif isinstance(inner, dict):
            stack.extend((f"{path}.{key}".lstrip("."), each) for key, each in reversed(inner.items()))
        elif isinstance(inner, list):
            stack.extend(
                (f"{path}.{number}".lstrip("."), each) for number, each in reversed([*enumerate(inner)])
            )
