"""Shows one screen in an application of its own, without a server."""

from __future__ import annotations

from textual.app import App, ComposeResult
from textual.message import Message
from textual.notifications import Notify
from textual.pilot import Pilot

from ledger_tui.client.api import Api
from ledger_tui.client.names import AccountNames
from ledger_tui.client.session import Session
from ledger_tui.client.tokens import TokenManager
from ledger_tui.client.traffic import Traffic
from ledger_tui.ui.styles import THEMES
from ledger_tui.ui.view import Context, View


def unconnected(*, read_only: bool = False) -> Context:
    """Return the context for a screen, before there is a connection."""
    session, traffic = Session(read_only=read_only), Traffic()
    api = Api(session, traffic)
    return Context(api, session, AccountNames(), traffic, TokenManager(api))


class Alone(App[None]):
    """Shows a screen without data, and records its messages to the dashboard."""

    def __init__(self, view: View) -> None:
        super().__init__()
        for theme in THEMES:
            self.register_theme(theme)
        self.theme = THEMES[0].name
        self.view = view
        self.said: list[Message] = []

    def compose(self) -> ComposeResult:
        yield self.view

    async def _on_message(self, message: Message) -> None:
        self.said.append(message)
        await super()._on_message(message)

    def those_said(self, *kinds: type[Message]) -> list[Message]:
        """Return the messages of these kinds."""
        return [each for each in self.said if isinstance(each, kinds)]

    async def sentences(self, pilot: Pilot[None]) -> list[str]:
        """Return the notifications that the user got."""
        await pilot.pause()
        return [each.notification.message for each in self.said if isinstance(each, Notify)]
