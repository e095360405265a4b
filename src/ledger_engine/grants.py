"""Grants: what a user allowed an app, from the one-time code to the last token of its family.

A code and a refresh token work once. Whoever brings one a second time may have stolen it, or it was
stolen from them; nobody can tell, so the whole grant ends (RFC 6749, 4.1.2; RFC 9700, 4.14.2).
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import dataclass

from ledger_engine import api_keys, apps, sign_ins
from ledger_engine.api_keys import hash_secret, new_secret
from ledger_engine.clock import DAY
from ledger_engine.database import Row, Unit
from ledger_engine.errors import AuthenticationError, NotFound, OAuthRefusal
from ledger_engine.records import dumps
from ledger_engine.scope import ROLES, SCOPES
from ledger_engine.sign_ins import SignedIn
from ledger_engine.tokens import ACCESS_SECONDS, REFRESH_SECONDS, TokenPair

CODE_SECONDS = 60
LEAST_ROLE = {
    "admin:billing": "owner"
}  # of scopes that not every user can give (interface.md, Authentication 8)
_FORGOTTEN_AFTER_MS = 7 * DAY
_VERIFIER = re.compile(r"[A-Za-z0-9\-._~]{43,128}")  # RFC 7636, 4.1


@dataclass(frozen=True, slots=True)
class NewGrant:
    """What an app asks a user for; `code_challenge` is the S256 one of RFC 7636."""

    app: str
    redirect_uri: str
    scopes: list[str]
    code_challenge: str


@dataclass(frozen=True, slots=True)
class Redemption:
    """A code and the verifier that proves who asked for it; the others are checked where they are given."""

    code: str
    code_verifier: str
    client_id: str | None = None
    redirect_uri: str | None = None


@dataclass(slots=True)
class OAuthTokens:
    """`expires_in` is the access token's, in seconds; `scope` are its scopes, with spaces between."""

    access_token: str
    token_type: str
    expires_in: int
    refresh_token: str
    scope: str


def new_code() -> str:
    """A fresh one-time code; made outside of the work that stores it."""
    return new_secret("ac")


def parse_scopes(text: str) -> list[str]:
    """The scopes in `text`, spaces between; raises OAuthRefusal `invalid_scope` for none or unknown ones."""
    asked = set(text.split(" ")) - {""}
    unknown = asked - set(SCOPES)
    if unknown or not asked:
        raise OAuthRefusal("invalid_scope", f"scope takes one or more of {' '.join(SCOPES)}.", "scope")
    return [scope for scope in SCOPES if scope in asked]


def require_givable(role: str, scopes: list[str]) -> None:
    """Raise OAuthRefusal `invalid_scope` when a user of this role cannot give one of the scopes."""
    for scope in scopes:
        least = LEAST_ROLE.get(scope, ROLES[0])
        if ROLES.index(role) < ROLES.index(least):
            raise OAuthRefusal(
                "invalid_scope", f"{scope} takes the role {least}; the user has {role}.", "scope"
            )


def allow(unit: Unit, sign_in: str, new: NewGrant, code: str) -> None:
    """Record that the user who is signed in with `sign_in` allows what the app asks for, under this code.

    Raises NotFound for an app that is gone, OAuthRefusal `access_denied` when nobody the app may ask is
    signed in any more, and `invalid_scope` for what is beyond the user's role.
    """
    app = apps.find(unit, new.app)
    user = sign_ins.find(unit, sign_in)
    if user is None or not may_ask(app, user):
        raise OAuthRefusal("access_denied", "The user is not signed in any more.")
    require_givable(user.role, new.scopes)
    expires = unit.now + CODE_SECONDS * 1000
    unit.execute(
        "INSERT INTO grants (id, app, user_id, scopes, redirect_uri, code_hash, code_challenge, code_expires,"
        " created, expires) VALUES (:id, :app, :user, :scopes, :redirect_uri, :code_hash, :code_challenge,"
        " :code_expires, :now, :code_expires)",
        {
            "id": unit.new_id("gnt"),
            "app": app.id,
            "user": user.user,
            "scopes": dumps(new.scopes),
            "redirect_uri": new.redirect_uri,
            "code_hash": hash_secret(code),
            "code_challenge": new.code_challenge,
            "code_expires": expires,
            "now": unit.now,
        },
    )


