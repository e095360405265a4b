"""Signing in through the browser: authorization code with PKCE and a loopback redirect (RFC 8252).

    async with SignIn(app) as sign_in:
        open_in_a_browser(sign_in.url)
        answer = await sign_in.answer()     # the token response (docs/interface.md#token-response)

The app is registered with `http://127.0.0.1/callback`. Each sign-in listens on any free
port: RFC 8252 requires servers to accept every port of a registered loopback address.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import secrets
from dataclasses import dataclass
from importlib import import_module
from types import TracebackType
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlencode, urlsplit

from ledger_client.addresses import is_confidential
from ledger_client.errors import LedgerError
from ledger_client.tokens import NotStored as NotStored
from ledger_client.tokens import TokenStore
from ledger_tui.client.api import Api
from ledger_tui.client.tokens import NoTokens, TokenManager, Tokens
from ledger_tui.client.transport import client_of

if TYPE_CHECKING:
    from ledger_client.records import TokenPair

CALLBACK_PATH = "/callback"
_HEAD_BYTES_MAX = 16_384
_HEAD_SECONDS = 10.0


class SignInFailed(LedgerError):
    """The sign-in did not lead to tokens; the message is a sentence."""


@dataclass(frozen=True, slots=True)
class OAuthApp:
    """The dashboard as an OAuth app: `client_id` is the app's id at the server `auth_url`.

    `scope` holds the scopes to ask for, separated by spaces.
    """

    auth_url: str
    client_id: str
    scope: str

    def __post_init__(self) -> None:
        if not is_confidential(self.auth_url):
            raise SignInFailed(
                "The sign-in server is on another machine, so its address must begin with https."
            )


def code_challenge(verifier: str) -> str:
    """Return the S256 challenge of a verifier (RFC 7636, 4.2)."""
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()


class SignIn:
    """One sign-in with its own verifier, state and listener. It refuses a redirect with another state."""

    def __init__(self, app: OAuthApp) -> None:
        self._app = app
        self._issuer = app.auth_url.rstrip("/")
        self._verifier = secrets.token_urlsafe(64)
        self._state = secrets.token_urlsafe(32)
        self._code: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def __aenter__(self) -> SignIn:
        self._server = await asyncio.start_server(self._answer_browser, "127.0.0.1", 0, limit=_HEAD_BYTES_MAX)
        port = self._server.sockets[0].getsockname()[1]
        self._redirect_uri = f"http://127.0.0.1:{port}{CALLBACK_PATH}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        self._code.cancel()

    @property
    def url(self) -> str:
        """The address where the user signs in and allows or denies the access."""
        query = {
            "response_type": "code",
            "client_id": self._app.client_id,
            "redirect_uri": self._redirect_uri,
            "scope": self._app.scope,
            "state": self._state,
            "code_challenge": code_challenge(self._verifier),
            "code_challenge_method": "S256",
        }
        return f"{self._issuer}/oauth/authorize?{urlencode(query)}"

    async def answer(self) -> TokenPair:
        """Wait for the user, then exchange the code for tokens. Raises SignInFailed."""
        code = await self._code
        return await exchange_grant(
            self._app, code=code, code_verifier=self._verifier, redirect_uri=self._redirect_uri
        )

    # ------------------------------------------------------------------ the browser comes back

    async def _answer_browser(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), _HEAD_SECONDS)
            status, sentence = self._receive(head.split(b"\r\n", 1)[0].decode("ascii", "replace"))
            content = _PAGE.format(sentence=sentence).encode()
            writer.write(
                f"HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\n"
                "Cache-Control: no-store\r\nReferrer-Policy: no-referrer\r\n"
                "Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'\r\n"
                f"Content-Length: {len(content)}\r\nConnection: close\r\n\r\n".encode()
                + content
            )
            await writer.drain()
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, TimeoutError, OSError, ValueError):
            pass  # a broken connection or a malformed request, so not the browser's redirect
        finally:
            writer.close()

    def _receive(self, request_line: str) -> tuple[str, str]:
        """Read the query of the redirect, and return the status and the sentence to show in the browser."""
        method, _, rest = request_line.partition(" ")
        target = urlsplit(rest.partition(" ")[0])
        if target.path != CALLBACK_PATH:
            return "404 Not Found", "There is nothing here."
        if method != "GET":
            return "405 Method Not Allowed", "This address is not the redirect of a sign-in."
        query = parse_qs(target.query, keep_blank_values=True)
        state = query.get("state", [""])
        # Any program on this machine can call this address; only the right state ends the wait.
        if len(state) != 1 or not hmac.compare_digest(state[0].encode(), self._state.encode()):
            return "400 Bad Request", "This answer belongs to another sign-in."
        if self._code.done():
            return "400 Bad Request", "This sign-in has been answered already."
        try:
            self._code.set_result(self._code_of(query))
        except SignInFailed as failed:
            self._code.set_exception(failed)
            return "400 Bad Request", "The sign-in did not work. The dashboard says why."
        return "200 OK", "You are signed in. You can close this window and go back to the dashboard."

    def _code_of(self, query: dict[str, list[str]]) -> str:
        issuer = query.get("iss")
        if issuer is not None and (len(issuer) != 1 or issuer[0].rstrip("/") != self._issuer):
            raise SignInFailed("The answer came from another server than expected (iss).")
        if error := query.get("error"):
            description = query.get("error_description", error)[0]
            raise SignInFailed(f"The server refused the sign-in: {description[:200]}")
        code = query.get("code", [])
        if len(code) != 1 or not code[0]:
            raise SignInFailed("The answer has no code.")
        return code[0]


async def exchange_grant(app: OAuthApp, **grant: str) -> TokenPair:
    """Exchange an authorization code or a refresh token of this app for new tokens. Raises SignInFailed."""
    await asyncio.to_thread(import_module, "ledger_client.ledger")
    try:
        async with client_of(app.auth_url) as server:
            exchange = server.tokens.exchange_code if "code" in grant else server.tokens.refresh_oauth
            return await exchange(**grant, client_id=app.client_id)
    except LedgerError as error:
        raise SignInFailed(f"The server gave no tokens: {error}", status=error.status) from None


_PAGE = """<!doctype html><meta charset="utf-8"><title>Ledger</title>
<style>
body {{ font: 18px system-ui; margin: 20vh auto; max-width: 32em; text-align: center;
        background: #12161c; color: #d5dbe5 }}
</style>
<p>{sentence}</p>
"""


class OAuthTokenManager(TokenManager):
    """A TokenManager whose first tokens come from the user's sign-in and not from an API key."""

    def __init__(self, api: Api, app: OAuthApp, store: TokenStore) -> None:
        self.app = app
        super().__init__(api, Tokens(self._next_pair, store))

    async def resume(self) -> str | None:
        """Return the stored access token; None if the user must sign in.

        If the token is about to expire, refresh it first. Raises NotStored if the store fails, and
        SignInFailed if the refresh failed for a temporary reason, such as a server that does not answer.
        """
        await self.tokens.resume()
        return self.tokens.pair.access_token if self.tokens.pair is not None else None

    def use_key(self) -> None:
        """Do nothing, because an OAuth session has no API key."""

    async def exchange(self) -> None:
        raise NoTokens("This profile signs in through the browser; it has no key to exchange.")

    async def _next_pair(self, refresh_token: str) -> TokenPair:
        return await exchange_grant(self.app, refresh_token=refresh_token)

    def _note_refusal(self, error: LedgerError) -> None:
        self.tokens.problem = f"Sign in again. {error}"
