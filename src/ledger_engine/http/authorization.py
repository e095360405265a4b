"""What an app asks for at `/oauth/authorize`, checked (interface.md, Authentication 7; decisions.md 11)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial
from typing import NoReturn
from urllib.parse import urlencode, urlsplit

from ledger_engine import apps, grants
from ledger_engine.apps import App
from ledger_engine.engine import Engine
from ledger_engine.errors import InvalidRequest, NotFound, OAuthRefusal
from ledger_engine.grants import NewGrant
from ledger_engine.http.bodies import pairs_of

_STATE = re.compile(r"[\x20-\x7e]+")  # RFC 6749, A.5
_CHALLENGE = re.compile(r"[A-Za-z0-9\-_]{43}")  # the base64url form of 32 bytes


@dataclass(frozen=True, slots=True)
class Asked:
    """A request that can be shown to a user. `issuer` is this server's address, as the browser knows it."""

    app: App
    redirect_uri: str
    scopes: list[str]
    state: str
    code_challenge: str
    issuer: str

    def parameters(self) -> dict[str, str]:
        """What asks for the same again."""
        return {
            "client_id": self.app.id,
            "redirect_uri": self.redirect_uri,
            "scope": " ".join(self.scopes),
            "state": self.state,
            "code_challenge": self.code_challenge,
        }

    def grant(self) -> NewGrant:
        """What is allowed when the user says yes."""
        return NewGrant(self.app.id, self.redirect_uri, self.scopes, self.code_challenge)

    def answer(self, **answer: str) -> str:
        """The address that brings the answer to the app."""
        return _address(self.redirect_uri, {**answer, "state": self.state, "iss": self.issuer})

    @property
    def origin(self) -> str:
        """The source, as a Content-Security-Policy names it, that the browser is sent back to."""
        parts = urlsplit(self.redirect_uri)
        return f"{parts.scheme}://{parts.netloc}" if parts.scheme in ("http", "https") else f"{parts.scheme}:"


class ToldToApp(Exception):
    """The request is refused, and the app is told at `location`."""

    def __init__(self, location: str) -> None:
        super().__init__(location)
        self.location = location


async def read(engine: Engine, raw: bytes, issuer: str) -> Asked:
    """The request in a query string or in a form that was made of one.

    Raises InvalidRequest or NotFound when it does not say for sure whom to answer: then the user alone
    is told. Everything else that is wrong with it raises ToldToApp.
    """
    given, repeated = _parameters(raw)
    if repeated & {"client_id", "redirect_uri"}:
        raise InvalidRequest("invalid_value", "client_id and redirect_uri are given once each.")
    if "client_id" not in given:
        raise InvalidRequest("missing_field", "The address lacks the client_id, which names the app.")
    app = await engine.read(partial(apps.find, client_id=given["client_id"]))
    redirect_uri = given.get("redirect_uri")
    if redirect_uri is None:
        raise InvalidRequest(
            "missing_field", "The address lacks the redirect_uri, which says where to go back to."
        )
    if not app.may_redirect_to(redirect_uri):
        raise NotFound("redirect_uri of this app", redirect_uri)
    try:
        return Asked(app, redirect_uri, *_checked(given, repeated), issuer)
    except InvalidRequest as refusal:
        state = {"state": given["state"]} if _is_state(given) else {}
        code = refusal.code if isinstance(refusal, OAuthRefusal) else "invalid_request"
        answer = {"error": code, "error_description": refusal.message, **state, "iss": issuer}
        raise ToldToApp(_address(redirect_uri, answer)) from None


def _parameters(raw: bytes) -> tuple[dict[str, str], set[str]]:
    """The parameters that have a value, and the names of those given more than once (RFC 6749, 3.1)."""
    pairs = pairs_of(raw)
    names = [name for name, _ in pairs]
    return {name: value for name, value in pairs if value}, {name for name in names if names.count(name) > 1}


def _checked(given: dict[str, str], repeated: set[str]) -> tuple[list[str], str, str]:
    """Scopes, state and code challenge; raises InvalidRequest."""
    if repeated:
        _refuse("A parameter is given more than once.")
    if not _is_state(given):
        _refuse("state is required, as text of printable ASCII characters.")
    if given.get("response_type", "code") != "code":
        raise OAuthRefusal("unsupported_response_type", "response_type must be code.")
    if given.get("code_challenge_method", "S256") != "S256":
        _refuse("code_challenge_method must be S256.")
    if "code_challenge" not in given:
        _refuse("code_challenge is required.")
    if not _CHALLENGE.fullmatch(given["code_challenge"]):
        _refuse("code_challenge must be the S256 hash of the verifier, 43 characters of base64url.")
    if "scope" not in given:
        _refuse("scope is required.")
    return grants.parse_scopes(given["scope"]), given["state"], given["code_challenge"]


def _is_state(given: dict[str, str]) -> bool:
    return _STATE.fullmatch(given.get("state", "")) is not None


def _refuse(message: str) -> NoReturn:
    raise InvalidRequest("invalid_value", message)


def _address(uri: str, answer: dict[str, str]) -> str:
    """The URI with the answer added to its query, what is there already kept (RFC 6749, 4.1.2)."""
    return f"{uri}{'&' if '?' in uri else '?'}{urlencode(answer)}"
