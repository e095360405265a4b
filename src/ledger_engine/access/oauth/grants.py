"""Grants: the permissions that users gave to apps, each with its one-time code and its tokens.

A code or a refresh token works once. If two requests use the same code or token, one of the requests may come
from a thief. The server cannot know which request comes from the thief, so it ends the whole grant (RFC 6749,
4.1.2; RFC 9700, 4.14.2).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated

from ledger_engine.access import api_keys
from ledger_engine.access.api_keys import hash_secret
from ledger_engine.access.credentials import (
    ACCESS_SECONDS,
    FORGOTTEN_AFTER_MS,
    FORGOTTEN_AT_ONCE,
    REFRESH_SECONDS,
    TokenPair,
)
from ledger_engine.access.oauth import sign_ins
from ledger_engine.core.records import OneOf, dumps
from ledger_engine.store import Unit, kept_time
from ledger_engine.store.rows import insert

CODE_SECONDS = 60
# Maps a scope to the lowest role that can grant the scope. Every role can grant a scope that is not listed
# here (docs/interface.md#scopes).
LEAST_ROLE = {"admin:billing": "owner"}
# A result column of a query on `grants AS g`: whether the grant has ended.
_ENDED = "coalesce(g.revoked_at, a.deleted_at, u.deactivated_at, p.archived_at) IS NOT NULL AS ended"
_OWNERS = "JOIN apps AS a ON a.id = g.app JOIN users AS u ON u.id = g.user_id"
_OWNERS_AND_PROJECT = f"{_OWNERS} JOIN projects AS p ON p.id = a.project"


@dataclass(frozen=True, slots=True)
class NewGrant:
    """An app's request that a user allows; `code_challenge` is the S256 challenge of RFC 7636."""

    app: str
    redirect_uri: str
    scopes: list[str]
    code_challenge: str


@dataclass(frozen=True, slots=True)
class Code:
    """A one-time code, with its grant and the rights that an app gets in exchange for the code.

    `ended` means that the grant was revoked, the app deleted, the user deactivated or the project archived.
    """

    grant: str
    app: str
    user: str
    scopes: list[str]
    redirect_uri: str
    code_challenge: str
    redeemed: bool
    expired: bool
    ended: bool


@dataclass(frozen=True, slots=True)
class Token:
    """An access or a refresh token; its `kind` is `access` or `refresh`.

    `scopes` are the token's scopes. An access token can have fewer scopes than the user granted.
    """

    hash: str
    kind: str
    grant: str
    app: str
    user: str
    scopes: list[str]
    used: bool
    expired: bool
    ended: bool


@dataclass(slots=True)
class OAuthTokens:
    """A pair of tokens of a grant.

    The access token is valid for `expires_in` seconds. `scope` lists its scopes, separated by spaces.
    """

    access_token: str
    token_type: Annotated[str, OneOf("Bearer")]
    expires_in: int
    refresh_token: str
    scope: str


class AnsweredBefore(Exception):
    """The user's form was sent before, and the code from the first time is no longer valid."""


def record(unit: Unit, new: NewGrant, user: str, code: str) -> None:
    """Record that the user allows the app's request, and store the one-time code for the app.

    The server computes `code` from the user's form and cookie. So if the user sends the same form again, the
    code is already stored, and nothing changes. There is one exception: if the stored code was used or has
    expired, or if its grant has ended, this function raises AnsweredBefore.
    """
    row = unit.first(
        "INSERT INTO grants (id, app, user_id, scopes, redirect_uri, code_hash, code_challenge, code_expires,"
        " created, expires) VALUES (:id, :app, :user, :scopes, :redirect_uri, :code_hash, :code_challenge,"
        " :code_expires, :now, :code_expires) ON CONFLICT (code_hash) DO NOTHING RETURNING id",
        {
            "id": unit.new_id("gnt"),
            "app": new.app,
            "user": user,
            "scopes": dumps(new.scopes),
            "redirect_uri": new.redirect_uri,
            "code_hash": hash_secret(code),
            "code_challenge": new.code_challenge,
            "code_expires": unit.now + CODE_SECONDS * 1000,
            "now": unit.now,
        },
    )
    if row is None:
        earlier = find_code(unit, code)
        if earlier is None or earlier.redeemed or earlier.expired or earlier.ended:
            raise AnsweredBefore


def find_code(unit: Unit, code: str) -> Code | None:
    """Return the stored code with this value, used or not; None if no stored code has this value.

    If the code has expired, this function stores the ledger's time. After a restart the ledger's clock
    continues after this time, so the code stays expired even if somebody has set the machine's clock back.
    """
    row = unit.first(
        f"SELECT g.*, {_ENDED} FROM grants AS g {_OWNERS_AND_PROJECT} WHERE g.code_hash = :hash",
        {"hash": hash_secret(code)},
    )
    if row is None:
        return None
    is_late = _has_expired(unit, row["code_expires"])
    return Code(
        grant=row["id"],
        app=row["app"],
        user=row["user_id"],
        scopes=json.loads(row["scopes"]),
        redirect_uri=row["redirect_uri"],
        code_challenge=row["code_challenge"],
        redeemed=row["redeemed_at"] is not None,
        expired=is_late,
        ended=bool(row["ended"]),
    )


