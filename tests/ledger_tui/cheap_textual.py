"""Makes Textual cheap in tests: it leaves out work that no test can see, and does other work only once in
a process.

With `--whole-textual` the tests run on the unchanged Textual; `make soak` does this once.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from types import FunctionType, MethodType
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

from textual import _callback, message_pump
from textual._compositor import Compositor
from textual._context import visible_screen_stack
from textual.app import App
from textual.css.model import RuleSet
from textual.css.stylesheet import Stylesheet
from textual.message import Message
from textual.message_pump import MessagePump
from textual.pilot import Pilot, WaitForScreenTimeout
from textual.screen import Screen
from textual.strip import Strip

from tests.ledger_tui.matched_styles import match_styles_once

Handler = tuple[type, Callable[..., Any]]
PATIENCE_SECONDS = 60.0  # beyond this it will not come


def make_textual_cheap() -> None:
    """Make every application of this process cheap."""
    _parse_styles_once()
    match_styles_once()
    _draw_when_read()
    _find_handlers_once()
    _count_parameters_by_code()
    _wait_without_messages()
    message_pump.log = _NoLog()  # type: ignore[assignment]


def count_frames() -> None:
    """Change nothing in Textual, but count its frames for `strips_on_screen`."""
    update = Compositor.render_update

    def render_update(compositor: Compositor, *args: Any, **named: Any) -> Any:
        _Drawn.frames += 1
        return update(compositor, *args, **named)

    Compositor.render_update = render_update  # type: ignore[method-assign]


def strips_on_screen(app: App[Any], *, in_terminal: bool = False) -> list[Strip]:
    """Return the lines of the top screen, drawn again if it has changed.

    With `in_terminal`, return the lines of the last frame that a terminal would have got.
    """
    shown = [*app._background_screens, app.screen]
    drawn = _Drawn.of.get(app)
    key = (_Drawn.frames, app.size, *map(id, shown))
    if drawn is None or drawn.key != key or (not in_terminal and any(map(is_changing, shown))):
        visible_screen_stack.set(app._background_screens)
        drawn = _Drawn.of[app] = _Drawn(key, app.screen._compositor.render_strips())
    return drawn.strips


class _Drawn:
    """The last drawing of an application."""

    of: ClassVar[WeakKeyDictionary[App[Any], _Drawn]] = WeakKeyDictionary()
    frames: ClassVar[int] = 0  # how many frames the terminals of all applications would have got

    def __init__(self, key: tuple[object, ...], strips: list[Strip]) -> None:
        self.key = key
        self.strips = strips


def is_changing(screen: Screen[Any]) -> bool:
    """Whether a part of a screen must be drawn again."""
    return bool(
        screen._dirty_widgets
        or screen._layout_required
        or screen._scroll_required
        or screen.message_queue_size
        or screen._compositor._dirty_regions
        or any(
            each._repaint_required or each._layout_required or each._recompose_required
            for each in screen._compositor.visible_widgets
        )
    )


def _parse_styles_once() -> None:
    """Keep the rules of each style sheet.

    They depend only on the sheet's text and the theme's variables, and parsing them is a tenth of the cost of
    opening a dashboard.
    """
    parse: Callable[..., list[RuleSet]] = Stylesheet._parse_rules
    parsed: dict[Any, list[RuleSet]] = {}

    def look_up_rules(sheet: Stylesheet, css: str, *args: Any, **named: Any) -> list[RuleSet]:
        key = (css, args, *sorted(named.items()), *sheet._variables.items())
        if key not in parsed:
            parsed[key] = parse(sheet, css, *args, **named)
        return parsed[key]

    Stylesheet._parse_rules = look_up_rules  # type: ignore[method-assign]
    # What Textual's own method in Python gives, a million times in a second of CPU time.
    RuleSet.__hash__ = object.__hash__  # type: ignore[method-assign]


def _draw_when_read() -> None:
    """Leave out the frames for the terminal: an application without a terminal draws them and throws them
    away, which is a quarter of the cost of a test.

    Instead, the screen is drawn when a test reads it after a frame, and when a fixture closes its dashboard,
    so a widget that cannot be drawn still fails the test.
    """

    def pass_over(compositor: Compositor, *_args: Any, **_named: Any) -> None:
        compositor._dirty_regions.clear()
        _Drawn.frames += 1

    Compositor.render_update = pass_over  # type: ignore[method-assign]


def _find_handlers_once() -> None:
    """Remember a class's handlers for each message; for most messages a class defines no handler."""
    find: Callable[..., Iterable[Handler]] = MessagePump._get_dispatch_methods
    found: dict[tuple[type, type, str], list[Handler] | None] = {}

    def look_up_handlers(pump: MessagePump, name: str, message: Message) -> Iterable[Handler]:
        key = (type(pump), type(message), name)
        if key not in found:
            found[key] = _handlers(*key)
        handlers = found[key]
        if handlers is None:
            return find(pump, name, message)
        return _in_turn(handlers, pump, message) if handlers else ()

    MessagePump._get_dispatch_methods = look_up_handlers  # type: ignore[assignment]


