"""Message handlers that do nothing once the dashboard is closing.

While Textual removes the screens it still delivers pending messages, to widgets whose children are gone.
`handles` is Textual's `on` without those.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

from textual import on
from textual.message import Message
from textual.message_pump import MessagePump

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
