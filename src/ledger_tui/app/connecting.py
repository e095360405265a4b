"""Connects the application to its server: opens the connection, signs in, restarts the server, and reads the
first data.
"""

from __future__ import annotations

from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from textual.app import App
from textual.message import Message

from ledger_client.errors import LedgerError
from ledger_tui.client.api import Api
from ledger_tui.client.lists import fetch_page
from ledger_tui.client.names import AccountNames
from ledger_tui.client.records import Want
from ledger_tui.client.session import Mode, Session
from ledger_tui.features.test_helpers import PART, ROOT
from ledger_tui.formats.text import literal
from ledger_tui.server.connection import CannotConnect, ServerConnection, SignInNeeded
from ledger_tui.settings.config import BadConfig, Profile
from ledger_tui.ui.view import NamesLoaded

if TYPE_CHECKING:
    from ledger_tui.client.oauth import OAuthTokenManager
    from ledger_tui.client.tokens import TokenPair


class SessionChanged(Message):
    """The connection, the mode or the rate limit has changed."""


@dataclass
class ServerFailed(Message):
    """No server can be used, so the dashboard ends; `sentence` gives the reason."""

    sentence: str


class SignInRequested(Message):
    """The user has to sign in first, because the profile has no token to send."""


@dataclass
class ServerEnded(Message):
    """The dashboard's own server has ended; `sentence` is its last line of output."""

    sentence: str


@dataclass
class ProfileSaved(Message):
    """The connection was saved as a profile; `sentence` names the file."""

    profile: Profile
    sentence: str


class Connecting:
    """Connects to the server in workers of the application, and posts the results as messages."""

    def __init__(
        self,
        app: App[Any],
        connection: ServerConnection,
        api: Api,
        session: Session,
        names: AccountNames,
        config_notice: str,
    ) -> None:
        self._app = app
        self._connection = connection
        self._api = api
        self._session = session
        self._names = names
        self._config_notice = config_notice

    def _work(self, group: str, work: Coroutine[Any, Any, None]) -> None:
        """Start a worker in a group; cancel the group's former worker if it still runs."""
        self._app.run_worker(work, group=group, exclusive=True, exit_on_error=False)

    # ------------------------------------------------------------------ the server

    def connect(self) -> None:
        """Connect, or ask to sign in, and read the data of the first screen."""
        self._work("connect", self._connect())

    async def _connect(self) -> None:
        try:
            await self._connection.open()
        except SignInNeeded:
            self._app.post_message(SignInRequested())
            return
        except CannotConnect as error:
            self._app.post_message(ServerFailed(str(error)))
            return
        if self._connection.own_server:
            self._work("server", self._watch_server())
        await self._ready()

    async def _ready(self) -> None:
        """Read what the first screen needs, show the notices, and read how far the ledger's clock was
        moved.
        """
        await self._learn_names()
        await self._learn_scopes()
        await self._show_notices()
        await self._learn_clock()

    async def _watch_server(self) -> None:
        sentence = await self._connection.wait_for_server_end()
        if sentence is not None:
            self._app.post_message(ServerEnded(sentence))

    async def _learn_names(self) -> None:
        """Read the newest accounts, so that the first transactions show names and currencies at once."""
        want = Want(0, "page", 0, None)
        try:
            page = await fetch_page(self._api, "/v1/accounts", {}, want)
        except LedgerError:
            return
        self._names.learn(page.rows)
        self._names.all_known = page.older is None
        self._app.post_message(NamesLoaded())

    async def _learn_scopes(self) -> None:
        """Read the credential's scopes, if the server reports them, to learn whether the credential may
        change anything.
        """
        with suppress(LedgerError):
            whoami = await self._api.read("/v1/whoami", part="whoami")
            self._session.saw_scopes(whoami.record.get("scopes"))

    async def _show_notices(self) -> None:
        """Show the notice about the config file and the notice in the server's health, if there are any."""
        notices = [self._config_notice] if self._config_notice else []
        with suppress(LedgerError):
            health = (await self._api.read("/api/health")).record
            if isinstance(notice := health.get("notice"), str):
                notices.append(notice)
        if notices:
            self._app.notify(literal(" ".join(notices)), severity="warning", markup=False)

    async def _learn_clock(self) -> None:
        """Read how far test helpers have moved the ledger's clock, if the server offers them to this key."""
        if PART not in self._session.missing_parts and self._session.mode is Mode.TEST:
            with suppress(LedgerError):
                self._session.saw_clock((await self._api.read(f"{ROOT}/clock")).record.get("offset_ms"))

    def repair(self, endpoint: str) -> None:
        """Make a receiver of the demo accept webhooks again."""
        self._work("repair", self._repair(endpoint))

    async def _repair(self, endpoint: str) -> None:
        from ledger_tui.client.stream import repair

        try:
            url = await repair(self._api, endpoint)
        except LedgerError as error:
            self._app.notify(
                f"Could not repair the receiver: {literal(error)}", severity="error", markup=False
            )
        else:
            self._app.notify(
                f"Repaired {literal(url)}. New events arrive; s sends a failed one again.", markup=False
            )

    # ------------------------------------------------------------------ signing in

    def sign_in(self, manager: OAuthTokenManager) -> None:
        """Open the dialog that signs in through the browser."""
        from ledger_tui.features.token import SignInScreen

        self._app.push_screen(SignInScreen(manager.app), self._sign_in_closed)

    def _sign_in_closed(self, answer: TokenPair | None) -> None:
        if answer is not None:
            self._work("connect", self._use_sign_in(answer))

    async def _use_sign_in(self, answer: TokenPair) -> None:
        try:
            await self._connection.accept_sign_in(answer)
        except LedgerError as error:
            self._app.notify(f"Could not sign in: {literal(error)}", severity="error", markup=False)
            return
        await self._ready()

    # ------------------------------------------------------------------ saving the connection

    def save(self, name: str, profile: Profile | None) -> None:
        """Save the current server and key as the profile `name`.

        `profile` is the profile in use, if any; the new profile gets a copy of its settings.
        """

        def save_off_the_loop() -> None:
            from ledger_tui.settings.saved import save_connection

            app = self._app
            try:
                profile_saved, sentence = save_connection(
                    name, self._session.url, profile, self._connection.token_manager.key
                )
            except (BadConfig, OSError) as error:
                app.call_from_thread(
                    app.notify, f"Not saved: {literal(error)}", severity="error", markup=False
                )
            else:
                app.post_message(ProfileSaved(profile_saved, sentence))

        self._app.run_worker(
            save_off_the_loop, group="save", exclusive=True, thread=True, exit_on_error=False
        )
