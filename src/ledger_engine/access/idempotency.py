"""Idempotency keys: each creates one object, once and for ever (docs/decisions.md#idempotency)."""

from __future__ import annotations

from ledger_engine.core.errors import DuplicateIdempotencyKey, InvalidRequest
from ledger_engine.core.masking import holds_secret
from ledger_engine.core.tenant import Tenant
from ledger_engine.database import Unit

HEADER = "Idempotency-Key"


def parse(key: str | None) -> str | None:
    """Return the key as it was sent.

    Raises InvalidRequest unless it is 1 to 255 printable ASCII characters and contains no secret.
    """
    if key is None:
        return None
    if not 1 <= len(key) <= 255 or not key.isascii() or not key.isprintable():
        raise InvalidRequest(
            "invalid_value", f"{HEADER} must be 1 to 255 printable ASCII characters.", HEADER
        )
    if holds_secret(key):  # it would be stored, and logged with the request, in clear text
        raise InvalidRequest(
            "invalid_value",
            f"{HEADER} looks like a secret; idempotency keys are stored as they are, so send another value.",
            HEADER,
        )
    return key


def taken_for(unit: Unit, tenant: Tenant, key: str) -> str | None:
    """Return the id of the object that the key has created, None while it is unused."""
    row = unit.first(
        "SELECT object FROM idempotency_keys"
        " WHERE project = :project AND livemode = :livemode AND key = :key",
        tenant.bind(key=key),
    )
    return None if row is None else str(row["object"])


def take(unit: Unit, tenant: Tenant, key: str | None, object: str) -> None:
    """Store `key`, unless it is None, with the id of the object, in the commit that creates the object.

    Each project and mode has its own keys. Raises DuplicateIdempotencyKey when the key was used before. When
    the work fails afterwards, the key is unused again.
    """
    if key is None:
        return
    taken = unit.execute(
        "INSERT INTO idempotency_keys (project, livemode, key, object, created)"
        " VALUES (:project, :livemode, :key, :object, :now)"
        " ON CONFLICT (project, livemode, key) DO NOTHING RETURNING object",
        tenant.bind(key=key, object=object, now=unit.now),
    )
    if not taken:
        first = taken_for(unit, tenant, key)
        assert first is not None, "a key that conflicts is there"
        raise DuplicateIdempotencyKey(first)
