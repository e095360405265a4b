"""Cursor lists on the wire: `limit` and a cursor in, the list envelope out (interface.md, Pagination)."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, Field

from ledger_engine.core.errors import InvalidRequest
from ledger_engine.database.pages import LIMIT_DEFAULT, LIMIT_MAX, PageRequest
from ledger_engine.http.bodies import Query


def _digits(value: object) -> object:
    """Refuse what Python would also take for a number, such as `1_0` or `5.0`: it is rather a mistake."""
    if isinstance(value, str) and not (value.isascii() and value.isdigit()):
        raise ValueError("must be a whole number")
    return value


DIGITS = BeforeValidator(_digits)  # of a number in a query; stands after its bounds, which go for the number
Limit = Annotated[int, Field(ge=1, le=LIMIT_MAX), DIGITS]


class LedgerList(Query):
    """The parameters of a ledger list; `ending_before` goes beyond the contract."""

    limit: Limit = LIMIT_DEFAULT
    starting_after: str | None = None
    ending_before: str | None = None

    def page(self) -> PageRequest:
        """The page that was asked for; raises InvalidRequest when both cursors are given."""
        if self.starting_after is not None and self.ending_before is not None:
            raise InvalidRequest(
                "invalid_value", "Give starting_after or ending_before, not both.", "ending_before"
            )
        return PageRequest(self.limit, self.starting_after, self.ending_before)


class GenericList(Query):
    """The parameters of the generic list form."""

    limit: Limit = LIMIT_DEFAULT
    cursor: str | None = None

    def page(self) -> PageRequest:
        """The page that was asked for."""
        return PageRequest(self.limit, self.cursor, cursor="cursor")