def _in_turn(handlers: list[Handler], pump: MessagePump, message: Message) -> Iterator[Handler]:
    for each, method in handlers:
        if message._no_default_action:
            break
        yield each, method.__get__(pump, each)


def _handlers(pump: type, message: type, name: str) -> list[Handler] | None:
    """Return the handlers in the order in which Textual calls them, None if a selector chooses among them."""
    handlers: list[Handler] = []
    for each in pump.__mro__:
        decorated = each.__dict__.get("_decorated_handlers") or {}
        for method, selectors in chain.from_iterable(decorated.get(kind, ()) for kind in message.__mro__):
            if selectors:
                return None
            if all(method is not other for _class, other in handlers):
                handlers.append((each, method))
        named = each.__dict__.get(f"_{name}") or each.__dict__.get(name)
        if named is not None and not getattr(named, "_textual_on", None):
            handlers.append((each, named))
    return handlers


def _count_parameters_by_code() -> None:
    """Take the number of a function's parameters from its code, as Textual needs it before each call."""
    by_signature: Callable[[Callable[..., Any]], int] = _callback._count_parameters

    def count_parameters(function: Callable[..., Any]) -> int:
        if isinstance(function, MethodType):
            return count_parameters(function.__func__) - 1
        if not isinstance(function, FunctionType) or {"__wrapped__", "__signature__"} & vars(function).keys():
            return by_signature(function)
        code = function.__code__
        more = bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
        return code.co_argcount + code.co_kwonlyargcount + more

    _callback._count_parameters = count_parameters


def _wait_without_messages() -> None:
    """Let a pilot check directly whether all widgets are idle.

    Textual instead sends a callback to each widget of the screen and waits for all callbacks: for one key
    these are more messages than the key itself causes.
    """

    async def wait_for_screen(pilot: Pilot[Any], _timeout: float = 0) -> bool:
        app = pilot.app
        if not app._screen_stack:
            return False
        pumps = [app, *app.screen.walk_children(with_self=True)]
        deadline, pause = time.monotonic() + PATIENCE_SECONDS, 0.0
        passes = 0
        await asyncio.sleep(0)
        while not (failed := app._exception_event.is_set()) and not all(map(_is_idle, pumps)):
            if time.monotonic() > deadline:
                raise WaitForScreenTimeout([each for each in pumps if not _is_idle(each)])
            passes += 1
            if passes > 100:  # one of them waits for something outside
                pause = min(2 * pause + 0.001, 0.05)
            await asyncio.sleep(pause)
        return not failed

    Pilot._wait_for_screen = wait_for_screen  # type: ignore[method-assign]


def _is_idle(pump: MessagePump) -> bool:
    """Whether a widget has handled all its messages, or is closing."""
    received = pump._message_queue.ready_event
    return pump._closing or pump._closed or bool(not received.is_set() and received._waiters)


class _NoLog:
    """Replaces Textual's log, which makes three objects for each message and which nobody reads here."""

    def __getattr__(self, _name: str) -> _NoLog:
        return self

    def __call__(self, *_args: object, **_named: object) -> _NoLog:
        return self
