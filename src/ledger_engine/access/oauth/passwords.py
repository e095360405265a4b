"""The passwords with which users sign in to authorize an app. The ledger stores only their argon2 hashes."""

from __future__ import annotations

import base64
import secrets
import unicodedata
from dataclasses import dataclass

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from ledger_engine.access.oauth import grants
from ledger_engine.core.emails import fold
from ledger_engine.core.errors import InvalidRequest, NotFound
from ledger_engine.core.tenant import Tenant
from ledger_engine.store import Unit

LENGTH_MIN = 8  # characters; NIST SP 800-63B allows no fewer
LENGTH_MAX = 1024

_hasher = PasswordHasher()


@dataclass(frozen=True, slots=True)
class Login:
    """The id of a user who may sign in, and the hash of the user's password."""

    user: str
    password_hash: str


def hash_password(password: str) -> str:
    """Return the hash of a new password. Raises InvalidRequest.

    Hashing is slow on purpose, so call this outside the transaction that stores the hash.
    """
    if not LENGTH_MIN <= len(password) <= LENGTH_MAX:
        raise InvalidRequest(
            "invalid_value", f"A password has {LENGTH_MIN} to {LENGTH_MAX:,} characters.", "password"
        )
    return _hasher.hash(_normal(password))


def is_right(login: Login | None, password: str) -> bool:
    """Return whether `password` is the password of `login`. If `login` is None, return False.

    The comparison is slow on purpose. If `login` is None, it takes as long as with a login, because the time
    must not reveal which email addresses belong to users.
    """
    try:
        _hasher.verify(_DUMMY_HASH if login is None else login.password_hash, _normal(password))
    except (VerificationError, InvalidHashError):
        return False
    return login is not None


def find(unit: Unit, project: str, livemode: bool, email: str) -> Login | None:
    """Return the login of the active user with this email address.

    Return None if there is no such user, or if the user has no password.
    """
    row = unit.first(
        "SELECT id, password_hash FROM users WHERE project = :project AND livemode = :livemode"
        " AND status = 'active' AND email_folded = :email",
        {"project": project, "livemode": livemode, "email": fold(email)},
    )
    return None if row is None or row["password_hash"] is None else Login(row["id"], row["password_hash"])


def set_password(unit: Unit, tenant: Tenant, email: str, password_hash: str) -> str:
    """Set the password of the active user with this email address, and return the user's id.

    This signs the user out everywhere, and ends the permissions that the user gave to apps, because somebody
    else may have used the former password. Raises NotFound.
    """
    row = unit.first(
        "UPDATE users SET password_hash = :hashed WHERE project = :project AND livemode = :livemode"
        " AND status = 'active' AND email_folded = :email RETURNING id",
        tenant.bind(hashed=password_hash, email=fold(email)),
    )
    if row is None:
        raise NotFound("active user", email)
    grants.revoke_all_of(unit, row["id"])
    return str(row["id"])


def _normal(password: str) -> str:
    """Return the password in a normal form, so that texts that look the same are equal (NIST SP 800-63B)."""
    return unicodedata.normalize("NFKC", password)


def _dummy_hash() -> str:
    """Return a hash that no password matches.

    Comparing a password with this hash takes as long as comparing it with a user's hash.
    """
    salt, digest = (
        base64.b64encode(secrets.token_bytes(length)).decode().rstrip("=")
        for length in (_hasher.salt_len, _hasher.hash_len)
    )
    cost = f"m={_hasher.memory_cost},t={_hasher.time_cost},p={_hasher.parallelism}"
    return f"$argon2id$v=19${cost}${salt}${digest}"


_DUMMY_HASH = _dummy_hash()
