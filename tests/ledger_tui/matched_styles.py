"""Caches the styles that Textual found for a widget, for all widgets of that kind in any application."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from textual.app import App
from textual.css.styles import RenderStyles
from textual.css.stylesheet import Stylesheet
from textual.dom import DOMNode
from textual.screen import Screen

# Of a style sheet and a path from the application to a node: whether the mouse over the node changes its
# styles, the styles, None where no rule has any, and these as a new node keeps them; None in all if they also
# depend on the nodes beside it.
_Found = tuple[bool, Any, Any] | None
_Parts = dict[str, Any]  # by component class: the rules of its styles


def match_styles_once() -> None:
    """Match the rules of a style sheet once with each path of widgets that differs in what rules select by.

    Matching takes a tenth of the CPU time of opening a dashboard. What a new widget gets by it is copied, and
    the styles of component classes stay while their rules do and are made when they are read: this is a fifth
    of the CPU time of its tests.
    """
    match = Stylesheet.apply
    match_parts = Stylesheet._process_component_classes
    replace = Stylesheet.replace_rules
    known: dict[tuple[Any, ...], _Found] = {}
    replaced: dict[DOMNode, Any] = {}  # the styles found so far for the nodes that are being matched
    sheets: dict[tuple[int, ...], int] = {}
    parts: dict[tuple[Any, ...], _Parts] = {}

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

    def style_parts(sheet: Stylesheet, node: DOMNode, path: tuple[Any, ...]) -> None:
        """Give a widget the styles of its component classes."""
        if not node._get_component_classes():
            return
        if path in parts:
            _set_parts(node, parts[path])
            return
        sheet._process_component_classes(node)
        keep_parts(node, path)

    def match_and_set_parts(sheet: Stylesheet, node: DOMNode) -> None:
        if isinstance(node._component_styles, _PartStyles):
            node._component_styles = dict(node._component_styles)
        match_parts(sheet, node)

    def keep_parts(node: DOMNode, path: tuple[Any, ...]) -> None:
        """Keep the rules of the styles that were just found for a widget's component classes."""
        styles = node._component_styles
        if styles and not any(each.node is None or _depends_on_others(each.node) for each in styles.values()):
            parts[path] = {name: dict(each.base.get_rules()) for name, each in styles.items()}

    def apply(sheet: Stylesheet, node: DOMNode, *, animate: bool = False, cache: Any = None) -> None:
        path = (number_of(sheet), *_path_to(node, {} if cache is None else cache.setdefault("paths", {})))
        found = known.get(path)
        if found is not None:
            node._has_hover_style, rules, as_set = found
            node._has_focus_within = node._has_order_style = node._has_odd_or_even = False
            base = node.styles.base
            if as_set is not None and not (animate or base._rules or node._is_mounted):
                base._rules.update(as_set)
                base._updates += 1
                node.notify_style_update()
            elif rules is not None:
                replace(node, rules, animate=animate)
            style_parts(sheet, node, path)
            return
        match(sheet, node, animate=animate, cache=cache)
        keep_parts(node, path)
        rules = replaced.pop(node, None)
        if path not in known:
            as_set = None if rules is None or animate else node.styles.base.get_rules().copy()
            known[path] = None if _depends_on_others(node) else (node._has_hover_style, rules, as_set)

    Stylesheet.replace_rules = staticmethod(note_and_replace)  # type: ignore[assignment]
    Stylesheet.apply = apply  # type: ignore[method-assign]
    Stylesheet._process_component_classes = match_and_set_parts  # type: ignore[assignment,method-assign]


def _depends_on_others(node: DOMNode) -> bool:
    """Whether the styles that were just matched depend on the nodes beside this one or in it."""
    return node._has_focus_within or node._has_order_style or node._has_odd_or_even


class _PartStyles(Mapping[str, RenderStyles]):
    """The styles of a widget's component classes, each made with its node when it is first read: few are."""

    def __init__(self, node: DOMNode, parts: _Parts) -> None:
        self._node = node
        self._made: dict[str, RenderStyles] = {}
        self.parts = parts

    def __getitem__(self, name: str) -> RenderStyles:
        if name not in self._made:
            rules = self.parts[name]
            part = DOMNode(classes=name)
            part._attach(self._node)
            part.styles.base._rules.update(rules)
            self._made[name] = part.styles
        return self._made[name]

    def __contains__(self, name: object) -> bool:
        return name in self.parts

    def __iter__(self) -> Iterator[str]:
        return iter(self.parts)

    def __len__(self) -> int:
        return len(self.parts)

    def clear(self) -> None:
        self.parts = {}
        self._made = {}


def _set_parts(node: DOMNode, parts: _Parts) -> None:
    """Do what `Stylesheet._process_component_classes` does, with the rules that it found before."""
    old = node._component_styles
    if isinstance(old, _PartStyles):
        same = old.parts == parts
    else:
        same = parts == {name: each.base.get_rules() for name, each in old.items()}
    if not same:
        node._component_styles = _PartStyles(node, parts)  # type: ignore[assignment]
        node.refresh()  # type: ignore[attr-defined]


def _path_to(node: DOMNode, paths: dict[DOMNode, tuple[Any, ...]]) -> tuple[Any, ...]:
    """Return the properties that rules select by, for each node from the application to this node; paths
    to ancestors are cached.
    """
    parent = node._parent
    if not isinstance(parent, DOMNode):
        return (_selected_by(node),)
    if parent not in paths:
        paths[parent] = _path_to(parent, paths)
    return (*paths[parent], _selected_by(node))


def _selected_by(node: DOMNode) -> tuple[Any, ...]:
    """Return the properties by which the rules of a style sheet select a node."""
    pseudo_classes: Any = node._pseudo_classes_cache_key
    if isinstance(node, App | Screen):  # they have more than their key says
        pseudo_classes = frozenset(node.pseudo_classes)
    return type(node), node._id, node.classes, pseudo_classes
