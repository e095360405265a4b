"""Authlib's OAuth 2.0 server, for one `Unit` of database work. Authlib makes most checks, in its own order.

The modules `apps` and `grants` find apps, codes and tokens. This module gives these objects to Authlib, and
adds the checks that Authlib lacks.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from authlib.oauth2 import OAuth2Error
from authlib.oauth2.rfc6749 import (
    AccessDeniedError,
    AuthorizationCodeMixin,
    AuthorizationServer,
    BaseGrant,
    ClientMixin,
    InvalidClientError,
    InvalidGrantError,
    InvalidRequestError,
    InvalidScopeError,
    OAuth2Payload,
    OAuth2Request,
    TokenMixin,
    UnsupportedGrantTypeError,
    UnsupportedResponseTypeError,
)
from authlib.oauth2.rfc6749.grants import AuthorizationCodeGrant, RefreshTokenGrant
from authlib.oauth2.rfc7009 import RevocationEndpoint
from authlib.oauth2.rfc7636 import CodeChallenge

from ledger_engine.access.credentials import TokenPair
from ledger_engine.access.oauth import apps, grants
from ledger_engine.access.oauth.apps import App
from ledger_engine.access.oauth.grants import Code, NewGrant, OAuthTokens, Token
from ledger_engine.access.oauth.sign_ins import SignedInUser
from ledger_engine.core.errors import AuthenticationError, InvalidRequest, LedgerError, NotFound, OAuthRefusal
from ledger_engine.core.records import as_json
from ledger_engine.core.tenant import ROLES, SCOPES
from ledger_engine.store import Unit

AUTHORIZATION_CODE = "authorization_code"
GRANT_TYPES = (AUTHORIZATION_CODE, "refresh_token")


class OAuthParameters(OAuth2Payload):
    """The parameters of a request; an empty value is treated as missing (RFC 6749, 3.1)."""

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
        # The text may be a list of several types. Return the whole list; `_Rules` refuses it.
        return self._data.get("response_type", "code")


class OAuthRequest(OAuth2Request):
    """The parameters of a request in the form that Authlib reads."""

    def __init__(self, parameters: Sequence[tuple[str, str]]) -> None:
        # Authlib reads the address of the request only to require https. Pass any https address, because a
        # proxy in front of the server may have ended TLS.
        super().__init__("POST", "https://localhost/")
        self.payload: OAuthParameters = OAuthParameters(parameters)

    @property
    def form(self) -> dict[str, str]:
        return self.payload.data


class OAuthClient(ClientMixin):
    """An app in the form that Authlib reads: a public client, without a secret."""

    def __init__(self, app: App) -> None:
        self.app = app

    def get_client_id(self) -> str:
        return self.app.id

    def get_allowed_scope(self, scope: Any) -> str:
        return str(scope)  # allows every scope: `_Rules` compares the scopes with the user's role

    def check_endpoint_auth_method(self, method: str, endpoint: str) -> bool:
        return method == "none"

    def check_response_type(self, response_type: str) -> bool:
        return True  # `_Rules` checks the response type

    def check_grant_type(self, grant_type: str) -> bool:
        return grant_type in GRANT_TYPES


class StoredCode(AuthorizationCodeMixin):
    code_challenge_method = "S256"

    def __init__(self, code: Code) -> None:
        self.stored = code
        self.code_challenge = code.code_challenge

    def get_redirect_uri(self) -> str:
        return self.stored.redirect_uri

    def get_scope(self) -> str:
        return " ".join(self.stored.scopes)


class StoredToken(TokenMixin):
    def __init__(self, token: Token) -> None:
        self.stored = token

    def check_client(self, client: ClientMixin) -> bool:
        return self.stored.app == client.get_client_id()

    def get_scope(self) -> str:
        return " ".join(self.stored.scopes)


def app_of(request: OAuth2Request) -> App:
    """Return the app of a request that Authlib has accepted."""
    assert isinstance(request.client, OAuthClient)
    return request.client.app


_STATE = re.compile(r"[\x20-\x7e]+")  # the characters that RFC 6749, A.5 allows
_CHALLENGE = re.compile(r"[A-Za-z0-9\-_]{43}")  # the base64url form of 32 bytes

# With the level DEBUG, Authlib logs each token that it issues. Set a higher level, because no log may contain
# a token.
logging.getLogger("authlib").setLevel(logging.INFO)


class _CodeGrant(AuthorizationCodeGrant):
    TOKEN_ENDPOINT_AUTH_METHODS = ["none"]

    @classmethod
    def check_authorization_endpoint(cls, request: OAuth2Request) -> bool:
        return True  # `_Rules` checks response_type later, when it is known which app gets the error

    @staticmethod
    def validate_no_multiple_request_parameter(request: OAuth2Request) -> None:
        assert request.payload is not None
        for name in ("client_id", "redirect_uri"):
            if len(request.payload.datalist.get(name, [])) > 1:
                raise InvalidRequest(
                    "invalid_value", "client_id and redirect_uri may be sent only once each."
                )

    @staticmethod
    def validate_authorization_redirect_uri(request: OAuth2Request, client: ClientMixin) -> str:
        # Replaces Authlib's check. Authlib repeats the address in its error, and cannot make the error if the
        # address contains characters that an error must not contain.
        assert request.payload is not None
        assert isinstance(client, OAuthClient)
        uri = request.payload.redirect_uri
        if uri is None:
            message = "The address has no redirect_uri, so the server does not know where to return to."
            raise InvalidRequest("missing_field", message)
        if not client.app.may_redirect_to(uri):
            raise NotFound("redirect_uri of this app", uri)
        return uri

    def create_authorization_response(self, redirect_uri: str, grant_user: SignedInUser | None) -> Any:
        # Replaces Authlib's redirect. Authlib encodes the query of the app's address again, but every
        # character of the query must stay as it is.
        if grant_user is None:
            raise AccessDeniedError("The user denied the request.", redirect_uri=redirect_uri)
        unit, payload = self.server.unit, self.request.payload
        assert payload is not None
        new = NewGrant(
            app_of(self.request).id, redirect_uri, scopes_in(payload.scope), payload.data["code_challenge"]
        )
        grants.record(unit, new, grant_user.user, self.server.code)
        return 200, None, []

    def query_authorization_code(self, code: str, client: ClientMixin) -> StoredCode:
        stored_code = self.server.stored
        if not isinstance(stored_code, Code):
            raise InvalidGrantError("The code is not known.")
        if stored_code.redeemed:
            _end_grant(self.server, stored_code)
        if stored_code.app != client.get_client_id():
            raise InvalidGrantError("The code was issued to another app.")
        if stored_code.expired:
            raise InvalidGrantError(f"The code has expired; it is valid for {grants.CODE_SECONDS} seconds.")
        _require_valid(stored_code)
        return StoredCode(stored_code)

    def authenticate_user(self, authorization_code: StoredCode) -> str:
        """Mark the code as used, and return its user.

        Authlib calls this last, just before it issues tokens.
        """
        code = authorization_code.stored
        if not grants.take_code(self.server.unit, code):
            _end_grant(self.server, code)
        return code.user

    def delete_authorization_code(self, authorization_code: StoredCode) -> None:
        """Do nothing: the code is already marked as used, and stays stored to recognise a second use."""


class _RefreshGrant(RefreshTokenGrant):
    TOKEN_ENDPOINT_AUTH_METHODS = ["none"]
    INCLUDE_NEW_REFRESH_TOKEN = True

    def validate_token_request(self) -> None:
        assert self.request.payload is not None
        if self.request.payload.scope is not None:
            self.validate_requested_scope()
        super().validate_token_request()

    def authenticate_refresh_token(self, refresh_token: str) -> StoredToken:
        token = self.server.stored
        if not isinstance(token, Token) or token.kind != "refresh":
            raise InvalidGrantError("The refresh token is not known.")
        if token.used:
            _end_grant(self.server, token)
        if token.expired:
            raise InvalidGrantError("The refresh token has expired.")
        _require_valid(token)
        return StoredToken(token)

    def authenticate_user(self, refresh_token: StoredToken) -> str:
        """Mark the refresh token as used, and return its user.

        Authlib calls this last, just before it issues tokens.
        """
        token = refresh_token.stored
        if not grants.take_refresh_token(self.server.unit, token):
            _end_grant(self.server, token)
        return token.user

    def revoke_old_credential(self, refresh_token: Any) -> None:
        """Do nothing: the refresh token is already marked as used."""


class _Revocation(RevocationEndpoint):
    CLIENT_AUTH_METHODS = ["none"]

    def query_token(self, token_string: str, token_type_hint: str | None) -> StoredToken | None:
        assert self.server is not None
        token = self.server.stored
        return StoredToken(token) if isinstance(token, Token) else None

    def revoke_token(self, token: StoredToken, request: OAuth2Request) -> None:
        assert self.server is not None
        grants.revoke(self.server.unit, token.stored.grant)


class _Rules(CodeChallenge):
    """Checks PKCE, with S256 only, and makes the checks that Authlib lacks.

    The app gets the errors, because the app and its address are already checked.
    """

    SUPPORTED_CODE_CHALLENGE_METHOD = ["S256"]

    def __call__(self, grant: BaseGrant) -> None:
        super().__call__(grant)
        grant.register_hook("before_validate_authorization_request_payload", self.validate_form)

    def validate_form(self, grant: Any, redirect_uri: str) -> None:
        """Raise OAuth2Error for a malformed authorization request."""
        payload: OAuthParameters = grant.request.payload
        if any(len(values) > 1 for values in payload.datalist.values()):
            raise InvalidRequestError("A parameter is given more than once.")
        if payload.response_type != "code":
            raise UnsupportedResponseTypeError(payload.response_type, "response_type must be code.")
        if not is_state(payload.state):
            raise InvalidRequestError("state is required: printable ASCII characters.")

    def validate_code_challenge(self, grant: Any, redirect_uri: str) -> None:
        super().validate_code_challenge(grant, redirect_uri)
        payload: OAuthParameters = grant.request.payload
        if not _CHALLENGE.fullmatch(payload.data.get("code_challenge", "")):
            raise InvalidRequestError(
                "code_challenge is required: the S256 hash of the verifier, 43 characters of base64url."
            )
        if may_ask(app_of(grant.request), grant.request.user):
            _require_grantable(grant.request.user, scopes_in(payload.scope))

    def validate_code_verifier(self, grant: Any, result: Any) -> None:
        try:
            super().validate_code_verifier(grant, result)
        except OAuth2Error as error:
            # A malformed verifier gets the same error as a verifier that does not match (RFC 7636, 4.6).
            message = "code_verifier does not match the code_challenge."
            raise InvalidGrantError(message) from error


class Server(AuthorizationServer):
    """Authlib's server for one unit.

    `stored` is the stored code or token that the request uses; None if the ledger stores no such code or
    token. If Authlib accepts the request, Authlib issues the new tokens in `pair`, or the new code in `code`.
    """

    def __init__(
        self,
        unit: Unit,
        *,
        stored: Code | Token | None = None,
        pair: TokenPair | None = None,
        code: str | None = None,
    ) -> None:
        super().__init__(scopes_supported=SCOPES)
        self.unit = unit
        self.stored = stored
        self.pair = pair
        self.code = code
        self.register_grant(_CodeGrant, [_Rules()])
        self.register_grant(_RefreshGrant)
        self.register_endpoint(_Revocation)

    def consent_grant(self, request: OAuthRequest, user: SignedInUser | None) -> BaseGrant:
        """Check an authorization request, and return Authlib's `BaseGrant` for it.

        Raises OAuth2Error and LedgerError.
        """
        find: Callable[[OAuthRequest, SignedInUser | None], BaseGrant] = self.get_consent_grant
        return find(request, user)

    def revocation(self, request: OAuthRequest) -> LedgerError | None:
        """Revoke a token. Return the error if the request is wrong; otherwise return None."""
        respond: Callable[[str, OAuthRequest], LedgerError | None] = self.create_endpoint_response
        return respond("revocation", request)

    def create_oauth2_request(self, request: Any) -> OAuth2Request:
        assert isinstance(request, OAuthRequest)
        return request

    def query_client(self, client_id: str) -> Any:
        try:
            return OAuthClient(apps.find(self.unit, client_id))
        except NotFound:
            return None

    def validate_requested_scope(self, scope: str | None) -> None:
        if scope is None:
            raise InvalidRequestError("scope is required.")
        scopes = set(scope.split(" ")) - {""}
        if not scopes or not scopes <= set(SCOPES):
            raise InvalidScopeError(f"scope must be one or more of {' '.join(SCOPES)}.")

    def generate_token(self, *_: Any, scope: str | None = None, **__: Any) -> dict[str, Any]:
        assert self.pair is not None
        assert scope is not None
        return {**as_json(self.pair), "scope": " ".join(scopes_in(scope))}

    def save_token(self, token: dict[str, Any], request: OAuth2Request) -> None:
        assert self.pair is not None
        credential = request.authorization_code or request.refresh_token
        assert isinstance(credential, StoredCode | StoredToken)
        stored = credential.stored
        grants.store(self.unit, stored.grant, stored.scopes, scopes_in(token["scope"]), self.pair)

    def send_signal(self, name: str, *args: object, **kwargs: object) -> None:
        """Do nothing: nobody receives Authlib's signals."""

    def handle_response(self, status: int, body: Any, headers: Any) -> Any:
        return OAuthTokens(**body) if body else None

    def handle_error_response(self, request: OAuth2Request, error: OAuth2Error) -> Any:
        return error if error.redirect_uri else refusal(error, request)


