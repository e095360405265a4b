"""Conditional requests: the tags of answers, and conditions that name tags (RFC 9110, 8.8.3 and 13.1).

See docs/conventions.md#conditional-reads and docs/decisions.md#conditional-changes. The tag of one object is
made from its content. The tag of a list is made from the newest event of the book, so the server can
answer 304 for an unchanged list without reading it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from typing import Any
from zlib import crc32

from ledger_engine import __version__
from ledger_engine.core.errors import InvalidRequest, NotFound, PreconditionFailed
from ledger_engine.core.records import JsonObject, as_text
from ledger_engine.core.tenant import Tenant
from ledger_engine.events import outbox
from ledger_engine.store import BookKey, Unit
from ledger_engine.store.engine import Engine

IF_MATCH = "If-Match"
IF_NONE_MATCH = "If-None-Match"
# A client may send these headers in several lines, which together form one list.
LISTS = (IF_MATCH.lower().encode(), IF_NONE_MATCH.lower().encode())
ANY = b"*"
_ITEM = re.compile(rb'[ \t]*((?:W/)?"[\x21\x23-\x7e\x80-\xff]*")?[ \t]*(?:,|\Z)')


def tag_of(body: bytes) -> bytes:
    """Return the tag of one object, made from the object's JSON text."""
    return b'"%b"' % blake2b(body, digest_size=12).hexdigest().encode()


def parse_tags(value: bytes, header: str) -> tuple[bytes, ...]:
    """Return the tags of a header exactly as written; the value `*` is returned as the only tag.

    Raises InvalidRequest for a value that is not a list of tags.
    """
    if value.strip(b" \t") == ANY:
        return (ANY,)
    tags, position = [], 0
    while position < len(value):
        item = _ITEM.match(value, position)
        if item is None:
            break
        if item[1] is not None:
            tags.append(item[1])
        position = item.end()
    if position < len(value) or not tags:
        raise InvalidRequest(
            "invalid_value",
            f'{header} must be * or a list of tags from ETag, each in double quotes: "a1b2".',
            header,
        )
    return tuple(tags)


def matches(tag: bytes, condition: bytes) -> bool:
    """Return whether `If-None-Match` names the tag; a value that is not a list of tags matches nothing.

    The weak form of the tag matches too, because proxies that compress answers make tags weak.
    """
    try:
        tags = parse_tags(condition, IF_NONE_MATCH)
    except InvalidRequest:
        return False
    return tags == (ANY,) or any(name.removeprefix(b"W/") == tag for name in tags)


def require_match(tag: bytes | None, tags: tuple[bytes, ...]) -> None:
    """Raise PreconditionFailed unless `If-Match` names the tag of an object; None means no object.

    This is RFC 9110's strong comparison: a weak tag, `W/"…"`, never matches.
    """
    if tag is None:
        raise PreconditionFailed("If-Match requires that the object exists, but it does not exist now.")
    if tag in tags or tags == (ANY,):
        return
    if b"W/" + tag in tags:
        raise PreconditionFailed(
            "If-Match names a weak tag, W/…, which never matches. A proxy that compresses answers makes"
            " tags weak: ask for the object with Accept-Encoding: identity."
        )
    raise PreconditionFailed(
        "The object has changed since the state that If-Match names. Get it again before you change it."
    )


@dataclass(frozen=True, slots=True)
class Condition:
    """The condition of a change with `If-Match`.

    `tags` must contain the tag of the object that `read` returns for `variables`.
    """

    read: Callable[..., JsonObject]
    variables: dict[str, str]
    tags: tuple[bytes, ...]

    def run(self, unit: Unit, tenant: Tenant, change: Callable[[], Any]) -> Any:
        """Make the change if the condition holds, in the same work. Raises PreconditionFailed if not.

        If the object does not exist, the change raises the same error as without the condition.
        """
        try:
            tag = tag_of(as_text(self.read(unit, tenant, **self.variables)).encode())
        except NotFound:
            change()
            tag = None
        require_match(tag, self.tags)
        return change()


# The tags of lists


_BOOKS_MAX = 10_000  # books whose tags are remembered


class Etags:
    """The tags of one engine's lists. Tags of another `generation` never match.

    A tag names the URL and the book's newest event, because every change of an account, a transaction, an
    invoice or an order records an event.

    A tag is read before the answer, so the answer is as new as its tag or newer. If reading a tag takes a
    round trip to the database, a request without a condition gets the tag that was last read for the book, if
    there is one. This tag may be out of date. Then the client's next conditional request gets the whole list
    although nothing changed.
    """

    def __init__(self, engine: Engine, generation: str = "") -> None:
        self._engine = engine
        self._newest: dict[BookKey, str] = {}
        self._salt = crc32(f"{__version__} {generation}".encode())

    async def of(self, tenant: Tenant, target: bytes, *, exact: bool) -> bytes:
        """Return the tag of the answer to `target`.

        Only an `exact` tag may be compared with the tag of a request.
        """
        work = partial(outbox.last_change, tenant=tenant)
        read = self._engine.read_at_once(work)
        newest = self._newest.get(tenant.book) if read is None else read[0]
        if read is None and (exact or newest is None):
            newest = await self._engine.read(work)
            # Do not remember the tag of a book without events. Otherwise a later list with objects could get
            # this tag, and would count as unchanged after the test helpers empty the book.
            if newest != outbox.BEFORE_ALL:
                if len(self._newest) >= _BOOKS_MAX:
                    self._newest.clear()
                self._newest[tenant.book] = newest
        assert newest is not None
        return b'"%b-%08x"' % (newest[4:].encode(), crc32(target, self._salt))
