"""The tokens of a sign-in: rotated by one dashboard at a time, and used though they cannot be kept."""

from __future__ import annotations

from io import StringIO

import pytest

from ledger_client import TokenPair
from ledger_tui.client import oauth
from ledger_tui.client.api import Api
from ledger_tui.client.oauth import OAuthApp, OAuthTokenManager, Refused, TokenStoreFailed
from ledger_tui.client.session import Session
from ledger_tui.client.tokens import NoTokens, Tokens
from ledger_tui.client.traffic import Traffic
from ledger_tui.settings.secret_store import Secrets


class TokenStore:
    """Holds one pair; `fault` is what is wrong with it."""

    def __init__(self) -> None:
        self.kept: Secrets | None = None
        self.fault: TokenStoreFailed | None = None
        self.turns: list[StringIO] = []

    def read(self) -> Secrets | None:
        if self.fault is not None:
            raise self.fault
        return self.kept

    def keep(self, access: str, refresh: str | None, expires_at: float) -> None:
        assert not self.turns[-1].closed, "a pair is kept within the turn that made it"
        if self.fault is not None:
            raise self.fault
        self.kept = Secrets(access_token=access, refresh_token=refresh, expires_at=expires_at)

    def acquire_lock(self) -> StringIO:
        self.turns.append(StringIO())
        return self.turns[-1]


def pair(number: int) -> TokenPair:
    return TokenPair(access_token=f"at_{number}", refresh_token=f"rt_{number}")


@pytest.fixture
def shelf() -> TokenStore:
    return TokenStore()


@pytest.fixture
async def token_manager(shelf: TokenStore, monkeypatch: pytest.MonkeyPatch) -> OAuthTokenManager:
    """One that has the first pair, at a server that gives the pair after the one it is brought."""
    api = Api(Session(), Traffic())
    await api.open("http://127.0.0.1:9", None)
    token_manager = OAuthTokenManager(
        api, Tokens(), OAuthApp("http://127.0.0.1:9", "app_1", "read:projects"), shelf
    )

    async def ask(app: OAuthApp, *, refresh_token: str) -> TokenPair:
        return pair(int(refresh_token.removeprefix("rt_")) + 1)

    monkeypatch.setattr(oauth, "issued", ask)
    await token_manager.signed_in(pair(1))
    return token_manager


def access(token_manager: OAuthTokenManager) -> str:
    assert token_manager.tokens.pair is not None
    return token_manager.tokens.pair.access_token


async def test_a_pair_is_rotated_and_kept_in_one_turn(
    token_manager: OAuthTokenManager, shelf: TokenStore
) -> None:
    await token_manager.refresh()
    assert access(token_manager) == "at_2"
    assert shelf.kept is not None
    assert shelf.kept.refresh_token == "rt_2"
    assert all(turn.closed for turn in shelf.turns)


async def test_what_another_dashboard_has_rotated_is_taken_over(
    token_manager: OAuthTokenManager, shelf: TokenStore
) -> None:
    shelf.kept = Secrets(access_token="at_7", refresh_token="rt_7", expires_at=9e9)
    await token_manager.refresh()
    assert access(token_manager) == "at_7"


async def test_a_pair_that_cannot_be_stored_is_still_used_and_reported(
    token_manager: OAuthTokenManager, shelf: TokenStore
) -> None:
    shelf.fault = TokenStoreFailed("secrets.json: others may read it.")
    await token_manager.refresh()
    assert access(token_manager) == "at_2"
    assert "others may read it" in token_manager.tokens.problem


async def test_a_run_that_cannot_read_what_is_kept_says_so(
    token_manager: OAuthTokenManager, shelf: TokenStore
) -> None:
    shelf.fault = TokenStoreFailed("secrets.json: is not JSON.")
    with pytest.raises(TokenStoreFailed, match="not JSON"):
        await token_manager.resume()


async def test_a_refresh_token_that_is_refused_is_not_sent_again(
    token_manager: OAuthTokenManager, shelf: TokenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[str] = []

    async def refuse(app: OAuthApp, *, refresh_token: str) -> TokenPair:
        sent.append(refresh_token)
        raise Refused("It was used before.")

    monkeypatch.setattr(oauth, "issued", refuse)
    with pytest.raises(Refused):
        await token_manager.refresh()
    assert access(token_manager) == "at_1", "it may be good until it ends"
    assert token_manager.tokens.problem == "Sign in again. It was used before."
    assert token_manager.tokens.due_in is None
    with pytest.raises(NoTokens, match="sign in"):
        await token_manager.refresh()
    assert sent == ["rt_1"]
    shelf.kept = Secrets(access_token="at_7", refresh_token="rt_7", expires_at=9e9)
    await token_manager.refresh()
    assert access(token_manager) == "at_7", "somebody signed in at another dashboard of this profile"


async def test_a_run_begins_with_what_is_kept_and_rotates_it_when_it_is_about_to_end(
    token_manager: OAuthTokenManager, shelf: TokenStore
) -> None:
    shelf.kept = Secrets(access_token="at_7", refresh_token="rt_7", expires_at=9e9)
    assert await token_manager.resume() == "at_7"
    shelf.kept = Secrets(access_token="at_7", refresh_token="rt_7", expires_at=1.0)
    assert await token_manager.resume() == "at_8"
    assert shelf.kept.refresh_token == "rt_8"


async def test_a_run_whose_kept_tokens_are_refused_has_its_user_sign_in(
    token_manager: OAuthTokenManager, shelf: TokenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(app: OAuthApp, *, refresh_token: str) -> TokenPair:
        raise Refused("It was used before.")

    monkeypatch.setattr(oauth, "issued", refuse)
    shelf.kept = Secrets(access_token="at_7", refresh_token="rt_7", expires_at=1.0)
    assert await token_manager.resume() is None
    assert token_manager.tokens.pair is None
