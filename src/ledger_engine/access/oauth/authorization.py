"""The operations of OAuth 2.0 (RFC 6749, 7009, 7636). Each operation makes one call to the module `server`.

This module sets defaults for the parameters that the contract lets an app leave out
(docs/decisions.md#oauth). An operation that refuses a request may have to store a change: for instance, the
second use of a code ends the grant. Such an operation returns the error, because an exception would undo the
change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

from authlib.oauth2 import OAuth2Error
from authlib.oauth2.rfc6749 import BaseGrant, InvalidClientError

from ledger_engine.access.credentials import TokenPair
from ledger_engine.access.oauth import grants, sign_ins
from ledger_engine.access.oauth.apps import App
from ledger_engine.access.oauth.grants import Code, OAuthTokens, Token
from ledger_engine.access.oauth.server import (
    AUTHORIZATION_CODE,
    OAuthRequest,
    Server,
    app_of,
    is_state,
    may_ask,
    refusal,
    scopes_in,
)
from ledger_engine.access.oauth.sign_ins import SignedInUser
from ledger_engine.core.errors import InvalidRequest, LedgerError, NotFound
from ledger_engine.store import Unit


@dataclass(frozen=True, slots=True)
class AuthorizationRequest:
    """A valid authorization request, to show to a user (docs/interface.md#authorize-parameters).

    `user` is the signed-in user. It is None if nobody is signed in, or if the app may not ask this user.
    """

    app: App
    redirect_uri: str
    scopes: list[str]
    state: str
    code_challenge: str
    user: SignedInUser | None = None

    def parameters(self) -> dict[str, str]:
        """Return the parameters of this request, to repeat it in the form that the user submits."""
        return {
            "client_id": self.app.id,
            "redirect_uri": self.redirect_uri,
            "scope": " ".join(self.scopes),
            "state": self.state,
            "code_challenge": self.code_challenge,
        }


class RefusedToApp(Exception):
    """The authorization request is refused; the app gets the error at `redirect_uri`, one of its addresses.

    `state` is the request's parameter `state`, which goes back to the app. It is None if the parameter is
    missing, or if the parameter has characters that cannot be sent.
    """

    def __init__(self, redirect_uri: str, error: str, description: str, state: str | None) -> None:
        super().__init__(error)
        self.redirect_uri = redirect_uri
        self.error = error
        self.description = description
        self.state = state


def consider(
    unit: Unit, parameters: Sequence[tuple[str, str]], sign_in: str | None = None
) -> AuthorizationRequest:
    """Return the authorization request in these parameters.

    `sign_in` is the value of the browser's sign-in cookie, or None if there is no such cookie. Raises
    InvalidRequest or NotFound if `client_id` or `redirect_uri` is wrong, because the server then does not
    know which app must get the error. Raises RefusedToApp for every other error, such as a scope that this
    user cannot grant.
    """
    user = None if sign_in is None else sign_ins.find(unit, sign_in)
    request = OAuthRequest(parameters)
    _consent(Server(unit), request, user)
    app, payload = app_of(request), request.payload
    return AuthorizationRequest(
        app=app,
        redirect_uri=payload.redirect_uri,
        scopes=scopes_in(payload.scope),
        state=payload.data["state"],
        code_challenge=payload.data["code_challenge"],
        user=user if may_ask(app, user) else None,
    )


def decide(unit: Unit, authorization: AuthorizationRequest, sign_in: str, code: str | None) -> None:
    """Record the decision of the user who is signed in with `sign_in`.

    If the user allows the request, `code` is the new one-time code, which the app exchanges for tokens. If
    the user denies the request, `code` is None. This function checks the request again. Raises the errors of
    `consider`, and RefusedToApp `access_denied` if the user denies the request or has signed out.
    """
    server, request = Server(unit, code=code), OAuthRequest([*authorization.parameters().items()])
    user = sign_ins.find(unit, sign_in)
    grant = _consent(server, request, user)
    may_grant = code is not None and may_ask(app_of(request), user)
    answer = server.create_authorization_response(request, user if may_grant else None, grant)
    if isinstance(answer, OAuth2Error):
        _raise(answer, request)


def exchange(unit: Unit, parameters: Mapping[str, str], pair: TokenPair) -> OAuthTokens | LedgerError:
    """Mark the code or the refresh token in `parameters` as used, and store the new pair for its grant.

    If several requests use the same code or token at the same time, exactly one of them succeeds. A second
    use ends the grant. A request that is refused for another reason leaves the code or token unused. The app
    may leave out `client_id` and, for a code, `redirect_uri`. If the app sends them, they must be right.
    Returns an error instead of raising it.
    """
    credential = _find_stored(unit, parameters)
    complete = {"grant_type": AUTHORIZATION_CODE, **_left_out_parameters(credential), **parameters}
    answer = Server(unit, stored=credential, pair=pair).create_token_response(
        OAuthRequest([*complete.items()])
    )
    assert isinstance(answer, OAuthTokens | LedgerError)
    return answer


def revoke_token(unit: Unit, token: str, client_id: str | None = None) -> LedgerError | None:
    """End the grant of an access or a refresh token (RFC 7009); an unknown token changes nothing.

    Returns the error of a wrong request instead of raising it.
    """
    stored_token = grants.find_token(unit, token)
    client = client_id or (stored_token.app if stored_token is not None else None)
    if client is None:
        return None
    request = OAuthRequest([("token", token), ("client_id", client)])
    return Server(unit, stored=stored_token).revocation(request)


def _find_stored(unit: Unit, parameters: Mapping[str, str]) -> Code | Token | None:
    """Return the stored code or refresh token in the request; `grant_type` decides between these two."""
    if parameters.get("grant_type", AUTHORIZATION_CODE) == AUTHORIZATION_CODE:
        return grants.find_code(unit, parameters.get("code", ""))
    return grants.find_token(unit, parameters.get("refresh_token", ""))


def _left_out_parameters(credential: Code | Token | None) -> dict[str, str]:
    """Return the parameters that an app may leave out, with values from the app's code or refresh token."""
    if credential is None or credential.ended:
        return {}
    if isinstance(credential, Code):
        return {"client_id": credential.app, "redirect_uri": credential.redirect_uri}
    return {"client_id": credential.app}


def _consent(server: Server, request: OAuthRequest, user: SignedInUser | None) -> BaseGrant:
    """Check a request, and return Authlib's `BaseGrant` for it. Raises the errors of `consider`."""
    payload = request.payload
    if payload.client_id is None:
        raise InvalidRequest(
            "missing_field", "The address has no client_id, so the server does not know which app asks."
        )
    try:
        return server.consent_grant(request, user)
    except InvalidClientError:
        raise NotFound("app", payload.client_id, "client_id") from None
    except OAuth2Error as error:
        _raise(error, request)


def _raise(error: OAuth2Error, request: OAuthRequest) -> NoReturn:
    if not error.redirect_uri:
        raise refusal(error, request)
    state = request.payload.state
    given_state = state if is_state(state) else None
    raise RefusedToApp(error.redirect_uri, str(error.error), error.description, given_state)
