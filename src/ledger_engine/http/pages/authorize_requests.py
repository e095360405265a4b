"""Reading authorization requests from queries and forms, and building the addresses that answer them."""

from __future__ import annotations

from functools import partial
from urllib.parse import urlencode, urlsplit

from ledger_engine.access.oauth import authorization, sign_ins
from ledger_engine.access.oauth.authorization import AuthorizationRequest, RefusedToApp
from ledger_engine.http.bodies import pairs_of
from ledger_engine.store.engine import Engine


async def read(engine: Engine, raw: bytes, sign_in: str | None = None) -> AuthorizationRequest:
    """Return the request in a query string, or in a form that repeats it; raises what `consider` does."""
    wanted = await engine.read(partial(authorization.consider, given=pairs_of(raw), sign_in=sign_in))
    if sign_in is not None and wanted.user is None:
        ended = await engine.read(partial(sign_ins.expired_at, value=sign_in))
        if ended is not None:
            await engine.keep_time(ended)
    return wanted


def answer(wanted: AuthorizationRequest, issuer: str, *, code: str) -> str:
    """Return the address that sends the code to the app; `issuer` is this server's own address."""
    return _address(wanted.redirect_uri, {"code": code, "state": wanted.state, "iss": issuer})


def refusal(refused: RefusedToApp, issuer: str) -> str:
    """Return the address that sends an error to the app."""
    state = {} if refused.state is None else {"state": refused.state}
    error = {"error": refused.error, "error_description": refused.description, **state, "iss": issuer}
    return _address(refused.redirect_uri, error)


def origin(wanted: AuthorizationRequest) -> str:
    """Return the origin of the app's address, in the form of a Content-Security-Policy."""
    parts = urlsplit(wanted.redirect_uri)
    return f"{parts.scheme}://{parts.netloc}" if parts.scheme in ("http", "https") else f"{parts.scheme}:"


def _address(uri: str, answer: dict[str, str]) -> str:
    """Return the URI with the answer added to its query, which is kept (RFC 6749, 4.1.2)."""
    return f"{uri}{'&' if '?' in uri else '?'}{urlencode(answer)}"
