"""Authorization: what an app may ask for, what its user decides, and what it gets for it.

The works of OAuth 2.0 (RFC 6749, 7009, 7636), each one question to the server in `server`. What the
contract lets an app leave out is filled in here (decisions.md 11). A refusal is given back and not raised
where something has to stay behind: the end of a grant whose code came twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

from authlib.oauth2 import OAuth2Error
from authlib.oauth2.rfc6749 import BaseGrant, InvalidClientError

from ledger_engine.access.oauth import grants, sign_ins
from ledger_engine.access.oauth.apps import App
from ledger_engine.access.oauth.grants import Code, OAuthTokens, Token
from ledger_engine.access.oauth.models import AUTHORIZATION_CODE, Request, app_of
from ledger_engine.access.oauth.server import Server, is_state, listed, may_ask, refusal
from ledger_engine.access.oauth.sign_ins import SignedIn
from ledger_engine.access.tokens import TokenPair
from ledger_engine.core.errors import InvalidRequest, LedgerError, NotFound
from ledger_engine.database import Unit


@dataclass(frozen=True, slots=True)
class Asked:
    """An authorization request that can be shown to a user (interface.md, Authentication 7).

    `user` is who is signed in, when it is somebody the app may ask.
    """

    app: App
    redirect_uri: str
    scopes: list[str]
    state: str
    code_challenge: str
    user: SignedIn | None = None

    def parameters(self) -> dict[str, str]:
        """What asks for the same again."""
        return {
            "client_id": self.app.id,
            "redirect_uri": self.redirect_uri,
            "scope": " ".join(self.scopes),
            "state": self.state,
            "code_challenge": self.code_challenge,
        }


class ToldToApp(Exception):
    """A request is refused, and the app is told so at `redirect_uri`, which is one of its own.

    `state` is what it sent to have it back; None when that is nothing that can be sent.
    """

    def __init__(self, redirect_uri: str, error: str, description: str, state: str | None) -> None:
        super().__init__(error)
        self.redirect_uri = redirect_uri
        self.error = error
        self.description = description
        self.state = state


def consider(unit: Unit, given: Sequence[tuple[str, str]], sign_in: str | None = None) -> Asked:
    """What these parameters ask the user, who may be signed in with `sign_in`.

    Raises InvalidRequest or NotFound when it does not say for sure whom to answer, ToldToApp for
    everything else that is wrong with it: also a scope that this user cannot give.
    """
    user = None if sign_in is None else sign_ins.find(unit, sign_in)
    request = Request(given)
    _consent(Server(unit), request, user)
    app, payload = app_of(request), request.payload
    return Asked(
        app=app,
        redirect_uri=payload.redirect_uri,
        scopes=listed(payload.scope),
        state=payload.data["state"],
        code_challenge=payload.data["code_challenge"],
        user=user if may_ask(app, user) else None,
    )


def decide(unit: Unit, asked: Asked, sign_in: str, code: str | None) -> None:
    """Record that who is signed in with `sign_in` allows what is asked, under this fresh code; None is no.

    All is looked at anew. Raises what `consider` does; ToldToApp `access_denied` for a no, and when
    nobody the app may ask is signed in any more.
    """
    server, request = Server(unit, code=code), Request([*asked.parameters().items()])
    user = sign_ins.find(unit, sign_in)
    grant = _consent(server, request, user)
    allowed = code is not None and may_ask(app_of(request), user)
    answer = server.create_authorization_response(request, user if allowed else None, grant)
    if isinstance(answer, OAuth2Error):
        _raise(answer, request)


def exchange(unit: Unit, given: Mapping[str, str], pair: TokenPair) -> OAuthTokens | LedgerError:
    """Use up the code or the refresh token in `given` and store the pair for its grant.

    Of any number of uses at once one succeeds; a use that does not fit takes nothing, a second one ends
    the grant. The others of OAuth's parameters are checked where they are given.
    """
    held = _held(unit, given)
    complete = {"grant_type": AUTHORIZATION_CODE, **_own(held), **given}
    answer = Server(unit, held=held, pair=pair).create_token_response(Request([*complete.items()]))
    assert isinstance(answer, OAuthTokens | LedgerError)
    return answer


def give_back(unit: Unit, token: str, client_id: str | None = None) -> LedgerError | None:
    """End the grant of an access or a refresh token (RFC 7009); nothing for a value that is none."""
    held = grants.find_token(unit, token)
    known = client_id or (held.app if held is not None else None)
    if known is None:
        return None
    request = Request([("token", token), ("client_id", known)])
    return Server(unit, held=held).revocation(request)


def _held(unit: Unit, given: Mapping[str, str]) -> Code | Token | None:
    """The code or the refresh token that is brought, as the grant type says."""
    if given.get("grant_type", AUTHORIZATION_CODE) == AUTHORIZATION_CODE:
        return grants.find_code(unit, given.get("code", ""))
    return grants.find_token(unit, given.get("refresh_token", ""))


def _own(held: Code | Token | None) -> dict[str, str]:
    """What an app need not say with a code or a refresh token that is good, because it can only be this."""
    if held is None or held.ended:
        return {}
    if isinstance(held, Code):
        return {"client_id": held.app, "redirect_uri": held.redirect_uri}
    return {"client_id": held.app}


def _consent(server: Server, request: Request, user: SignedIn | None) -> BaseGrant:
    """Authlib's grant for a request that can be shown; raises what `consider` does."""
    payload = request.payload
    if payload.client_id is None:
        raise InvalidRequest("missing_field", "The address lacks the client_id, which names the app.")
    try:
        return server.consent_grant(request, user)
    except InvalidClientError:
        raise NotFound("app", payload.client_id, "client_id") from None
    except OAuth2Error as error:
        _raise(error, request)


def _raise(error: OAuth2Error, request: Request) -> NoReturn:
    if not error.redirect_uri:
        raise refusal(error, request)
    state = request.payload.state
    told = state if is_state(state) else None
    raise ToldToApp(error.redirect_uri, str(error.error), error.description, told)
