"""The credential of a session: the API key, or the tokens received for the key."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ledger_client.errors import LedgerError
from ledger_client.tokens import EARLY_S as EARLY_S
from ledger_client.tokens import NoTokens as NoTokens
from ledger_client.tokens import Tokens as Tokens
from ledger_client.tokens import is_final
from ledger_tui.client.api import Api
from ledger_tui.client.records import Record

if TYPE_CHECKING:
    from ledger_client.records import TokenPair as TokenPair


class TokenManager:
    """Sets the credential that the API sends: tokens if there are any, otherwise the key itself."""

    def __init__(self, api: Api, tokens: Tokens | None = None) -> None:
        self._api = api
        self.tokens = tokens or Tokens(self._next_pair)
        self.key: str | None = None

    async def exchange(self) -> None:
        """Exchange the API key for a pair of tokens and use them. Raises LedgerError."""
        if not self.key:
            raise NoTokens("There is no API key to exchange.")
        await self.tokens.begin(await self._issue(grant_type="api_key", api_key=self.key))
        self._use()

    async def refresh(self, *, when_due: bool = False) -> bool:
        """Exchange the refresh token for the next pair of tokens, and return True. Raises LedgerError.

        With `when_due`, do this only if the tokens are about to expire; otherwise return False. If the server
        refuses the refresh token, the token is used up or revoked. In this case the session uses its API key
        again, if it has one.
        """
        try:
            is_done = await self.tokens.refresh(when_due=when_due)
        except LedgerError as error:
            if is_final(error):
                self._note_refusal(error)
            raise
        if is_done:
            self._use()
        return is_done

    async def refresh_when_due(self) -> bool:
        """Refresh the tokens if they are about to expire; return whether they were refreshed.

        After a failure, `tokens.problem` gives the reason.
        """
        try:
            return await self.refresh(when_due=True)
        except LedgerError as error:
            self.tokens.problem = self.tokens.problem or f"The token was not refreshed: {error}"
            return False

    def use_key(self) -> None:
        """Forget the tokens, and use the API key itself again."""
        self.tokens.drop()
        if self.key:
            self._api.use(self.key)

    def is_own(self, api_key: Record) -> bool:
        """Return whether a key's record shows the last characters of the key in use here."""
        last = api_key.get("last4")
        return bool(self.key and isinstance(last, str) and last and self.key.endswith(last))

    def replace_key(self, key: str) -> None:
        """Use the new key `key`, because the former key was rolled."""
        self.key = key
        self.use_key()

    async def _next_pair(self, refresh_token: str) -> TokenPair:
        return await self._issue(grant_type="refresh_token", refresh_token=refresh_token)

    async def _issue(self, **grant: str) -> TokenPair:
        from ledger_client.records import token_pair

        answer = await self._api.write("POST", "/v1/auth/token", grant, None)
        try:
            return token_pair(answer.body)
        except ValueError as error:
            raise NoTokens(str(error)) from None

    def _note_refusal(self, error: LedgerError) -> None:
        self.use_key()
        self.tokens.problem = f"The refresh token is not accepted: {error}"

    def _use(self) -> None:
        if self.tokens.pair is not None:
            self._api.use(self.tokens.pair.access_token)


def refusal_of(error: LedgerError) -> str:
    """Return the reason why the server gave no tokens: usually the server's message.

    A 404 or 405 means that the server issues no tokens. The server's message would only say that something
    was not found, and this would mislead the user. So return a sentence of the dashboard instead.
    """
    if error.status in (404, 405):
        return "This server issues no tokens."
    return str(error)
