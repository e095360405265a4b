"""The styles that Textual found for a widget, kept for each widget of that kind in any application."""

from __future__ import annotations

from typing import Any

from textual.app import App
from textual.css.stylesheet import Stylesheet
from textual.dom import DOMNode
from textual.screen import Screen

# Of a style sheet and a path from the application to a node: whether the mouse over the node changes its
# styles, and the styles, None where no rule has any; None in all if they also depend on the nodes beside it.
_Found = tuple[bool, Any] | None


def match_styles_once() -> None:
    """Match the rules of a style sheet once with each path of widgets that differs in what rules select by.

    That takes a tenth of the CPU time of opening a dashboard.
    """
    match = Stylesheet.apply
    replace = Stylesheet.replace_rules
    known: dict[tuple[Any, ...], _Found] = {}
    replaced: dict[DOMNode, Any] = {}  # the styles that were found for nodes being matched
    sheets: dict[tuple[int, ...], int] = {}

    def note_and_replace(node: DOMNode, rules: Any, animate: bool = False) -> None:
        replaced[node] = rules
        replace(node, rules, animate=animate)

    def number_of(sheet: Stylesheet) -> int:
        """Return the same number for sheets with the same rules, which are parsed once and never freed."""
        rules, number = getattr(sheet, "_numbered", (None, 0))
        if rules is not sheet.rules:
            number = sheets.setdefault(tuple(map(id, sheet.rules)), len(sheets))
            sheet._numbered = (sheet.rules, number)  # type: ignore[attr-defined]
        return number

    def apply(sheet: Stylesheet, node: DOMNode, *, animate: bool = False, cache: Any = None) -> None:
        path = (number_of(sheet), *map(_selected_by, node.css_path_nodes))
        found = known.get(path)
        if found is not None:
            node._has_hover_style, rules = found
            node._has_focus_within = node._has_order_style = node._has_odd_or_even = False
            if rules is not None:
                replace(node, rules, animate=animate)
            sheet._process_component_classes(node)
            return
        match(sheet, node, animate=animate, cache=cache)
        rules = replaced.pop(node, None)
        if path not in known:
            by_others = node._has_focus_within or node._has_order_style or node._has_odd_or_even
            known[path] = None if by_others else (node._has_hover_style, rules)

    Stylesheet.replace_rules = staticmethod(note_and_replace)  # type: ignore[assignment]
    Stylesheet.apply = apply  # type: ignore[method-assign]


def _selected_by(node: DOMNode) -> tuple[Any, ...]:
    """Return what the rules of a style sheet select a node by."""
    pseudo_classes: Any = node._pseudo_classes_cache_key
    if isinstance(node, App | Screen):  # they have more than their key says
        pseudo_classes = frozenset(node.pseudo_classes)
    return type(node), node._id, node.classes, pseudo_classes
