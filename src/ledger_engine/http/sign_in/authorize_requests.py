"""What an app asks for, read from a query or a form, and the addresses that bring it the answer."""

from __future__ import annotations

from functools import partial
from urllib.parse import urlencode, urlsplit

from ledger_engine.access.oauth import authorization
from ledger_engine.access.oauth.authorization import Asked, ToldToApp
from ledger_engine.database.engine import Engine
from ledger_engine.http.bodies import pairs_of


async def read(engine: Engine, raw: bytes, sign_in: str | None = None) -> Asked:
    """The request in a query string or in a form that was made of one; raises what `consider` does."""
    return await engine.read(partial(authorization.consider, given=pairs_of(raw), sign_in=sign_in))


def answer(asked: Asked, issuer: str, **told: str) -> str:
    """The address that brings an answer to the app; `issuer` is this server's, as the browser knows it."""
    return _address(asked.redirect_uri, {**told, "state": asked.state, "iss": issuer})


def refusal(told: ToldToApp, issuer: str) -> str:
    """The address that brings a refusal to the app."""
    state = {} if told.state is None else {"state": told.state}
    refused = {"error": told.error, "error_description": told.description, **state, "iss": issuer}
    return _address(told.redirect_uri, refused)


def origin(asked: Asked) -> str:
    """The source, as a Content-Security-Policy names it, that the browser is sent back to."""
    parts = urlsplit(asked.redirect_uri)
    return f"{parts.scheme}://{parts.netloc}" if parts.scheme in ("http", "https") else f"{parts.scheme}:"


def _address(uri: str, answer: dict[str, str]) -> str:
    """The URI with the answer added to its query, what is there already kept (RFC 6749, 4.1.2)."""
    return f"{uri}{'&' if '?' in uri else '?'}{urlencode(answer)}"
