"""The dashboard's application: it wires the parts together and owns what lives as long as it does."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass

from textual import work
from textual.app import App, SystemCommand
from textual.screen import Screen

from ledger_tui.client.api import Api
from ledger_tui.client.errors import ClientError
from ledger_tui.client.lists import fetch_page
from ledger_tui.commands import DashboardCommands
from ledger_tui.embedded import EmbeddedServer, ServerDied
from ledger_tui.hearing import hears
from ledger_tui.messages import NamesCame, ServerFailed, SessionChanged
from ledger_tui.screens.dashboard import Dashboard
from ledger_tui.state.names import AccountNames
from ledger_tui.state.session import Session
from ledger_tui.state.text import literal
from ledger_tui.state.traffic import Traffic
from ledger_tui.state.window import Want
from ledger_tui.styles import DEFAULT_THEME, THEMES


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line chose. Without a `url` the dashboard runs a server of its own."""

    url: str | None = None
    key: str | None = None
    database: str | None = None
    demo: bool = False
    read_only: bool = False


class LedgerApp(App[int]):
    """Accounts and transactions of one ledger server, in a terminal."""

    TITLE = "Ledger"
    CSS_PATH = "styles/app.tcss"
    COMMANDS = App.COMMANDS | {DashboardCommands}
    ENABLE_COMMAND_PALETTE = True

    def __init__(self, options: Options) -> None:
        super().__init__()
        self.options = options
        self.session = Session(read_only=options.read_only)
        self.traffic = Traffic()
        self.names = AccountNames()
        self.api = Api(self.session, self.traffic)
        self.failure = ""
        self._server: EmbeddedServer | None = None
        for theme in THEMES:
            self.register_theme(theme)
        self.theme = DEFAULT_THEME

    def get_default_screen(self) -> Dashboard:
        return Dashboard(self.api, self.session, self.names)

    @property
    def dashboard(self) -> Dashboard:
        """The screen under whatever dialog is open."""
        screen = self.screen_stack[0]
        assert isinstance(screen, Dashboard)
        return screen

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """Of Textual's own commands only the themes: the rest is ours, made from the bindings."""
        for command in super().get_system_commands(screen):
            if command.title == "Theme":
                yield command

    def on_mount(self) -> None:
        self.session.on_change = self._tell_session_changed
        # The picture first: nothing waits for a server before there is something to look at.
        self.call_after_refresh(self._connect)

    def _tell_session_changed(self) -> None:
        self.post_message(SessionChanged())

    @work(group="connect", exit_on_error=False)
    async def _connect(self) -> None:
        if self.options.url is not None:
            await self.api.open(self.options.url, self.options.key)
        else:
            self.session.starting()
            self._server = EmbeddedServer(self.options.database, demo=self.options.demo)
            try:
                address = await asyncio.to_thread(self._server.start)
            except (ServerDied, OSError) as error:
                self.post_message(ServerFailed(f"The server did not start: {error}"))
                return
            await self.api.open(address.url, address.key)
        await self._learn_names()

    async def _learn_names(self) -> None:
        """The newest accounts, so that the first transactions have their names and currencies at once."""
        try:
            page = await fetch_page(self.api, "/v1/accounts", "starting_after", {}, Want(0, "page", 0, None))
        except ClientError:
            return
        self.names.learn(page.rows)
        self.post_message(NamesCame())

    @hears(ServerFailed)
    def server_failed(self, message: ServerFailed) -> None:
        self.failure = literal(message.sentence)
        self.exit(1, return_code=1)

    @hears(SessionChanged)
    def session_changed(self) -> None:
        self.dashboard.session_changed()

    @hears(NamesCame)
    def names_came(self) -> None:
        self.dashboard.names_came()

    async def on_unmount(self) -> None:
        self.session.on_change = lambda: None
        await self.api.close()
        if self._server is not None:
            await asyncio.to_thread(self._server.stop)
