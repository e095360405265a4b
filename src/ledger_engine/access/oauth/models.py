"""The objects that Authlib's server reads: a request, and the app, code or token that it is about."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from authlib.oauth2.rfc6749 import (
    AuthorizationCodeMixin,
    ClientMixin,
    OAuth2Payload,
    OAuth2Request,
    TokenMixin,
)

from ledger_engine.access.oauth.apps import App
from ledger_engine.access.oauth.grants import Code, Token

AUTHORIZATION_CODE = "authorization_code"
GRANT_TYPES = (AUTHORIZATION_CODE, "refresh_token")


class Payload(OAuth2Payload):
    """The parameters of a request; an empty value counts as a missing one (RFC 6749, 3.1)."""

    def __init__(self, pairs: Sequence[tuple[str, str]]) -> None:
        self._lists: dict[str, list[Any]] = {}
        for name, value in pairs:
            self._lists.setdefault(name, []).append(value)
        self._data = {name: value for name, value in pairs if value}

    @property
    def data(self) -> dict[str, str]:
        return self._data

    @property
    def datalist(self) -> dict[str, list[Any]]:
        return self._lists

    @property
    def response_type(self) -> str:
        return self._data.get("response_type", "code")  # compared exactly: no list of types in another order


class Request(OAuth2Request):
    """The parameters of a request, in the form Authlib reads them."""

    def __init__(self, parameters: Sequence[tuple[str, str]]) -> None:
        # Authlib uses the address only to see whether TLS was used, which only a proxy in front can know.
        super().__init__("POST", "https://localhost/")
        self.payload: Payload = Payload(parameters)

    @property
    def form(self) -> dict[str, str]:
        return self.payload.data


class Client(ClientMixin):
    """An app in the form Authlib reads: a public client, which has no secret."""

    def __init__(self, app: App) -> None:
        self.app = app

    def get_client_id(self) -> str:
        return self.app.id

    def get_allowed_scope(self, scope: Any) -> str:
        return str(scope)  # the user's role decides which scopes can be granted

    def check_endpoint_auth_method(self, method: str, endpoint: str) -> bool:
        return method == "none"

    def check_response_type(self, response_type: str) -> bool:
        return True  # checked in _Rules

    def check_grant_type(self, grant_type: str) -> bool:
        return grant_type in GRANT_TYPES


class StoredCode(AuthorizationCodeMixin):
    code_challenge_method = "S256"

    def __init__(self, stored: Code) -> None:
        self.stored = stored
        self.code_challenge = stored.code_challenge

    def get_redirect_uri(self) -> str:
        return self.stored.redirect_uri

    def get_scope(self) -> str:
        return " ".join(self.stored.scopes)


class StoredToken(TokenMixin):
    def __init__(self, stored: Token) -> None:
        self.stored = stored

    def check_client(self, client: ClientMixin) -> bool:
        return self.stored.app == client.get_client_id()

    def get_scope(self) -> str:
        return " ".join(self.stored.scopes)


def app_of(request: OAuth2Request) -> App:
    """Return the app of a request that Authlib has accepted."""
    assert isinstance(request.client, Client)
    return request.client.app
