"""Sign-ins: a user signs in with a browser to allow or deny the requests of apps."""

from __future__ import annotations

from dataclasses import dataclass

from ledger_engine.access.api_keys import hash_secret
from ledger_engine.access.credentials import FORGOTTEN_AT_ONCE
from ledger_engine.store import Unit

# A sign-in lasts for 12 hours, enough for a working day, or until the browser is closed.
LASTS_MS = 12 * 3_600_000


@dataclass(slots=True)
class SignedInUser:
    """The signed-in user, with the user's current role."""

    user: str
    name: str
    email: str
    role: str
    project: str
    livemode: bool


def begin(unit: Unit, user: str, password_hash: str, value: str, replaces: str | None) -> bool:
    """Sign a user in: from now on, a browser whose cookie has this `value` belongs to the user.

    `replaces` is the value of the browser's former cookie; the sign-in with this value ends. The caller has
    compared the password with `password_hash`. Return False if the user was deactivated or the password was
    changed since this comparison.
    """
    login = unit.first(
        "SELECT 1 FROM users WHERE id = :user AND status = 'active' AND password_hash = :hashed",
        {"user": user, "hashed": password_hash},
    )
    if login is None:
        return False
    if replaces is not None:
        end(unit, replaces)
    unit.execute(
        "DELETE FROM sign_ins WHERE hash IN"
        " (SELECT hash FROM sign_ins WHERE expires <= :now ORDER BY expires LIMIT :limit)",
        {"now": unit.now, "limit": FORGOTTEN_AT_ONCE},
    )
    unit.execute(
        "INSERT INTO sign_ins (hash, user_id, created, expires) VALUES (:hash, :user, :now, :expires)",
        {"hash": hash_secret(value), "user": user, "now": unit.now, "expires": unit.now + LASTS_MS},
    )
    return True


def find(unit: Unit, value: str) -> SignedInUser | None:
    """Return the user who is signed in with this value of the cookie; None if nobody is."""
    row = unit.first(
        "SELECT u.* FROM sign_ins AS s JOIN users AS u ON u.id = s.user_id"
        " JOIN projects AS p ON p.id = u.project WHERE s.hash = :hash AND s.expires > :now"
        " AND u.status = 'active' AND p.archived_at IS NULL",
        {"hash": hash_secret(value), "now": unit.now},
    )
    if row is None:
        return None
    return SignedInUser(
        row["id"], row["name"], row["email"], row["role"], row["project"], bool(row["livemode"])
    )


def expired_at(unit: Unit, value: str) -> int | None:
    """Return when the sign-in with this value of the cookie expired, in milliseconds.

    Return None if this sign-in has not expired, or does not exist.
    """
    row = unit.first(
        "SELECT expires FROM sign_ins WHERE hash = :hash AND expires <= :now",
        {"hash": hash_secret(value), "now": unit.now},
    )
    return None if row is None else row["expires"]


def end(unit: Unit, value: str) -> None:
    """End the sign-in with this value of the cookie."""
    unit.execute("DELETE FROM sign_ins WHERE hash = :hash", {"hash": hash_secret(value)})


def end_all_of(unit: Unit, user: str) -> None:
    """End all sign-ins of the user."""
    unit.execute("DELETE FROM sign_ins WHERE user_id = :user", {"user": user})
