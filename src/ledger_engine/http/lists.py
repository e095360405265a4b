"""Cursor lists: `limit` and a cursor in the query, the list envelope in the answer.

See docs/interface.md#pagination.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Any, TypeVar

from pydantic import BeforeValidator, Field

from ledger_engine.core.clock import MOMENT_PATTERN, Clock, parse_moment
from ledger_engine.core.errors import InvalidRequest
from ledger_engine.core.ids import id_pattern
from ledger_engine.http.bodies import Query
from ledger_engine.http.operations import Call
from ledger_engine.store.pages import LIMIT_DEFAULT, LIMIT_MAX, Page, PageRequest

N = TypeVar("N")
T = TypeVar("T")

_WHOLE = re.compile(r"0|[1-9][0-9]*")


def _digits(value: object) -> object:
    """Refuse a text such as `1_0`, `05` or `5.0`: Python reads a number, but it is likely a mistake."""
    if isinstance(value, str) and _WHOLE.fullmatch(value) is None:
        raise ValueError("must be a whole number")
    return value


# For a number in a query; put it after the bounds, which apply to the number.
DIGITS = BeforeValidator(_digits)
Limit = Annotated[int, Field(ge=1, le=LIMIT_MAX), DIGITS]


# Fields with a pattern for the documentation; the ledger's own rules refuse any other text.
Time = Annotated[str, Field(json_schema_extra={"pattern": MOMENT_PATTERN})]
AccountField = Annotated[str, Field(json_schema_extra={"pattern": id_pattern("acc")})]


class LedgerList(Query):
    """The parameters of a ledger list; `ending_before` goes beyond the contract."""

    limit: Limit = LIMIT_DEFAULT
    starting_after: str | None = None
    ending_before: str | None = None

    def page(self) -> PageRequest:
        """Return the requested page. Raises InvalidRequest if both cursors are given."""
        return page_request(self.limit, "starting_after", self.starting_after, self.ending_before)


class GenericList(Query):
    """The parameters of a list in the generic form."""

    limit: Limit = LIMIT_DEFAULT
    cursor: str | None = None

    def page(self) -> PageRequest:
        """Return the requested page."""
        return PageRequest(self.limit, self.cursor, cursor="cursor")


class LookingBack(Query):
    """The moment whose objects or lists are shown (docs/decisions.md#looking-back)."""

    at: Time | None = None

    def moment(self, clock: Clock) -> int | None:
        """Return the moment in milliseconds; None for the present.

        Raises InvalidRequest for a text that is not a time, and for a time later than the clock's.
        """
        return None if self.at is None else moment_until_now(self.at, "at", clock.now())

    async def one(self, call: Call, now: Callable[..., N], then: Callable[..., T], id: str) -> N | T:
        """Read one object, with the work `now`, or with `then` for an earlier moment."""
        at = self.moment(call.engine.clock)
        return await (call.read_short(now, id) if at is None else call.read(then, id, at))

    async def many(
        self,
        call: Call,
        now: Callable[..., Page[N]],
        then: Callable[..., Page[T]],
        page: PageRequest,
        **filters: Any,
    ) -> Page[N] | Page[T]:
        """Read a page of objects, with the work `now`, or with `then` for an earlier moment."""
        at = self.moment(call.engine.clock)
        if at is None:
            read = call.read_short if page.limit <= LIMIT_DEFAULT else call.read
            return await read(now, page, **filters)
        return await call.read_long(then, page, at, **filters)


def moment_until_now(text: str, param: str, now: int) -> int:
    """Return the milliseconds of a time.

    Raises InvalidRequest, which names `param`, for a time later than `now`.
    """
    moment = parse_moment(text, param)
    if moment > now:
        raise InvalidRequest("invalid_value", f"{param} must not be in the future.", param)
    return moment


def page_request(limit: int, name: str, after: str | None, before: str | None) -> PageRequest:
    """Return the page after or before an id; `name` is the parameter in which `after` was sent.

    Raises InvalidRequest if both are given.
    """
    if after is not None and before is not None:
        raise InvalidRequest("invalid_value", f"Give {name} or ending_before, not both.", "ending_before")
    return PageRequest(limit, after, before, name)