def may_ask(app: apps.App, user: SignedIn) -> bool:
    """Whether the user is one of the project and mode that the app is registered for."""
    return (app.project, app.livemode) == (user.project, user.livemode)


def redeem(unit: Unit, given: Redemption, pair: TokenPair) -> OAuthTokens | OAuthRefusal:
    """Use up the code and store the pair for its grant; raises OAuthRefusal and AuthenticationError.

    A second use is answered with a refusal that is given back and not raised: raising it would undo the
    end of the grant that comes with it. One statement takes the code, so of any number of uses at once
    one succeeds; a use that does not fit takes nothing.
    """
    _require_known(unit, given.client_id)
    taken = unit.first(
        "UPDATE grants SET redeemed_at = :now WHERE code_hash = :hash AND code_challenge = :challenge"
        " AND redeemed_at IS NULL AND code_expires > :now"
        " AND app = coalesce(:client_id, app) AND redirect_uri = coalesce(:redirect_uri, redirect_uri)"
        " RETURNING id, scopes",
        {
            "hash": hash_secret(given.code),
            "challenge": _challenge_of(given.code_verifier),
            "client_id": given.client_id,
            "redirect_uri": given.redirect_uri,
            "now": unit.now,
        },
    )
    if taken is None:
        return _refuse_code(unit, given)
    _require_good(unit, taken["id"])
    return _store(unit, taken["id"], json.loads(taken["scopes"]), json.loads(taken["scopes"]), pair)


def refresh(
    unit: Unit, refresh_token: str, pair: TokenPair, client_id: str | None = None, scope: str | None = None
) -> OAuthTokens | OAuthRefusal:
    """Use up the refresh token and store the pair in its place, as `redeem` does with a code.

    `scope` can ask for an access token that may do less than the grant allows (RFC 6749, 6).
    """
    _require_known(unit, client_id)
    used = unit.first(
        "UPDATE oauth_tokens SET used_at = :now"
        " WHERE hash = :hash AND kind = 'refresh' AND used_at IS NULL AND expires > :now"
        " RETURNING grant_id, scopes",
        {"hash": hash_secret(refresh_token), "now": unit.now},
    )
    if used is None:
        return _refuse_refresh(unit, refresh_token)
    if client_id not in (None, _require_good(unit, used["grant_id"])):
        raise OAuthRefusal("invalid_grant", "The refresh token was given to another app.", "client_id")
    granted: list[str] = json.loads(used["scopes"])
    wanted = granted if scope is None else parse_scopes(scope)
    if not set(wanted) <= set(granted):
        raise OAuthRefusal("invalid_scope", "The user did not allow all of this scope.", "scope")
    return _store(unit, used["grant_id"], granted, wanted, pair)


def give_back(unit: Unit, token: str, client_id: str | None = None) -> None:
    """End the grant of an access or a refresh token (RFC 7009); nothing for a value that is none.

    Raises OAuthRefusal when the token was given to another app than `client_id`.
    """
    _require_known(unit, client_id)
    row = unit.first(
        "SELECT t.grant_id, g.app FROM oauth_tokens AS t JOIN grants AS g ON g.id = t.grant_id"
        " WHERE t.hash = :hash",
        {"hash": hash_secret(token)},
    )
    if row is None:
        return
    if client_id not in (None, row["app"]):
        raise OAuthRefusal("invalid_grant", "The token was given to another app.", "client_id")
    _revoke(unit, row["grant_id"])


def revoke_all_of(unit: Unit, user: str) -> None:
    """End everything the user allowed, codes not yet redeemed included, and sign the user out everywhere."""
    unit.execute(
        "UPDATE grants SET revoked_at = :now WHERE user_id = :user AND revoked_at IS NULL",
        {"user": user, "now": unit.now},
    )
    sign_ins.end_all_of(unit, user)
    unit.announce(api_keys.TOPIC)


def _revoke(unit: Unit, id: str) -> None:
    unit.execute(
        "UPDATE grants SET revoked_at = :now WHERE id = :id AND revoked_at IS NULL",
        {"id": id, "now": unit.now},
    )
    unit.announce(api_keys.TOPIC)


def _challenge_of(verifier: str) -> str | None:
    """The S256 challenge of a verifier, None for what is none (RFC 7636, 4.2)."""
    if not _VERIFIER.fullmatch(verifier):
        return None
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).decode().rstrip("=")


