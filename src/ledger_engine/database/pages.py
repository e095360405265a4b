"""Cursor pages: newest first, by id, never showing an object twice or leaving one out.

See docs/decisions.md#lists.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Generic, TypeVar

from ledger_engine.core.errors import InvalidRequest
from ledger_engine.core.tenant import Tenant
from ledger_engine.database import Row, Unit, Value
from ledger_engine.database.books import OF_TENANT

LIMIT_MAX = 100
LIMIT_DEFAULT = 20

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class PageRequest:
    """Which page: up to `limit` objects just older than the id `after`, or just newer than `before`.

    `cursor` is the name the list gives its forward cursor, for error messages.
    """

    limit: int = LIMIT_DEFAULT
    after: str | None = None
    before: str | None = None
    cursor: str = "starting_after"


@dataclass(frozen=True, slots=True)
class Page(Generic[R]):
    """Items newest first. `has_more` and `next_cursor` speak of the direction that was asked for:
    older items, or newer ones when the page was asked for with `before`."""

    items: list[R]
    has_more: bool
    next_cursor: str | None


@dataclass(frozen=True, slots=True)
class Listing(Generic[R]):
    """A table that is listed page by page; `read` makes a record of one of its rows.

    `of_tenant` is the condition on the rows of the tenant: those of a table with the columns `project` and
    `livemode`, or those of its book. `columns` is what is read of each row, and `id` the name of its id.
    """

    table: str
    read: Callable[[Row], R]
    id_of: Callable[[R], str]
    of_tenant: str = OF_TENANT
    columns: str = "*"
    id: str = "id"

    def page(
        self,
        unit: Unit,
        tenant: Tenant,
        wanted: PageRequest,
        equal: Mapping[str, Value],
        *,
        since: str | None = None,
        where: str | None = None,
        among: str | None = None,
        given: Mapping[str, Value] = MappingProxyType({}),
    ) -> Page[R]:
        """The page of the objects whose columns have the values in `equal`; a None there does not filter.

        `since` is an id that the listed ones are greater than, `where` one more condition, `among` one in
        place of `of_tenant`, and `given` their parameters. Raises InvalidRequest `invalid_cursor` for a
        cursor that is no object of this list's project and mode.
        """
        parameters: dict[str, Value] = tenant.bind(rows=wanted.limit + 1, **given)
        conditions = [among or self.of_tenant]
        if where is not None:
            conditions.append(where)
        for column, value in equal.items():
            if value is not None:
                conditions.append(f"{column} = :{column}")
                parameters[column] = value
        if wanted.after is not None:
            self._require(unit, tenant, wanted.after, wanted.cursor)
            conditions.append(f"{self.id} < :after")
            parameters["after"] = wanted.after
        if wanted.before is not None:
            self._require(unit, tenant, wanted.before, "ending_before")
        # One bound and not two: of two SQLite looks at one row by row, and may take a coarser index then.
        floor = max(filter(None, (since, wanted.before)), default=None)
        if floor is not None:
            conditions.append(f"{self.id} > :floor")
            parameters["floor"] = floor
        order = "DESC" if wanted.before is None else "ASC"
        rows = unit.execute(
            f"SELECT {self.columns} FROM {self.table} WHERE {' AND '.join(conditions)}"
            f" ORDER BY {self.id} {order} LIMIT :rows",
            parameters,
        )
        has_more = len(rows) > wanted.limit
        items = [self.read(row) for row in rows[: wanted.limit]]
        next_cursor = self.id_of(items[-1]) if has_more else None
        if wanted.before is not None:
            items.reverse()
        return Page(items, has_more, next_cursor)

    def _require(self, unit: Unit, tenant: Tenant, cursor: str, param: str) -> None:
        known = unit.first(
            f"SELECT 1 FROM {self.table} WHERE {self.of_tenant} AND {self.id} = :id",
            tenant.bind(id=cursor),
        )
        if known is None:
            raise InvalidRequest(
                "invalid_cursor", f"{param} must be the id of an object of this list.", param
            )
