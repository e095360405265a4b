"""The tokens of a sign-in, as the dashboard uses them."""

from __future__ import annotations

import pytest

from ledger_client import TokenPair
from ledger_tui.client import oauth
from ledger_tui.client.api import Api
from ledger_tui.client.oauth import OAuthApp, OAuthTokenManager, SignInFailed
from ledger_tui.client.session import Session
from ledger_tui.client.tokens import NoTokens
from ledger_tui.client.traffic import Traffic
from tests.ledger_client.test_tokens import Store, Stored


@pytest.fixture
async def manager(monkeypatch: pytest.MonkeyPatch) -> OAuthTokenManager:
    """A session whose server refuses the refresh token."""
    api = Api(Session(), Traffic())
    await api.open("http://127.0.0.1:9", None)

    async def refuse(app: OAuthApp, *, refresh_token: str) -> TokenPair:
        raise SignInFailed("It was used before.", status=400)

    monkeypatch.setattr(oauth, "exchange_grant", refuse)
    manager = OAuthTokenManager(api, OAuthApp("http://127.0.0.1:9", "app_1", "read:projects"), Store())
    await manager.tokens.begin(TokenPair(access_token="at_1", refresh_token="rt_1"))
    return manager


async def test_after_a_refusal_the_token_is_used_to_its_end_and_the_user_is_asked_to_sign_in(
    manager: OAuthTokenManager,
) -> None:
    with pytest.raises(SignInFailed):
        await manager.refresh()
    assert manager.tokens.pair == TokenPair(access_token="at_1")
    assert manager.tokens.problem == "Sign in again. It was used before."


async def test_there_is_no_key_to_exchange_or_to_return_to(manager: OAuthTokenManager) -> None:
    with pytest.raises(NoTokens, match="signs in through the browser"):
        await manager.exchange()
    manager.use_key()
    assert manager.tokens.pair is not None


async def test_a_run_begins_with_what_is_stored_unless_that_is_refused(manager: OAuthTokenManager) -> None:
    store = Store()
    again = OAuthTokenManager(manager._api, manager.app, store)
    assert await again.resume() is None
    store.stored = Stored("at_7", "rt_7", 9e9)
    assert await again.resume() == "at_7"
    store.stored = Stored("at_7", "rt_7", 1.0)
    assert await again.resume() is None
