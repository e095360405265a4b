"""Idempotency keys: each makes one object, once and for ever (decisions.md 5)."""

from __future__ import annotations

from ledger_engine.core.errors import DuplicateIdempotencyKey, InvalidRequest
from ledger_engine.core.masking import holds_secret
from ledger_engine.core.tenant import Scope
from ledger_engine.database import Unit

HEADER = "Idempotency-Key"


def parse(key: str | None) -> str | None:
    """The key as sent; raises InvalidRequest unless it is 1 to 255 printable ASCII characters, no secret."""
    if key is None:
        return None
    if not 1 <= len(key) <= 255 or not key.isascii() or not key.isprintable():
        raise InvalidRequest(
            "invalid_value", f"{HEADER} must be 1 to 255 printable ASCII characters.", HEADER
        )
    if holds_secret(key):  # it would be stored in the clear, and stand in the request log
        raise InvalidRequest(
            "invalid_value", f"{HEADER} looks like a secret, and is kept; send a key of its own.", HEADER
        )
    return key


def taken_for(unit: Unit, scope: Scope, key: str) -> str | None:
    """The id of the object that the key has made, None while it is free."""
    row = unit.first(
        "SELECT object FROM idempotency_keys"
        " WHERE project = :project AND livemode = :livemode AND key = :key",
        scope.bind(key=key),
    )
    return None if row is None else str(row["object"])


def take(unit: Unit, scope: Scope, key: str | None, object: str) -> None:
    """Take `key`, if there is one, for the object with this id, in the commit that makes the object.

    There is one space of keys for each project and mode. Raises DuplicateIdempotencyKey when the key
    is taken; a work that fails afterwards gives it back with all else.
    """
    if key is None:
        return
    taken = unit.execute(
        "INSERT INTO idempotency_keys (project, livemode, key, object, created)"
        " VALUES (:project, :livemode, :key, :object, :now)"
        " ON CONFLICT (project, livemode, key) DO NOTHING RETURNING object",
        scope.bind(key=key, object=object, now=unit.now),
    )
    if not taken:
        first = taken_for(unit, scope, key)
        assert first is not None, "a key that conflicts is there"
        raise DuplicateIdempotencyKey(first)
