"""Idempotency keys: only one request can succeed with each key, for ever (docs/decisions.md#idempotency)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import ClassVar

from ledger_engine.core.errors import DuplicateIdempotencyKey, InvalidRequest
from ledger_engine.core.masking import holds_secret
from ledger_engine.core.tenant import Tenant
from ledger_engine.store import GroupCache, Unit

HEADER = "Idempotency-Key"
_COLUMNS = ("project", "livemode", "key", "object", "created", "fingerprint")
_READ_TOGETHER = 32
_NAMES = [f"key{number}" for number in range(_READ_TOGETHER)]
_READ = (
    "SELECT key FROM idempotency_keys WHERE project = :project AND livemode = :livemode AND key IN ("
    + ", ".join(f":{name}" for name in _NAMES)
    + ")"
)


class UnusedKeys:
    """The keys of one book (a project's test or live mode) that are known to be unused.

    For such a key, the function `take` needs no query. The engine commits the works of several requests as
    one *group*. With PostgreSQL, `prefetch` in `store.group_cache` looks up the keys of all postings in a
    group together, before the group runs. Implements the protocol `CachedValues` of `store`.
    """

    # The unit drops a cache when a statement changes one of the cache's `tables`. This cache names no table,
    # because it never becomes stale: before a row is added to `idempotency_keys`, the method `take` removes
    # the row's key from the cache.
    tables: ClassVar[frozenset[str]] = frozenset()
    __slots__ = ("_cache", "_keys", "_tenant")

    def __init__(self, cache: GroupCache, tenant: Tenant) -> None:
        self._cache = cache
        self._tenant = tenant
        self._keys: set[str] = set()

    def read(self, keys: Iterable[str]) -> None:
        """Look up which of these keys are unused."""
        distinct = list(dict.fromkeys(keys))
        for first in range(0, len(distinct), _READ_TOGETHER):
            chunk: list[str | None] = [*distinct[first : first + _READ_TOGETHER]]
            self._keys.update(each for each in chunk if each is not None)
            # Fill the list up with None, so that the same statement serves any number of keys.
            chunk += [None] * (_READ_TOGETHER - len(chunk))
            rows = self._cache.execute(_READ, self._tenant.bind(**dict(zip(_NAMES, chunk, strict=True))))
            self._keys.difference_update(row["key"] for row in rows)

    def take(self, key: str) -> bool:
        """Return whether the key is known to be unused; from now on, regard the key as used."""
        if key not in self._keys:
            return False
        self._keys.remove(key)
        return True

    def write(self) -> None:
        """Do nothing: the function `take` of this module stores the rows of new keys."""


def parse(key: str | None) -> str | None:
    """Check the idempotency key of a request, and return it unchanged; None if the request has none.

    Raises InvalidRequest unless the key is 1 to 255 printable ASCII characters and contains no secret.
    """
    if key is None:
        return None
    if not 1 <= len(key) <= 255 or not key.isascii() or not key.isprintable():
        raise InvalidRequest(
            "invalid_value", f"{HEADER} must be 1 to 255 printable ASCII characters.", HEADER
        )
    if holds_secret(key):  # the key is stored and logged as plain text
        raise InvalidRequest(
            "invalid_value",
            f"{HEADER} looks like a secret; idempotency keys are stored as they are, so send another value.",
            HEADER,
        )
    return key


def fingerprint(method: str, target: bytes, body: bytes) -> int:
    """Return a number that is the same for equal requests: a hash of 64 bits, as a signed integer.

    `target` is the path with its query. The bodies of equal requests are equal byte by byte.
    """
    digest = blake2b(b"%b %b\n" % (method.encode(), target), digest_size=8)
    digest.update(body)
    return int.from_bytes(digest.digest(), "big", signed=True)


def second_use(unit: Unit, tenant: Tenant, key: str) -> DuplicateIdempotencyKey | None:
    """Return the error for a key that was used before; return None if the key is unused."""
    row = unit.first(
        "SELECT object, fingerprint, originals FROM idempotency_keys"
        " WHERE project = :project AND livemode = :livemode AND key = :key",
        tenant.bind(key=key),
    )
    if row is None:
        return None
    # A key that was stored by an older version or by a command has no fingerprint to compare.
    comparable = row["fingerprint"] is not None and tenant.fingerprint is not None
    return DuplicateIdempotencyKey(
        row["object"],
        row["fingerprint"] == tenant.fingerprint if comparable else None,
        unfold(row["originals"]),
    )


def take(unit: Unit, tenant: Tenant, key: str | None, object: str) -> None:
    """Store `key` with the id of an object, in the transaction that creates or changes the object.

    If `key` is None, do nothing. Keys are separate for each project and mode. If the transaction fails, the
    key stays unused. Raises DuplicateIdempotencyKey if the key was used before.
    """
    if key is None:
        return
    if unit.cached(UnusedKeys, tenant).take(key):
        row = (tenant.project, int(tenant.livemode), key, object, unit.now, tenant.fingerprint)
        unit.insert_many("idempotency_keys", _COLUMNS, [row])
        return
    rows = unit.execute(
        "INSERT INTO idempotency_keys (project, livemode, key, object, created, fingerprint)"
        " VALUES (:project, :livemode, :key, :object, :now, :fingerprint)"
        " ON CONFLICT (project, livemode, key) DO NOTHING RETURNING object",
        tenant.bind(key=key, object=object, now=unit.now, fingerprint=tenant.fingerprint),
    )
    if not rows:
        used = second_use(unit, tenant, key)
        assert used is not None, "a key that conflicts is stored"
        raise used


def store_ids(unit: Unit, tenant: Tenant, key: str | None, ids: Sequence[str]) -> None:
    """Store the ids of all objects of a request with its key. If `key` is None, do nothing.

    Call `take` first. For a batch, `ids` are the ids of its objects in the order of the batch. For an action,
    the first id belongs to the object to which the action was applied, and the other ids belong to the
    objects that the action created.
    """
    if key is not None:
        unit.execute(
            "UPDATE idempotency_keys SET originals = :originals"
            " WHERE project = :project AND livemode = :livemode AND key = :key",
            tenant.bind(key=key, originals=_fold(ids)),
        )


def _fold(ids: Sequence[str]) -> str:
    """Return ids as one short text: the beginning that all ids share, and then the rest of each id.

    Ids of one batch differ only in their last 9 or 10 letters.
    """
    first, last = min(ids), max(ids)
    letters = zip(first, last, strict=False)
    common = next((position for position, (a, b) in enumerate(letters) if a != b), len(first))
    return " ".join([first[:common], *(id[common:] for id in ids)])


def unfold(text: str | None) -> list[str]:
    """Return the ids in a text that `store_ids` stored, in their order."""
    if text is None:
        return []
    common, *rests = text.split(" ")
    return [common + rest for rest in rests]
