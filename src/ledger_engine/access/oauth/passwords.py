"""Passwords of users, for signing in to authorize an application; kept as argon2 hashes alone."""

from __future__ import annotations

import base64
import secrets
import unicodedata
from dataclasses import dataclass

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from ledger_engine.access.oauth import grants
from ledger_engine.core.errors import InvalidRequest, NotFound
from ledger_engine.core.tenant import Scope
from ledger_engine.database import Unit
from ledger_engine.ledger.users import fold

LENGTH_MIN = 8  # characters; below this NIST SP 800-63B takes none
LENGTH_MAX = 1024

_hasher = PasswordHasher()


@dataclass(frozen=True, slots=True)
class Login:
    """A user who may sign in, and the hash of their password."""

    user: str
    hashed: str


def hash_password(password: str) -> str:
    """The hash to store, slow on purpose: made outside of the work that stores it. Raises InvalidRequest."""
    if not LENGTH_MIN <= len(password) <= LENGTH_MAX:
        raise InvalidRequest(
            "invalid_value", f"A password has {LENGTH_MIN} to {LENGTH_MAX:,} characters.", "password"
        )
    return _hasher.hash(_normal(password))


def is_right(login: Login | None, password: str) -> bool:
    """Whether the password is that of the login, slow on purpose, and as slow when there is none."""
    try:
        _hasher.verify(_NOBODYS if login is None else login.hashed, _normal(password))
    except (VerificationError, InvalidHashError):
        return False
    return login is not None


def find(unit: Unit, project: str, livemode: bool, email: str) -> Login | None:
    """The login of the active user with this address, None also for one who has no password."""
    row = unit.first(
        "SELECT id, password_hash FROM users WHERE project = :project AND livemode = :livemode"
        " AND status = 'active' AND email_folded = :email",
        {"project": project, "livemode": livemode, "email": fold(email)},
    )
    return None if row is None or row["password_hash"] is None else Login(row["id"], row["password_hash"])


def set_password(unit: Unit, scope: Scope, email: str, hashed: str) -> str:
    """Give the active user with this address a password; the user's id. Raises NotFound.

    Who knew the former one may have used it, so the user is signed out everywhere, and what they
    allowed to apps ends.
    """
    row = unit.first(
        "UPDATE users SET password_hash = :hashed WHERE project = :project AND livemode = :livemode"
        " AND status = 'active' AND email_folded = :email RETURNING id",
        scope.bind(hashed=hashed, email=fold(email)),
    )
    if row is None:
        raise NotFound("active user", email)
    grants.revoke_all_of(unit, row["id"])
    return str(row["id"])


def _normal(password: str) -> str:
    """The same text for what looks the same, however a keyboard encodes it (NIST SP 800-63B)."""
    return unicodedata.normalize("NFKC", password)


def _hash_of_nobody() -> str:
    """What costs as much to compare with as a user's hash; no password fits it."""
    salt, digest = (
        base64.b64encode(secrets.token_bytes(length)).decode().rstrip("=")
        for length in (_hasher.salt_len, _hasher.hash_len)
    )
    cost = f"m={_hasher.memory_cost},t={_hasher.time_cost},p={_hasher.parallelism}"
    return f"$argon2id$v=19${cost}${salt}${digest}"


_NOBODYS = _hash_of_nobody()