def _require_known(unit: Unit, client_id: str | None) -> None:
    try:
        if client_id is not None:
            apps.find(unit, client_id)
    except NotFound:
        raise AuthenticationError("invalid_credential", "The app is not known.", "client_id") from None


def _require_good(unit: Unit, id: str) -> str:
    """The app that the grant was given to; raises OAuthRefusal when the grant has ended."""
    row = unit.first(
        "SELECT g.app, coalesce(g.revoked_at, a.deleted_at, u.deactivated_at, p.archived_at) AS ended"
        " FROM grants AS g JOIN apps AS a ON a.id = g.app JOIN users AS u ON u.id = g.user_id"
        " JOIN projects AS p ON p.id = a.project WHERE g.id = :id",
        {"id": id},
    )
    assert row is not None
    if row["ended"] is not None:
        raise OAuthRefusal("invalid_grant", "What the user allowed was revoked.")
    return str(row["app"])


def _refuse_code(unit: Unit, given: Redemption) -> OAuthRefusal:
    row = unit.first("SELECT * FROM grants WHERE code_hash = :hash", {"hash": hash_secret(given.code)})
    if row is None:
        return OAuthRefusal("invalid_grant", "The code is not known.", "code")
    if row["redeemed_at"] is not None:
        _revoke(unit, row["id"])
        return OAuthRefusal("invalid_grant", "The code was used before; what it gave is revoked.", "code")
    return _mismatch(row, given, unit.now)


def _mismatch(grant: Row, given: Redemption, now: int) -> OAuthRefusal:
    if grant["code_expires"] <= now:
        return OAuthRefusal(
            "invalid_grant", f"The code has expired; it lasts {CODE_SECONDS} seconds.", "code"
        )
    if given.client_id not in (None, grant["app"]):
        return OAuthRefusal("invalid_grant", "The code was given to another app.", "client_id")
    if given.redirect_uri not in (None, grant["redirect_uri"]):
        return OAuthRefusal("invalid_grant", "The code was sent to another redirect_uri.", "redirect_uri")
    return OAuthRefusal("invalid_grant", "code_verifier is not that of the code_challenge.", "code_verifier")


def _refuse_refresh(unit: Unit, refresh_token: str) -> OAuthRefusal:
    row = unit.first(
        "SELECT grant_id, used_at FROM oauth_tokens WHERE hash = :hash AND kind = 'refresh'",
        {"hash": hash_secret(refresh_token)},
    )
    if row is None:
        return OAuthRefusal("invalid_grant", "The refresh token is not known.", "refresh_token")
    if row["used_at"] is not None:
        _revoke(unit, row["grant_id"])
        return OAuthRefusal(
            "invalid_grant", "The refresh token was used before; what came of it is revoked.", "refresh_token"
        )
    return OAuthRefusal("invalid_grant", "The refresh token has expired.", "refresh_token")


def _store(unit: Unit, grant: str, granted: list[str], wanted: list[str], pair: TokenPair) -> OAuthTokens:
    kept = (
        (pair.access_token, "access", wanted, ACCESS_SECONDS),
        (pair.refresh_token, "refresh", granted, REFRESH_SECONDS),
    )
    for value, kind, scopes, seconds in kept:
        unit.execute(
            "INSERT INTO oauth_tokens (hash, kind, grant_id, scopes, created, expires)"
            " VALUES (:hash, :kind, :grant, :scopes, :now, :expires)",
            {
                "hash": hash_secret(value),
                "kind": kind,
                "grant": grant,
                "scopes": dumps(scopes),
                "now": unit.now,
                "expires": unit.now + seconds * 1000,
            },
        )
    unit.execute(
        "UPDATE grants SET expires = :expires WHERE id = :id",
        {"id": grant, "expires": unit.now + REFRESH_SECONDS * 1000},
    )
    _forget_expired(unit)
    return OAuthTokens(
        pair.access_token, pair.token_type, pair.expires_in, pair.refresh_token, " ".join(wanted)
    )


def _forget_expired(unit: Unit) -> None:
    """Each new pair clears away what expired long ago, so that the tables keep their size by themselves."""
    long_ago = {"expired": unit.now - _FORGOTTEN_AFTER_MS}
    unit.execute("DELETE FROM oauth_tokens WHERE expires < :expired", long_ago)
    # A grant expires no earlier than the last of its tokens.
    unit.execute("DELETE FROM grants WHERE expires < :expired", long_ago)
