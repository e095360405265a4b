"""Conditional requests: the tags in `ETag`, and their comparison with `If-Match` and `If-None-Match`.

See RFC 9110, 8.8.3 and 13.1, docs/conventions.md#conditional-reads and docs/decisions.md#conditional-changes.
The tag of one object is made from its content. The tag of a list is made from the id of the newest event in
the list's book. (A book is the test or the live mode of a project.) So the server can answer 304 for an
unchanged list without reading the list.
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
# A client may repeat these headers; their values together form one list.
LISTS = (IF_MATCH.lower().encode(), IF_NONE_MATCH.lower().encode())
ANY = b"*"
# Matches one item in a list of tags: a tag or nothing, and then a comma or the end of the list.
_ITEM = re.compile(rb'[ \t]*((?:W/)?"[\x21\x23-\x7e\x80-\xff]*")?[ \t]*(?:,|\Z)')


def tag_of(body: bytes) -> bytes:
    """Return the tag of one object, made from the object's JSON text."""
    return b'"%b"' % blake2b(body, digest_size=12).hexdigest().encode()


def parse_tags(value: bytes, header: str) -> tuple[bytes, ...]:
    """Return the tags in the value of a header, exactly as written. For the value `*`, return `*` alone.

    Raises InvalidRequest for a value that is neither `*` nor a list of tags; `header` is the header's name.
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
    """Return whether `condition`, the value of `If-None-Match`, names the tag.

    A value that is not a list of tags names no tag. The weak form of the tag, `W/"…"`, matches too, because
    proxies that compress answers make tags weak.
    """
    try:
        tags = parse_tags(condition, IF_NONE_MATCH)
    except InvalidRequest:
        return False
    return tags == (ANY,) or any(name.removeprefix(b"W/") == tag for name in tags)


def require_match(tag: bytes | None, tags: tuple[bytes, ...]) -> None:
    """Raise PreconditionFailed unless `tags`, the tags in `If-Match`, contain the object's tag, `tag`.

    `tag` is None if the object does not exist; then even `*` fails. The comparison is RFC 9110's strong
    comparison: a weak tag, `W/"…"`, never matches.
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
    """The condition of a request that changes an object and has the header `If-Match`.

    `read` returns the object; `variables` are the variable parts of the request's path, such as the id. The
    condition holds if `tags`, the tags in `If-Match`, contain the object's tag.
    """

    read: Callable[..., JsonObject]
    variables: dict[str, str]
    tags: tuple[bytes, ...]

    def run(self, unit: Unit, tenant: Tenant, change: Callable[[], Any]) -> Any:
        """Check the condition, make the change, and return the result of the change.

        Raises PreconditionFailed, and changes nothing, if the condition does not hold.

        Nothing can change the object between the check and the change, because both run in one work. If the
        object does not exist, `change` raises the same error as it would without the condition.
        """
        try:
            tag = tag_of(as_text(self.read(unit, tenant, **self.variables)).encode())
        except NotFound:
            change()
            tag = None
        require_match(tag, self.tags)
        return change()


# The tags of lists


_BOOKS_MAX = 10_000  # books whose newest event is remembered


class Etags:
    """The tags of one engine's lists.

    A tag is made from the URL and the id of the book's newest event, because every change of an account, a
    transaction, an invoice or an order records an event. The text `generation` is also part of a tag, so tags
    with different generations never match. After the ledger was set back to a snapshot, the server uses a new
    generation.

    The server reads the tag before the answer, so the answer is as new as its tag or newer.

    Sometimes the server can read the newest event only with a round trip to the database. In this case it
    makes the round trip for each request with a condition. For a request without a condition, it uses the
    newest event that it remembers for the book, and makes the round trip only if it remembers no event. If
    the remembered event is out of date, the client's next conditional request gets the whole list although
    the list has not changed.
    """

    def __init__(self, engine: Engine, generation: str = "") -> None:
        self._engine = engine
        self._newest: dict[BookKey, str] = {}  # the id of the newest event that was last read for a book
        self._salt = crc32(f"{__version__} {generation}".encode())

    async def of(self, tenant: Tenant, target: bytes, *, exact: bool) -> bytes:
        """Return the tag of the answer to a request for `target`, which is the URL's path and query.

        An `exact` tag is made from the event that is newest now. Only an exact tag may be compared with the
        tag of a request.
        """
        work = partial(outbox.newest_event, tenant=tenant)
        read = self._engine.read_at_once(work)
        newest = self._newest.get(tenant.book) if read is None else read[0]
        if read is None and (exact or newest is None):
            newest = await self._engine.read(work)
            # Do not remember that a book has no events. Otherwise a client could later get a list of objects
            # with the tag of the empty list. If the test helpers then emptied the book, the server would
            # answer the client's next conditional request with 304, although the list has changed.
            if newest != outbox.BEFORE_ALL:
                if len(self._newest) >= _BOOKS_MAX:
                    self._newest.clear()
                self._newest[tenant.book] = newest
        assert newest is not None
        return b'"%b-%08x"' % (newest[4:].encode(), crc32(target, self._salt))
