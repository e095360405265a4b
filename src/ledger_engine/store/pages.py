"""Pages of lists, ordered by id with the newest object first.

A page begins after a cursor, which is the id of an object. New objects do not move the place of a cursor. So
paging repeats no object and omits none, even while others create objects. See docs/decisions.md#lists.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from types import MappingProxyType
from typing import Any, Generic, Protocol, TypeVar

from ledger_engine.core.errors import InvalidRequest, NotFound
from ledger_engine.core.ids import is_before
from ledger_engine.core.tenant import Tenant
from ledger_engine.store import Row, Unit, Value
from ledger_engine.store.books import OF_TENANT

LIMIT_MAX = 100
LIMIT_DEFAULT = 20
# A text in a row can be as large as a request. The statement for a page reads texts of up to SHORT_MAX
# letters with their rows. Further statements read longer texts one by one, until the total length of these
# texts reaches TOGETHER_MAX letters. The last text may make the total longer than this.
SHORT_MAX = 20_000
TOGETHER_MAX = 500_000
# To find out the length of a long text, a statement must read the text. So for a large page that may be
# returned in parts, the first statement reads only FIRST_ROWS rows. If TOGETHER_MAX allows the texts of all
# these rows, another statement reads all rows of the page.
FIRST_ROWS = 4
LOOKED_AT_MAX = 2000  # a search without an index ends after this many rows, which take some milliseconds

R = TypeVar("R")


class _WithId(Protocol):
    id: str


W = TypeVar("W", bound=_WithId)


@dataclass(frozen=True, slots=True)
class PageRequest:
    """A request for a page: up to `limit` objects older than the id `after`, or newer than `before`.

    `cursor` is the name of the parameter that contained `after`, for error messages. If `in_parts` is true
    and the texts are long, the result may be only the first part of the page. The caller then requests the
    next part with the `next_cursor` of this part.
    """

    limit: int = LIMIT_DEFAULT
    after: str | None = None
    before: str | None = None
    cursor: str = "starting_after"
    in_parts: bool = False


@dataclass(frozen=True, slots=True)
class Page(Generic[R]):
    """A page of items, newest first.

    `has_more` and `next_cursor` refer to older items, or to newer items if the request used `before`. If the
    search for items ended after LOOKED_AT_MAX rows, a page can be empty although more items follow. If
    `is_part` is true, `items` are only the first items of the requested page, and the other items follow
    after `next_cursor`.
    """

    items: list[R]
    has_more: bool
    next_cursor: str | None
    is_part: bool = False


def page_of(objects: Iterable[W], request: PageRequest, removed_ids: Collection[str] = ()) -> Page[W]:
    """Return a page of objects that are in memory, newest first.

    A cursor may also be one of `removed_ids`, the ids of removed objects. Raises InvalidRequest
    `invalid_cursor`.
    """
    remaining = sorted(objects, key=attrgetter("id"), reverse=True)
    if request.after is not None:
        if request.after not in removed_ids and all(item.id != request.after for item in remaining):
            raise bad_cursor(request.cursor)
        remaining = [item for item in remaining if item.id < request.after]
    items, has_more = remaining[: request.limit], len(remaining) > request.limit
    return Page(items, has_more, items[-1].id if has_more else None)


@dataclass(frozen=True, slots=True)
class Listing(Generic[R]):
    """A table whose records are read by id and by page; `read` turns a row into a record.

    `noun` is the name of a record in errors. `of_tenant` is the condition that selects the tenant's rows, by
    the columns `project` and `livemode` or by the book. `columns` are the columns to read, and `id` is the
    name of the column with the ids. `hint`, such as ` INDEXED BY …` for SQLite, follows the table's name in
    the statement that reads a page. `was_listed` returns whether an id that is missing from the table was
    once in the tenant's list; such an id is still accepted as a cursor. `long` contains the names of the
    columns whose texts can be as large as a request. `short_columns` are the same columns as `columns`, but
    they select '' instead of each such text of more than SHORT_MAX letters.
    """

    table: str
    noun: str
    read: Callable[[Row], R]
    of_tenant: str = OF_TENANT
    columns: str = "*"
    id: str = "id"
    hint: str = ""
    was_listed: Callable[[Unit, Tenant, str], bool] | None = None
    long: tuple[str, ...] = ()
    short_columns: str = ""

    def get(self, unit: Unit, tenant: Tenant, id: str, param: str | None = None) -> R:
        """Return the tenant's record. Raises NotFound; the error names `param`, the request's id field."""
        return self.read(self.row(unit, tenant, id, param))

    def has(self, unit: Unit, tenant: Tenant, id: str) -> bool:
        """Return whether the record exists and belongs to the tenant."""
        return self._find(unit, tenant, id, "1") is not None

    def row(self, unit: Unit, tenant: Tenant, id: str, param: str | None = None) -> Row:
        """Return the stored row of a record. Raises NotFound as `get` does."""
        return self._row(unit, tenant, id, MappingProxyType({}), param)

    def page(
        self,
        unit: Unit,
        tenant: Tenant,
        request: PageRequest,
        equal: Mapping[str, Value],
        *,
        since: str | None = None,
        until: str | None = None,
        where: str | None = None,
        among: str | None = None,
        values: Mapping[str, Value] = MappingProxyType({}),
        is_bounded: bool = False,
        read: Callable[[Row], Any] | None = None,
    ) -> Page[Any]:
        """Return the page of objects whose columns equal the values in `equal`; a value None matches all.

        Listed ids are greater than `since` and less than `until`. `where` is one more condition, `among`
        replaces `of_tenant`, and `values` holds the parameters of `where`, `among` and the columns. Use
        `is_bounded` for a filter without an index: the page then searches at most LOOKED_AT_MAX of the
        tenant's rows, from the cursor on. If these rows do not fill the page and more rows follow, the next
        cursor is the id of the last row that was searched. `read` replaces the listing's `read`. Raises the
        errors of `require_cursors`.
        """
        parameters: dict[str, Value] = tenant.bind(rows=request.limit + 1, **values)
        conditions = [among or self.of_tenant]
        if where is not None:
            conditions.append(where)
        for column, value in equal.items():
            if value is not None:
                conditions.append(f"{column} = :{column}")
                parameters[column] = value
        # Use only one upper bound. SQLite would compare a second bound with each row, or use a worse index.
        ceiling = min(filter(None, (until, request.after)), default=None)
        if ceiling is not None:
            conditions.append(f"{self.id} < :ceiling")
            parameters["ceiling"] = ceiling
        self.require_cursors(unit, tenant, request)
        last = beyond = None
        if is_bounded:
            last, beyond = self._bound(unit, tenant, request, ceiling)
        if beyond is not None and request.before is not None:
            conditions.append(f"{self.id} < :beyond")
            parameters["beyond"] = beyond
        elif beyond is not None:
            since = beyond
        floor = max(filter(None, (since, request.before)), default=None)
        if floor is not None:
            conditions.append(f"{self.id} > :floor")
            parameters["floor"] = floor
        order = "DESC" if request.before is None else "ASC"
        in_parts = request.in_parts and bool(self.long)
        sql = (
            f"SELECT {self.short_columns if in_parts else self.columns}"
            f" FROM {self.table}{self.hint} WHERE {' AND '.join(conditions)}"
            f" ORDER BY {self.id} {order} LIMIT :rows"
        )
        if in_parts:
            rows, rows_of_page = self._rows_of_part(unit, tenant, request, sql, parameters)
        else:
            rows = unit.execute(sql, parameters)
            rows_of_page = rows[: request.limit]
        has_more = len(rows) > request.limit
        items = list(map(read or self.read, rows_of_page))
        is_part = len(items) < min(len(rows), request.limit)
        next_cursor = rows[len(items) - 1]["id"] if has_more or is_part else last
        has_more = next_cursor is not None
        if request.before is not None:
            items.reverse()
        return Page(items, has_more, next_cursor, is_part)

    def _rows_of_part(
        self, unit: Unit, tenant: Tenant, request: PageRequest, sql: str, parameters: Mapping[str, Value]
    ) -> tuple[list[Row], list[Row]]:
        """Return the rows that `sql` reads, and the rows of the page's first part with their long texts.

        If all texts fit, the first part is the whole page.
        """
        if request.limit > LIMIT_DEFAULT:
            rows = unit.execute(sql, {**parameters, "rows": FIRST_ROWS})
            whole_rows = self._with_long_texts(unit, tenant, rows, parameters)
            if len(whole_rows) < len(rows):
                return rows, whole_rows
        rows = unit.execute(sql, parameters)
        return rows, self._with_long_texts(unit, tenant, rows[: request.limit], parameters)

    def _with_long_texts(
        self, unit: Unit, tenant: Tenant, rows: list[Row], values: Mapping[str, Value]
    ) -> list[Row]:
        """Return these rows with their long texts; stop when the texts have TOGETHER_MAX letters in total."""
        whole_rows: list[Row] = []
        letters_left = TOGETHER_MAX
        for row in rows:
            if letters_left <= 0:
                break
            if any(row[column] == "" for column in self.long):
                row = self._row(unit, tenant, row["id"], values)
                letters_left -= sum(len(row[column] or "") for column in self.long)
            whole_rows.append(row)
        return whole_rows

    def require_cursors(self, unit: Unit, tenant: Tenant, request: PageRequest) -> None:
        """Raise InvalidRequest `invalid_cursor` for a cursor that is no id of the tenant's list.

        A cursor that `was_listed` accepts is valid too.
        """
        for cursor, param in ((request.after, request.cursor), (request.before, "ending_before")):
            if cursor is None or self.has(unit, tenant, cursor):
                continue
            if self.was_listed is None or not self.was_listed(unit, tenant, cursor):
                raise bad_cursor(param)

    def _bound(
        self, unit: Unit, tenant: Tenant, request: PageRequest, ceiling: str | None
    ) -> tuple[str | None, str | None]:
        """Return the id of the last row that a bounded page searches, and the id of the row after it.

        Return two Nones if no bound is needed, because no more than LOOKED_AT_MAX rows follow the cursor.
        """
        cursor, beyond, order = ceiling, "<", "DESC"
        if request.before is not None:
            cursor, beyond, order = request.before, ">", "ASC"
        rows = unit.execute(
            f"SELECT {self.id} AS id FROM {self.table} WHERE {self.of_tenant}"
            f"{'' if cursor is None else f' AND {self.id} {beyond} :cursor'}"
            f" ORDER BY {self.id} {order} LIMIT 2 OFFSET :skipped",
            tenant.bind(skipped=LOOKED_AT_MAX - 1) | ({} if cursor is None else {"cursor": cursor}),
        )
        return (rows[0]["id"], rows[1]["id"]) if len(rows) == 2 else (None, None)

    def _row(
        self, unit: Unit, tenant: Tenant, id: str, values: Mapping[str, Value], param: str | None = None
    ) -> Row:
        row = self._find(unit, tenant, id, self.columns, values)
        if row is None:
            raise NotFound(self.noun, id, param)
        return row

    def _find(
        self,
        unit: Unit,
        tenant: Tenant,
        id: str,
        columns: str,
        values: Mapping[str, Value] = MappingProxyType({}),
    ) -> Row | None:
        return unit.first(
            f"SELECT {columns} FROM {self.table} WHERE {self.of_tenant} AND {self.id} = :id",
            {**values, **tenant.bind(id=id)},
        )


def expires_with(prefix: str, kept_for: int) -> Callable[[Unit, Tenant, str], bool]:
    """Return the `was_listed` function of a list whose entries are deleted after `kept_for` milliseconds.

    An id contains the time at which it was made. The ledger stores nothing about a deleted entry, so every id
    with a time more than `kept_for` ago counts as the id of a deleted entry. As a cursor, such an id stands
    for the end of the list.
    """
    return lambda unit, _tenant, id: is_before(id, prefix, unit.now - kept_for)


def bad_cursor(param: str) -> InvalidRequest:
    """Return the error for a cursor that was never an id of its list."""
    return InvalidRequest("invalid_cursor", f"{param} must be the id of an object of this list.", param)