def take_code(unit: Unit, code: Code) -> bool:
    """Mark the code as used; return False if it was already used or has expired.

    One statement checks and marks the code. So if several requests use the code at the same time, exactly one
    of them succeeds.
    """
    row = unit.first(
        "UPDATE grants SET redeemed_at = :now WHERE id = :id AND redeemed_at IS NULL AND code_expires > :now"
        " RETURNING id",
        {"id": code.grant, "now": unit.now},
    )
    return row is not None


def find_token(unit: Unit, value: str) -> Token | None:
    """Return the stored access or refresh token with this value, used or not; None if no token has it."""
    row = unit.first(
        f"SELECT t.*, g.app, g.user_id, {_ENDED} FROM oauth_tokens AS t JOIN grants AS g ON g.id = t.grant_id"
        f" {_OWNERS_AND_PROJECT} WHERE t.hash = :hash",
        {"hash": hash_secret(value)},
    )
    if row is None:
        return None
    return Token(
        hash=row["hash"],
        kind=row["kind"],
        grant=row["grant_id"],
        app=row["app"],
        user=row["user_id"],
        scopes=json.loads(row["scopes"]),
        used=row["used_at"] is not None,
        expired=_has_expired(unit, row["expires"]),
        ended=bool(row["ended"]),
    )


def take_refresh_token(unit: Unit, token: Token) -> bool:
    """Mark the refresh token as used; return False if it was already used or has expired. See `take_code`."""
    row = unit.first(
        "UPDATE oauth_tokens SET used_at = :now"
        " WHERE hash = :hash AND kind = 'refresh' AND used_at IS NULL AND expires > :now RETURNING hash",
        {"hash": token.hash, "now": unit.now},
    )
    return row is not None


def revoke_all_of(unit: Unit, user: str) -> None:
    """End all grants of the user, unused codes included, and sign the user out everywhere."""
    unit.execute(
        "UPDATE grants SET revoked_at = :now WHERE user_id = :user AND revoked_at IS NULL",
        {"user": user, "now": unit.now},
    )
    sign_ins.end_all_of(unit, user)
    unit.announce(api_keys.TOPIC)


def revoke_all_for(unit: Unit, app: str) -> None:
    """End all grants of the app."""
    unit.execute(
        "UPDATE grants SET revoked_at = :now WHERE app = :app AND revoked_at IS NULL",
        {"app": app, "now": unit.now},
    )
    unit.announce(api_keys.TOPIC)


def revoke(unit: Unit, grant: str) -> None:
    """End a grant and all its tokens."""
    unit.execute(
        "UPDATE grants SET revoked_at = :now WHERE id = :id AND revoked_at IS NULL",
        {"id": grant, "now": unit.now},
    )
    unit.announce(api_keys.TOPIC)


def store(
    unit: Unit, grant: str, granted_scopes: list[str], token_scopes: list[str], pair: TokenPair
) -> None:
    """Store a pair of tokens for a grant.

    The access token gets the scopes `token_scopes`, and the refresh token the scopes `granted_scopes`.
    """
    secrets = (
        (pair.access_token, "access", token_scopes, ACCESS_SECONDS),
        (pair.refresh_token, "refresh", granted_scopes, REFRESH_SECONDS),
    )
    for value, kind, scopes, seconds in secrets:
        token = {"hash": hash_secret(value), "kind": kind, "grant_id": grant, "scopes": dumps(scopes)}
        insert(unit, "oauth_tokens", token | {"created": unit.now, "expires": unit.now + seconds * 1000})
    unit.execute(
        "UPDATE grants SET expires = :expires WHERE id = :id",
        {"id": grant, "expires": unit.now + REFRESH_SECONDS * 1000},
    )
    _forget_expired(unit)


def _has_expired(unit: Unit, expires: int) -> bool:
    if expires > unit.now:
        return False
    kept_time.reach(unit, expires)
    return True


def _forget_expired(unit: Unit) -> None:
    """Delete some rows that expired long ago.

    `store` calls this for each new pair of tokens, so that the tables do not grow for ever.
    """
    long_ago = {"expired": unit.now - FORGOTTEN_AFTER_MS, "limit": FORGOTTEN_AT_ONCE}
    unit.execute(
        "DELETE FROM oauth_tokens WHERE hash IN"
        " (SELECT hash FROM oauth_tokens WHERE expires < :expired ORDER BY expires LIMIT :limit)",
        long_ago,
    )
    # A grant expires no earlier than its last token. If this call has not deleted all tokens of a grant, the
    # grant stays, and a later call deletes it.
    unit.execute(
        "DELETE FROM grants WHERE id IN"
        " (SELECT id FROM grants WHERE expires < :expired ORDER BY expires LIMIT :limit)"
        " AND NOT EXISTS (SELECT 1 FROM oauth_tokens AS t WHERE t.grant_id = grants.id)",
        long_ago,
    )
