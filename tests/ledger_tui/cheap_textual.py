"""Make Textual cheap in tests: no work that no test can see, and none twice in a process."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from textual import message_pump
from textual._compositor import Compositor
from textual._context import visible_screen_stack
from textual.app import App
from textual.css.model import RuleSet
from textual.css.stylesheet import Stylesheet
from textual.message import Message
from textual.message_pump import MessagePump
from textual.strip import Strip


def make_textual_cheap() -> None:
    """Do so for every application of this process."""
    _parse_styles_once()
    _draw_when_read()
    _find_handlers_once()
    message_pump.log = _NoLog()  # type: ignore[assignment]


def strips_on_screen(app: App[Any]) -> list[Strip]:
    """Draw the screen that is on top, and return its lines."""
    visible_screen_stack.set(app._background_screens)
    return app.screen._compositor.render_strips()


def _parse_styles_once() -> None:
    """Keep the rules of each style sheet.

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


def _draw_when_read() -> None:
    """Leave out the frames for the terminal, which an application without a terminal draws and throws away.

    They are a quarter of the cost of a test. Instead, the screen is drawn whenever a test reads it, and once
    when a fixture closes its dashboard, so a widget that cannot be drawn still fails the test.
    """

    def pass_over(compositor: Compositor, *_args: Any, **_named: Any) -> None:
        compositor._dirty_regions.clear()

    Compositor.render_update = pass_over  # type: ignore[method-assign]


def _find_handlers_once() -> None:
    """Remember which messages a class has no handler for, which are most of those it gets."""
    find: Callable[..., Iterable[tuple[type, Callable[..., Any]]]] = MessagePump._get_dispatch_methods
    handled: dict[tuple[type, type, str], bool] = {}

    def look_up_handlers(
        pump: MessagePump, name: str, message: Message
    ) -> Iterable[tuple[type, Callable[..., Any]]]:
        key = (type(pump), type(message), name)
        if key not in handled:
            handled[key] = _has_handler(*key)
        return find(pump, name, message) if handled[key] else ()

    MessagePump._get_dispatch_methods = look_up_handlers  # type: ignore[assignment]


def _has_handler(pump: type, message: type, name: str) -> bool:
    return any(
        f"_{name}" in each.__dict__
        or name in each.__dict__
        or not set(message.__mro__).isdisjoint(each.__dict__.get("_decorated_handlers", ()))
        for each in pump.__mro__
    )


class _NoLog:
    """In place of Textual's log, which makes three objects for each message, and has no reader here."""

    def __getattr__(self, _name: str) -> _NoLog:
        return self

    def __call__(self, *_args: object, **_named: object) -> _NoLog:
        return self
