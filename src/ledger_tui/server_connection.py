"""From what was chosen at the start to a server that answers: one of our own, an address, a profile."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Iterator
from typing import IO, TYPE_CHECKING, Any

from ledger_tui.client.api import Api
from ledger_tui.client.errors import ClientError
from ledger_tui.client.tokens import TokenKeeper
from ledger_tui.config import BadConfig, Profile
from ledger_tui.embedded import EmbeddedServer, ServerDied
from ledger_tui.secret_store import Secrets, secret_store
from ledger_tui.state.session import Session
from ledger_tui.state.tokens import Tokens

if TYPE_CHECKING:
    from ledger_tui.client.oauth_tokens import OAuthKeeper

# A server of our own that lived this long is started again unasked; one that dies at once is not.
RESTART_AFTER_SECONDS = 20.0


class CannotConnect(Exception):
    """There is no way to a server; the message is a sentence."""


class SignInNeeded(Exception):
    """The profile's user has to sign in first."""


class ProfileShelf:
    """The tokens of one profile in the secret store."""

    def __init__(self, profile: str) -> None:
        self._profile = profile

    def read(self) -> Secrets | None:
        with _shelf_failures():
            return secret_store().get(self._profile)

    def keep(self, access: str, refresh: str | None, expires_at: float) -> None:
        secrets = Secrets(access_token=access, refresh_token=refresh, expires_at=expires_at)
        with _shelf_failures():
            secret_store().put(self._profile, secrets)

    def take_turn(self) -> IO[str]:
        return secret_store().take_turn(self._profile)


@contextlib.contextmanager
def _shelf_failures() -> Iterator[None]:
    from ledger_tui.client.oauth_tokens import ShelfFailed

    try:
        yield
    except (BadConfig, OSError) as error:
        raise ShelfFailed(str(error)) from error


class Connection:
    """Either an address with a key, or a profile, or a server of our own."""

    def __init__(
        self,
        api: Api,
        session: Session,
        *,
        url: str | None,
        key: str | None,
        profile: Profile | None,
        database: str | None,
        demo: bool,
    ) -> None:
        self._api = api
        self._session = session
        self._url = url or (profile.url if profile else None)
        self._key = key
        self._profile = profile
        self._database = database
        self._demo = demo
        self.server: EmbeddedServer | None = None
        self._started_at = 0.0
        self.signs_in: OAuthKeeper | None = self._make_oauth_keeper()
        self.keeper = self.signs_in or TokenKeeper(api, Tokens())
        if profile is not None:
            session.profile = profile.name

    def _make_oauth_keeper(self) -> OAuthKeeper | None:
        profile = self._profile
        if profile is None or profile.client_id is None:
            return None
        from ledger_tui.client.oauth import OAuthApp
        from ledger_tui.client.oauth_tokens import OAuthKeeper

        app = OAuthApp(profile.auth_url or profile.url, profile.client_id, profile.scope)
        return OAuthKeeper(self._api, Tokens(), app, ProfileShelf(profile.name))

    @property
    def own_server(self) -> bool:
        return self._url is None

    @property
    def secrets(self) -> list[str]:
        """What must stand in no report."""
        pair = self.keeper.tokens.pair
        return [text for text in (self.keeper.key, *((pair.access, pair.refresh) if pair else ())) if text]

    async def open(self) -> None:
        """Raises CannotConnect or SignInNeeded."""
        if self._url is None:
            await self._start_server()
        elif self.signs_in is not None:
            await self._resume(self.signs_in, self._url)
        else:
            self.keeper.key = await self._find_key()
            await self._api.open(self._url, self.keeper.key)

    async def _start_server(self) -> None:
        self._session.starting()
        self.server = EmbeddedServer(self._database, demo=self._demo)
        try:
            address = await asyncio.to_thread(self.server.start)
        except (ServerDied, OSError) as error:
            raise CannotConnect(f"The server did not start: {error}") from None
        self._started_at = time.monotonic()
        self.keeper.key = address.key
        await self._api.open(address.url, address.key)

    async def _find_key(self) -> str:
        profile = self._profile
        if profile is None:
            return self._key or ""
        if profile.key.startswith("env:"):
            name = profile.key.removeprefix("env:")
            if not (value := os.environ.get(name)):
                raise CannotConnect(f"Profile {profile.name} takes its key from {name}, which is not set.")
            return value
        secrets = await self._read_secrets(profile.name)
        if secrets is None or secrets.api_key is None:
            hint = f"`ledger-tui profiles remove {profile.name}` and add it again"
            raise CannotConnect(f"No key is kept for profile {profile.name}; {hint}.")
        return secrets.api_key

    async def _read_secrets(self, name: str) -> Secrets | None:
        try:
            return await asyncio.to_thread(secret_store().get, name)
        except BadConfig as error:
            raise CannotConnect(str(error)) from None

    async def _resume(self, keeper: OAuthKeeper, url: str) -> None:
        from ledger_tui.client.oauth_tokens import ShelfFailed

        try:
            access = await keeper.resume()
        except ShelfFailed as error:
            raise CannotConnect(str(error)) from None
        except ClientError:  # not now; the token there is tells on the screen what is wrong
            access = keeper.tokens.pair.access if keeper.tokens.pair else None
        if access is None:
            raise SignInNeeded
        await self._api.open(url, access)

    async def signed_in(self, answer: dict[str, Any]) -> None:
        """The browser gave these tokens. Raises ClientError."""
        assert self.signs_in is not None
        assert self._url is not None
        await self.signs_in.signed_in(answer)
        pair = self.keeper.tokens.pair
        assert pair is not None
        await self._api.open(self._url, pair.access)

    # ------------------------------------------------------------------ a server of our own

    async def server_ended(self) -> str | None:
        """Wait until our own server ends by itself; its last words. None when we stopped it."""
        assert self.server is not None
        return await asyncio.to_thread(self.server.wait_for_end)

    @property
    def may_restart_unasked(self) -> bool:
        # A demo's database went with its server: starting again would show other data as if it were the same.
        return not self._demo and time.monotonic() - self._started_at >= RESTART_AFTER_SECONDS

    async def close(self) -> None:
        await self._api.close()
        if self.server is not None:
            await asyncio.to_thread(self.server.stop)
