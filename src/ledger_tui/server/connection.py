"""Connects to the server that the options choose: the dashboard's own server, a URL, or a profile."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ledger_client.addresses import is_key
from ledger_client.errors import LedgerError, NotSent
from ledger_tui.client.api import Api
from ledger_tui.client.session import Session
from ledger_tui.client.tokens import TokenManager
from ledger_tui.settings.config import BadConfig, Options
from ledger_tui.settings.secret_store import Secrets, secret_store

if TYPE_CHECKING:
    from ledger_tui.client.oauth import OAuthTokenManager
    from ledger_tui.client.tokens import TokenPair
    from ledger_tui.server.embedded import EmbeddedServer

# If the dashboard's own server ends after it has run for at least this time, the dashboard restarts it
# without a question. If the server ends sooner, the dashboard shows how to restart it.
RESTART_AFTER_SECONDS = 20.0


class CannotConnect(Exception):
    """The dashboard cannot connect to a server; the message is a sentence with the reason."""


class SignInNeeded(Exception):
    """The profile's user has to sign in first."""


class ProfileTokenStore:
    """The tokens of one profile in the secret store. Implements `TokenStore` of `ledger_client.tokens`."""

    def __init__(self, profile: str) -> None:
        self._profile = profile

    def read(self) -> Secrets | None:
        with _store_failures():
            return secret_store().get(self._profile)

    def keep(self, pair: TokenPair, expires_at: float) -> None:
        tokens = {"access_token": pair.access_token, "refresh_token": pair.refresh_token}
        secrets = Secrets(**tokens, expires_at=expires_at)
        with _store_failures():
            secret_store().put(self._profile, secrets)

    def acquire_lock(self) -> contextlib.AbstractContextManager[object]:
        return secret_store().acquire_lock(self._profile)


@contextlib.contextmanager
def _store_failures() -> Iterator[None]:
    from ledger_tui.client.oauth import NotStored

    try:
        yield
    except (BadConfig, OSError) as error:
        raise NotStored(str(error)) from error


class ServerConnection:
    """A connection to a URL with a key, to a profile's server, or to a server of the dashboard's own."""

    def __init__(self, api: Api, session: Session, options: Options) -> None:
        self._api = api
        self._session = session
        self._options = options
        self._profile = profile = options.profile
        self._url = options.url or (profile.url if profile else None)
        self.server: EmbeddedServer | None = None
        self._started_at = 0.0
        # the token manager of a profile that signs in through the browser; None for any other connection
        self.signs_in: OAuthTokenManager | None = self._make_oauth_token_manager()
        self.token_manager = self.signs_in or TokenManager(api)
        if profile is not None:
            session.profile = profile.name

    def _make_oauth_token_manager(self) -> OAuthTokenManager | None:
        profile = self._profile
        if profile is None or profile.client_id is None:
            return None
        from ledger_tui.client.oauth import OAuthApp, OAuthTokenManager

        app = OAuthApp(profile.auth_url or profile.url, profile.client_id, profile.scope)
        return OAuthTokenManager(self._api, app, ProfileTokenStore(profile.name))

    @property
    def own_server(self) -> bool:
        """Whether the dashboard starts a server of its own."""
        return self._url is None

    @property
    def secrets(self) -> list[str]:
        """The secrets in use, which no crash report is allowed to contain."""
        pair = self.token_manager.tokens.pair
        tokens = (pair.access_token, pair.refresh_token) if pair else ()
        return [text for text in (self.token_manager.key, *tokens) if text]

    async def open(self) -> None:
        """Connect to the server. Raises CannotConnect or SignInNeeded."""
        try:
            if self._url is None:
                await self._start_server()
            elif self.signs_in is not None:
                await self._resume(self.signs_in, self._url)
            else:
                self.token_manager.key = await self._find_key()
                await self._api.open(self._url, self.token_manager.key)
        except NotSent as error:
            raise CannotConnect(str(error)) from None

    async def _start_server(self) -> None:
        from ledger_tui.server.embedded import EmbeddedServer, ServerDied

        self._session.starting()
        self.server = EmbeddedServer(self._options.database, demo=self._options.demo)
        loop = asyncio.get_running_loop()

        def loaded(share: float) -> None:
            loop.call_soon_threadsafe(self._session.starting, share)

        try:
            address = await asyncio.to_thread(self.server.start, loaded)
        except (ServerDied, OSError) as error:
            raise CannotConnect(f"The server did not start: {error}") from None
        self._started_at = time.monotonic()
        self.token_manager.key = address.key
        await self._api.open(address.url, address.key)

    async def _find_key(self) -> str:
        profile = self._profile
        if profile is None or self._options.key:  # a key from the command line replaces the profile's key
            return self._options.key or ""
        if profile.key.startswith("env:"):
            name = profile.key.removeprefix("env:")
            if not (value := os.environ.get(name)):
                raise CannotConnect(f"Profile {profile.name} takes its key from {name}, which is not set.")
            if not is_key(value):
                raise CannotConnect(f"The key in {name} contains an invalid character.")
            return value
        secrets = await self._read_secrets(profile.name)
        hint = f"run `ledger-tui profiles remove {profile.name}` and add the profile again"
        if secrets is None or secrets.api_key is None:
            raise CannotConnect(f"No key is stored for profile {profile.name}; {hint}.")
        if not is_key(secrets.api_key):
            raise CannotConnect(f"The key of profile {profile.name} contains an invalid character; {hint}.")
        return secrets.api_key

    async def _read_secrets(self, name: str) -> Secrets | None:
        try:
            return await asyncio.to_thread(secret_store().get, name)
        except BadConfig as error:
            raise CannotConnect(str(error)) from None

    async def _resume(self, token_manager: OAuthTokenManager, url: str) -> None:
        from ledger_tui.client.oauth import NotStored

        try:
            access = await token_manager.resume()
        except NotStored as error:
            raise CannotConnect(str(error)) from None
        # The refresh failed for now. Later requests with the stored token will show the reason.
        except LedgerError:
            access = token_manager.tokens.pair.access_token if token_manager.tokens.pair else None
        if access is None:
            raise SignInNeeded
        await self._api.open(url, access)

    async def accept_sign_in(self, answer: TokenPair) -> None:
        """Use the tokens that the sign-in returned. Raises LedgerError."""
        assert self.signs_in is not None
        assert self._url is not None
        await self.signs_in.tokens.begin(answer)
        pair = self.token_manager.tokens.pair
        assert pair is not None
        await self._api.open(self._url, pair.access_token)

    # ------------------------------------------------------------------ the dashboard's own server

    async def wait_for_server_end(self) -> str | None:
        """Wait until the dashboard's own server ends, and return the server's last output.

        Return None if the dashboard has stopped the server.
        """
        assert self.server is not None
        return await asyncio.to_thread(self.server.wait_for_end)

    @property
    def restarts_without_asking(self) -> bool:
        """Whether the dashboard restarts its own server without asking the user."""
        # A restarted demo has other data, because a demo's data ends with its server. The user must notice
        # this, so never restart a demo without asking.
        return not self._options.demo and time.monotonic() - self._started_at >= RESTART_AFTER_SECONDS

    async def close(self) -> None:
        await self._api.close()
        if self.server is not None:
            await asyncio.to_thread(self.server.stop)
