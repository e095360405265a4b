"""Handlers that fall silent when the dashboard closes.

While Textual takes the screens down, messages that were already on their way are still handed out, to
parts whose children are gone. `handles` is Textual's `on` without those last words.
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
    """The method, doing nothing once the application is closing."""

    @wraps(method)
    def unless_closing(self: MessagePump, *arguments: Any) -> Any:
        return method(self, *arguments) if self.app.is_running else None

    return cast(Handler, unless_closing)


def handles(message: type[Message]) -> Callable[[Handler], Handler]:
    """Handle a message, as `textual.on` does, for as long as the application runs."""

    def decorate(method: Handler) -> Handler:
        return on(message)(while_running(method))

    return decorate