def may_ask(app: App, user: SignedInUser | None) -> bool:
    """Return whether the user belongs to the project and mode in which the app is registered."""
    return user is not None and (app.project, app.livemode) == (user.project, user.livemode)


def _require_grantable(user: SignedInUser, scopes: list[str]) -> None:
    for scope in scopes:
        least = grants.LEAST_ROLE.get(scope, ROLES[0])
        if ROLES.index(user.role) < ROLES.index(least):
            raise InvalidScopeError(f"{scope} needs the role {least}; the user has the role {user.role}.")


def _end_grant(server: Server, credential: Code | Token) -> NoReturn:
    """End the grant of a code or token that was used a second time, and raise InvalidGrantError."""
    grants.revoke(server.unit, credential.grant)
    if isinstance(credential, Code):
        raise InvalidGrantError("The code has already been used; its tokens are revoked.")
    raise InvalidGrantError("The refresh token has already been used; all tokens of this grant are revoked.")


def _require_valid(credential: Code | Token) -> None:
    if credential.ended:
        raise InvalidGrantError("The user's permission was revoked.")


def scopes_in(scope: str) -> list[str]:
    """Return the scopes in a text with spaces between them, in the order of SCOPES and without duplicates."""
    return [name for name in SCOPES if name in scope.split(" ")]


def refusal(error: OAuth2Error, request: OAuth2Request) -> LedgerError:
    """Return the LedgerError for an error of Authlib."""
    assert request.payload is not None
    code, description = str(error.error), error.description
    if isinstance(error, InvalidClientError):
        if request.payload.client_id is not None:
            return AuthenticationError("invalid_credential", "The app is not known.", "client_id")
        code, description = "invalid_grant", "The code or refresh token is not known, or was revoked."
    if isinstance(error, UnsupportedGrantTypeError):
        description = f"grant_type must be {' or '.join(GRANT_TYPES)}."
    return OAuthRefusal(code, description or "The token was issued to another app.")


def is_state(state: str | None) -> bool:
    """Return whether an app's `state` can be sent back."""
    return state is not None and _STATE.fullmatch(state) is not None
