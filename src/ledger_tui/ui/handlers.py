"""Decorators for message handlers and workers, and a queue that handles keys in order.

While Textual removes the screens, it still delivers pending messages to widgets whose children are gone.
`handles` does the same as Textual's `on`, but ignores such messages. `asks` does the same as Textual's
`work`, but reports an unexpected error to the widget.

`KeyOrder` dispatches a key when the effects of the previous key are complete. Textual alone sends a key to
the focused widget; from there the key bubbles up to the application, and only then does Textual look up its
binding. A slow connection delivers several keys in one read. Textual would send them all to the focused
widget, even if the first key opens a form and the user typed the other keys for that form.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from textual import events, on, work
from textual.app import App
from textual.dom import DOMNode
from textual.message import Message
from textual.message_pump import MessagePump
from textual.worker import Worker

from ledger_tui.ui.layer import Layer

P = ParamSpec("P")
Node = TypeVar("Node", bound=DOMNode)
Handler = TypeVar("Handler", bound=Callable[..., Any])


def while_running(method: Handler) -> Handler:
    """Decorate a method to do nothing once the application is closing."""

    @wraps(method)
    def unless_closing(self: MessagePump, *arguments: Any) -> Any:
        return method(self, *arguments) if self.app.is_running else None

    return cast(Handler, unless_closing)


def handles(message: type[Message]) -> Callable[[Handler], Handler]:
    """Register a message handler, as `textual.on` does, that runs only while the application runs."""

    def decorate(method: Handler) -> Handler:
        return on(message)(while_running(method))

    return decorate


@dataclass
class WorkerFailed(Message):
    """A worker of the group `group` ended with an unexpected error, which is a bug in the dashboard."""

    error: Exception
    group: str


Asking = Callable[Concatenate[Node, P], Coroutine[Any, Any, None]]
Starting = Callable[Concatenate[Node, P], Worker[None]]


def asks(group: str, *, exclusive: bool = True) -> Callable[[Asking[Node, P]], Starting[Node, P]]:
    """Make an async method a worker. An `exclusive` worker cancels the running worker of its group.

    The method sends requests and touches no widget: it passes the answer to another method with `call_later`.
    An unexpected error bubbles up from the widget as `WorkerFailed`.
    """

    def decorate(method: Asking[Node, P]) -> Starting[Node, P]:
        @wraps(method)
        async def asking(self: Node, *arguments: P.args, **keywords: P.kwargs) -> None:
            try:
                await method(self, *arguments, **keywords)
            except Exception as error:
                self.post_message(WorkerFailed(error, group))

        start_worker = work(group=group, exclusive=exclusive, exit_on_error=False)(asking)
        return cast(Starting[Node, P], start_worker)

    return decorate


# A widget that hangs must not lock the keyboard. So after a key `KeyOrder` waits at most 20 beats, and then
# dispatches the next key. A beat takes 0.1 s, and counts only if its timer is not late. A fixed deadline
# would be wrong: on a busy machine the whole dashboard can stand still for seconds although no widget hangs.
_BEATS = 20
_BEAT_SECONDS = 0.1
# If a key answers a question, and the same key comes again within this time, `KeyOrder` drops it. A terminal
# repeats a key that is held down after about half a second; a user who first reads the next screen is slower.
_REPEAT_SECONDS = 1.0
_JOINERS = ("\u200d", "\u200c")


def _joiner_as_text(event: events.Event) -> events.Event:
    """Return the key of a character that joins the parts of an emoji as pasted text, because Textual's fields
    ignore such a key. Return any other event as it is.
    """
    if isinstance(event, events.Key) and event.character is not None and event.character in _JOINERS:
        return events.Paste(event.character)
    return event


class KeyOrder:
    """A queue of keys. It hands a key to the application, with `dispatch`, when the previous key is complete.

    To find out whether a key is complete, a callback passes from the focused widget through its ancestors up
    to the application. Each of these widgets runs the callback after the messages that were already in its
    queue. At the end, the key is complete if the queues of all these widgets are empty, and if the screen and
    the focus are still the same. Otherwise, and always after the first pass, the callback starts again.
    """

    def __init__(self, app: App[Any], dispatch: Callable[[events.Event], Awaitable[None]]) -> None:
        self._app = app
        self._dispatch = dispatch
        self._waiting: deque[events.Event] = deque()
        self._is_complete = True  # whether the last key that was dispatched is complete
        self._keys = 0  # the number of keys dispatched
        self._path_followed: tuple[MessagePump, ...] = ()  # the widgets that the current callback passes
        self._rounds = 0  # how often the callback of the current key has passed all these widgets
        # The question that was open when the last key was dispatched, and this key; None without a question.
        self._answer: tuple[Layer[Any], events.Key] | None = None

    @property
    def all_done(self) -> bool:
        """Whether all keys that the user has pressed have taken effect."""
        return self._is_complete

    async def take(self, event: events.Event) -> None:
        """Queue a key or pasted text, and dispatch it when all earlier keys are complete."""
        self._waiting.append(_joiner_as_text(event))
        if self._is_complete:
            await self._next()
        elif len(self._waiting) == 1:
            self._count_beats(self._keys, _BEATS)

    def _count_beats(self, key: int, left: int) -> None:
        """Dispatch the next key if key number `key` is still incomplete after `left` more beats.

        A late beat of the event loop does not count, because the loop or the machine was busy.
        """
        if key != self._keys or self._is_complete:
            return
        if left == 0:
            self._app.call_later(self._give_up, key)
            return
        loop = asyncio.get_running_loop()
        due = loop.time() + _BEAT_SECONDS

        def beat() -> None:
            is_late = loop.time() - due > _BEAT_SECONDS
            self._count_beats(key, left if is_late else left - 1)

        loop.call_at(due, beat)

    async def _give_up(self, key: int) -> None:
        """Dispatch the next key, although key number `key` is incomplete."""
        if key == self._keys and self._waiting:
            await self._next()

    async def _next(self) -> None:
        self._is_complete = False
        self._keys += 1
        self._rounds = 0
        event = self._waiting.popleft()
        if not self._repeats_answer(event) and not self._answers_too_early(event):
            await self._dispatch(event)
        self._follow()
        if self._waiting:
            self._count_beats(self._keys, _BEATS)

    def _repeats_answer(self, event: events.Event) -> bool:
        """Return whether this key has just closed a question, and is held down or was pressed again."""
        if not isinstance(event, events.Key):
            return False
        screens = self._app.screen_stack
        if self._answer is not None:
            question, answer = self._answer
            is_same = event.key == answer.key and (event.is_printable or event.key == "enter")
            if is_same and question not in screens and event.time - answer.time < _REPEAT_SECONDS:
                self._answer = question, event
                return True
        top = screens[-1] if screens else None
        self._answer = (top, event) if isinstance(top, Layer) and top.is_question else None
        return False

    def _answers_too_early(self, event: events.Event) -> bool:
        """Return whether this key or text confirms a question that was not drawn when the user entered it."""
        screens = self._app.screen_stack
        top = screens[-1] if screens else None
        if not (isinstance(event, events.Key | events.Paste) and isinstance(top, Layer)):
            return False
        if not top.is_too_early(event):
            return False
        top.drop_early()
        return True

    def _follow(self) -> None:
        self._path_followed = self._path()
        self._go(self._path_followed, 0)

    def _path(self) -> tuple[MessagePump, ...]:
        """Return the focused widget and its ancestors; the application is the last."""
        screens = self._app.screen_stack
        parts = (screens[-1].focused or screens[-1]).ancestors_with_self if screens else ()
        return (*(part for part in parts if part is not self._app), self._app)

    def _go(self, path: tuple[MessagePump, ...], at: int) -> None:
        """Schedule the callback on the first widget of the path, from position `at` on, that still runs."""
        for number in range(at, len(path)):
            if path[number].call_later(
                self._go if number + 1 < len(path) else self._returned, path, number + 1
            ):
                return

    async def _returned(self, path: tuple[MessagePump, ...], _at: int) -> None:
        # This callback follows an old path: its key took too long, and a later key has been dispatched since.
        if path is not self._path_followed:
            return
        self._rounds += 1
        # One pass is never enough: the application, at the end of the path, may have posted a message that a
        # widget at the beginning of the path has not handled yet.
        if self._rounds == 1 or path != self._path() or any(part.message_queue_size for part in path):
            self._follow()
        elif self._waiting:
            await self._next()
        else:
            self._is_complete = True
