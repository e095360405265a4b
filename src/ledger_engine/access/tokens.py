"""Tokens: an access token for an hour, and a refresh token to get the next pair.

See docs/interface.md#auth-access-token, #auth-refresh-once. Both stand for the API key they came from: its
project, mode, role and scopes, for as long as it is valid.
"""

from __future__ import annotations

from dataclasses import dataclass

from ledger_engine.access import credentials
from ledger_engine.access.api_keys import hash_secret, new_secret
from ledger_engine.core.clock import DAY
from ledger_engine.core.errors import AuthenticationError, ExpiredCredential
from ledger_engine.store import Unit, kept_time

ACCESS_SECONDS = 3600
REFRESH_SECONDS = 30 * 86_400
# milliseconds; until then an expired token is answered as expired, afterwards as unknown
FORGOTTEN_AFTER_MS = 7 * DAY
FORGOTTEN_AT_ONCE = 100  # after a long pause there may be many, and others wait for the commit


@dataclass(slots=True)
class TokenPair:
    """The values of one access and one refresh token; `expires_in` is the access token's, in seconds."""

    access_token: str
    token_type: str
    expires_in: int
    refresh_token: str


def new_pair() -> TokenPair:
    """Return fresh values; made outside of the work that stores them, as they are random."""
    return TokenPair(new_secret("at"), "Bearer", ACCESS_SECONDS, new_secret("rt"))


def exchange(unit: Unit, api_key: str, pair: TokenPair) -> TokenPair:
    """Store the pair for the API key with this value; raises AuthenticationError unless the key is valid."""
    key = credentials.find_key(unit, api_key, "api_key")
    return _store(unit, key.id, pair)


def refresh(unit: Unit, refresh_token: str, pair: TokenPair) -> TokenPair:
    """Use up the refresh token and store the pair in its place; raises AuthenticationError.

    One statement marks the token as used, so of several uses at once only one succeeds.
    """
    used = unit.first(
        "UPDATE tokens SET used_at = :now"
        " WHERE hash = :hash AND kind = 'refresh' AND used_at IS NULL AND expires > :now RETURNING api_key",
        {"hash": hash_secret(refresh_token), "now": unit.now},
    )
    if used is None:
        raise _refusal(unit, refresh_token)
    credentials.require_valid_key(unit, used["api_key"], "refresh_token")
    return _store(unit, used["api_key"], pair)


def _refusal(unit: Unit, refresh_token: str) -> AuthenticationError:
    row = unit.first(
        "SELECT used_at, expires FROM tokens WHERE hash = :hash AND kind = 'refresh'",
        {"hash": hash_secret(refresh_token)},
    )
    if row is None:
        return AuthenticationError("invalid_credential", "The refresh token is not valid.", "refresh_token")
    if row["used_at"] is not None:
        return AuthenticationError(
            "invalid_credential", "The refresh token has already been used; each works once.", "refresh_token"
        )
    return ExpiredCredential("The refresh token has expired.", row["expires"], "refresh_token")


def _store(unit: Unit, api_key: str, pair: TokenPair) -> TokenPair:
    secrets = (
        (pair.access_token, "access", ACCESS_SECONDS),
        (pair.refresh_token, "refresh", REFRESH_SECONDS),
    )
    for value, kind, seconds in secrets:
        unit.execute(
            "INSERT INTO tokens (hash, kind, api_key, created, expires)"
            " VALUES (:hash, :kind, :api_key, :now, :expires)",
            {
                "hash": hash_secret(value),
                "kind": kind,
                "api_key": api_key,
                "now": unit.now,
                "expires": unit.now + seconds * 1000,
            },
        )
    # Each new pair deletes some that expired long ago, so that the table does not grow for ever.
    unit.execute(
        "DELETE FROM tokens WHERE hash IN"
        " (SELECT hash FROM tokens WHERE expires < :expired ORDER BY expires LIMIT :limit)",
        {"expired": kept_time.long_ago(unit, FORGOTTEN_AFTER_MS), "limit": FORGOTTEN_AT_ONCE},
    )
    return pair
