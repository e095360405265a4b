"""Conditional reads: the tags of answers that depend on a book alone (docs/conventions.md#conditional-reads).

A tag names the book's newest event, as every change of an account, a transaction, an invoice or an order has
one, and the URL.
"""

from __future__ import annotations

from functools import partial
from zlib import crc32

from ledger_engine import __version__
from ledger_engine.core.tenant import Tenant
from ledger_engine.events import outbox
from ledger_engine.store import BookKey
from ledger_engine.store.engine import Engine

_BOOKS_MAX = 10_000  # that are remembered


class Etags:
    """The tags of one engine's answers. Those of another `generation` never match.

    A tag is read before the answer, so the answer is as new as its tag or newer. Where a read takes a round
    trip, an answer to a request without a condition has the tag that was read last, and so perhaps an older
    one: then the next condition fails once more than it must.
    """

    def __init__(self, engine: Engine, generation: str = "") -> None:
        self._engine = engine
        self._known: dict[BookKey, str] = {}
        self._salt = crc32(f"{__version__} {generation}".encode())

    async def of(self, tenant: Tenant, target: bytes, *, exact: bool) -> bytes | None:
        """Return the tag of the answer to `target`; None in a copy of another server.

        Only one that is `exact` may be compared with that of a request.
        """
        work = partial(outbox.last_change, tenant=tenant)
        read = self._engine.read_at_once(work)
        newest = self._known.get(tenant.book) if read is None else read[0]
        if read is None and (exact or newest is None):
            newest = await self._engine.read(work)
            # A book can be emptied (test helpers), and then the tag of its first objects would be true again.
            if newest is not None and newest != outbox.BEFORE_ALL:
                if len(self._known) >= _BOOKS_MAX:
                    self._known.clear()
                self._known[tenant.book] = newest
        if newest is None:
            return None
        return b'"%b-%08x"' % (newest[4:].encode(), crc32(target, self._salt))


def matches(tag: bytes, condition: bytes) -> bool:
    """Return whether `If-None-Match` names the tag, also as a weak one, as proxies that compress make it."""
    return any(part.strip().removeprefix(b"W/") == tag for part in condition.split(b","))
