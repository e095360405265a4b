"""Make Textual cheap in tests: parse each style sheet once in a process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from textual.css.model import RuleSet
from textual.css.stylesheet import Stylesheet


def parse_styles_once() -> None:
    """Keep the rules of each style sheet for every application of this process.

    They depend only on the sheet's text and the theme's variables, and parsing them is a tenth of the cost of
    opening a dashboard.
    """
    parse: Callable[..., list[RuleSet]] = Stylesheet._parse_rules
    parsed: dict[Any, list[RuleSet]] = {}

    def look_up_rules(sheet: Stylesheet, css: str, *args: Any, **named: Any) -> list[RuleSet]:
        key = (css, args, *sorted(named.items()), *sorted(sheet._variables.items()))
        if key not in parsed:
            parsed[key] = parse(sheet, css, *args, **named)
        return parsed[key]

    Stylesheet._parse_rules = look_up_rules  # type: ignore[method-assign]
