"""The outbox: events, recorded in the same commit as the change that caused them.

See docs/decisions.md#events-recorded.

Most events are stored with their body, the JSON text that webhooks send. The event of a posting
(`transaction.created`) is stored without a body: a transaction never changes, so each read renders the body
from the transaction, always with the same bytes. Therefore this module itself lists the fields of a posting's
body. It does not use the fields of the class `Transaction`: a field that this class gets later must not
appear in the bodies of old events.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Annotated, Any, ClassVar

from ledger_engine.core.clock import iso
from ledger_engine.core.errors import InvalidRequest, NotFound
from ledger_engine.core.ids import EventId, RequestId, first_at, is_id, moment_of
from ledger_engine.core.records import Moment, Pattern, Record, as_json, dumps
from ledger_engine.core.tenant import Tenant
from ledger_engine.store import GroupCache, Row, Unit, Value, books, pages
from ledger_engine.store.books import OF_BOOK
from ledger_engine.store.pages import Listing, Page, PageRequest
from ledger_engine.store.rows import any_of, short

TABLE = "events"
TOPIC = "events"  # each commit that recorded events announces this topic
POSTING = "transaction.created"
KINDS = (
    "account.created",
    "transaction.created",
    "invoice.created",
    "invoice.updated",
    "invoice.opened",
    "invoice.paid",
    "invoice.voided",
    "user.created",
    "user.deactivated",
    "user.restored",
    "order.created",
    "order.paid",
    "order.shipped",
)
# A later version may have more types, so the schemas do not declare the types as a closed set.
EventType = Annotated[str, Pattern(r"^[a-z]+\.[a-z]+$")]
# Events of these types contain a user's name and address, so only credentials that may read users see them.
USER_KINDS = ("user.created", "user.deactivated", "user.restored")
_OF_USERS = f"e.type IN ({', '.join(map(repr, USER_KINDS))})"

# A body can be as large as a request. So a statement that reads thousands of events returns '' for each body
# over 2,000 characters, and `long_body` reads those bodies one by one. 2,000 characters are at most 8,000
# bytes.
SHORT_BODY = f"{short('e.body', 2000)} AS body"
_POSTING_COLUMNS = (
    "e.created, e.object, t.account, t.amount, t.type AS direction,"
    " coalesce(t.long_description, t.description) AS description, t.balance_after, t.destination, t.transfer,"
    " t.reverses"
)
# If the rows of a statement on `events AS e` are passed to `body_of`, the statement must select these columns
# first, and after them a column `livemode`.
COLUMNS = f"e.id, e.type, e.body, {_POSTING_COLUMNS}"
SHORT_COLUMNS = f"e.id, e.type, {SHORT_BODY}, {_POSTING_COLUMNS}"
JOIN = "LEFT JOIN transactions AS t ON e.body IS NULL AND t.book = e.book AND t.id = e.object"


def body_of(row: Row) -> str:
    """Return the body of an event; the row has the columns of `COLUMNS`, and `livemode`."""
    # Unpack by position: looking each value up by name would take as long as the rest of the function.
    id, _, body, moment, object, account, amount, direction, description, balance, *others = row
    text: str | None = body
    if text is not None:
        return text
    destination, transfer, reverses, *_ = others
    return posting_text(
        id, moment, object, account, amount, direction, description, balance, destination, transfer, reverses,
        row["livemode"],
    )  # fmt: skip


def long_body(unit: Unit, book: int, id: str) -> str:
    """Return the body of an event for which a statement with `SHORT_BODY` returned ''."""
    row = unit.first("SELECT body FROM events WHERE book = :book AND id = :id", {"book": book, "id": id})
    assert row is not None, "the same work has already read this event"
    return str(row["body"])


def whole_body(unit: Unit, row: Row) -> str:
    """Return the body of an event; the row has the columns of `SHORT_COLUMNS`, `livemode` and `book`."""
    return body_of(row) or long_body(unit, row["book"], row["id"])


def data_of(row: Row) -> dict[str, Any]:
    """Return the field `data` of an event; the row has the columns of `COLUMNS`, and `livemode`."""
    text: str | None = row["body"]
    data: dict[str, Any] = (_posting_message(row) if text is None else json.loads(text))["data"]
    return data


def message(id: str, kind: str, created: int, *, livemode: bool, subject: dict[str, Any]) -> dict[str, Any]:
    """Return the message that webhooks send for an event about the object `subject`.

    `created` is in milliseconds.
    """
    return {
        "id": id,
        "object": "event",
        "type": kind,
        "created": iso(created),
        "livemode": livemode,
        "data": {"object": subject},
    }


def _posting_message(row: Row) -> dict[str, Any]:
    livemode = bool(row["livemode"])
    created: int = row["created"]
    subject = {
        "id": row["object"],
        "object": "transaction",
        "account": row["account"],
        "amount": row["amount"],
        "type": row["direction"],
        "description": row["description"],
        "balance_after": row["balance_after"],
        "created": iso(created),
        "livemode": livemode,
        "destination": row["destination"],
        "transfer": row["transfer"],
        "reverses": row["reverses"],
    }
    return message(row["id"], POSTING, created, livemode=livemode, subject=subject)


def posting_text(
    id: str,
    moment: int,
    object: str,
    account: str,
    amount: int,
    direction: str,
    description: str | None,
    balance: int,
    destination: str | None,
    transfer: str | None,
    reverses: str | None,
    livemode: bool,
) -> str:
    """Return the same text as `dumps(_posting_message(row))`, in a fifth of the time.

    The speed matters because each delivery and the log render this text. All values except the description
    are formatted as they are: only the description can contain characters that JSON escapes.
    """
    created = iso(moment)
    mode = "true" if livemode else "false"
    return (
        f'{{"id":"{id}","object":"event","type":"{POSTING}","created":"{created}","livemode":{mode},'
        f'"data":{{"object":{{"id":"{object}","object":"transaction","account":"{account}",'
        f'"amount":{amount},"type":"{direction}",'
        f'"description":{"null" if description is None else dumps(description)},'
        f'"balance_after":{balance},"created":"{created}","livemode":{mode},'
        f'"destination":{"null" if destination is None else _quoted(destination)},'
        f'"transfer":{"null" if transfer is None else _quoted(transfer)},'
        f'"reverses":{"null" if reverses is None else _quoted(reverses)}}}}}}}'
    )


def _quoted(id: str) -> str:
    return f'"{id}"'


@dataclass(slots=True)
class Event:
    """A change that happened.

    `data` is the object as it was then. `request` is the id of the request that caused the event, or None if
    a command caused it; webhooks do not contain it.
    """

    OBJECT: ClassVar[str] = "event"

    id: EventId
    type: EventType
    created: Moment
    livemode: bool
    data: dict[str, Any]  # its only key, `object`, holds the object as it was right after the change
    request: RequestId | None = None


@dataclass(frozen=True, slots=True)
class Message:
    """An event as webhooks and streams send it: `body` is its JSON text, whose bytes webhooks sign.

    `traceparent` is the trace header of the request that caused the event; only webhooks send this header.
    """

    id: str
    type: str
    body: str
    traceparent: str | None = None


def record(unit: Unit, tenant: Tenant, kind: str, subject: Record) -> None:
    """Record an event of this `kind` about the object `subject`, with the object's current state."""
    row = row_of(unit, tenant, books.number_of(unit, tenant), kind, subject)
    unit.insert_many(TABLE, STORED, [row])
    unit.announce(TOPIC)


def row_of(unit: Unit, tenant: Tenant, book: int, kind: str, subject: Record) -> tuple[Value, ...]:
    """Return the row of an event: a value for each column in `STORED`.

    The stored body is the whole message as it is sent, so that each delivery sends the same bytes. The body
    of a posting is not stored; each read renders it from the transaction.
    """
    id, now = unit.new_id("evt"), unit.now
    body = None
    if kind != POSTING:
        body = dumps(message(id, kind, now, livemode=tenant.livemode, subject=as_json(subject)))
    return (book, id, kind, subject.id, body, tenant.request, now, tenant.traceparent)


def get(unit: Unit, tenant: Tenant, id: str) -> Event:
    """Return the event with this id.

    Raises NotFound, and PermissionDenied if the event is about a user and the tenant lacks `read:users`.
    """
    row = _LISTING.row(unit, tenant, id)
    if row["type"] in USER_KINDS:
        tenant.require_scope("read:users")
    return _read(row)


def page(unit: Unit, tenant: Tenant, request: PageRequest, at: int | None = None) -> Page[Event]:
    """Return a page of events, newest first; with `at`, only events up to this millisecond.

    For a credential that may not read users, events about users are left out. In this case a page reads only
    a limited number of events, because a long run of consecutive events may be about users.
    """
    condition = _shown_to(tenant)
    return _LISTING.page(
        unit, tenant, request, {}, until=_end_of(at), where=condition, is_bounded=condition is not None
    )


def about(
    unit: Unit, tenant: Tenant, request: PageRequest, object: str, at: int | None = None
) -> Page[Event]:
    """Return a page of the events about one object, newest first; with `at`, only up to this millisecond.

    If the object belongs to another tenant, the page is empty.
    """
    if is_id(object, "txn"):
        return _page_of_posting(unit, tenant, request, object, at)
    condition = _shown_to(tenant)
    where = "e.object = :object AND e.body IS NOT NULL" + ("" if condition is None else f" AND {condition}")
    return _LISTING.page(unit, tenant, request, {}, until=_end_of(at), where=where, values={"object": object})


def _end_of(at: int | None) -> str | None:
    """Return the smallest id after all events up to this millisecond; None (no limit) if `at` is None."""
    return None if at is None else first_at("evt", at + 1)


def with_ids(unit: Unit, tenant: Tenant, ids: Sequence[str]) -> list[Event]:
    """Return the events with these ids that the tenant may see, newest first."""
    if not ids:
        return []
    id_list, parameters = any_of(ids)
    condition = _shown_to(tenant)
    rows = unit.execute(
        f"SELECT {_COLUMNS} FROM {_WITH_POSTINGS} WHERE e.{OF_BOOK}"
        f" AND e.id IN ({id_list}){'' if condition is None else f' AND {condition}'}",
        tenant.bind() | parameters,
    )
    return sorted(map(_read, rows), key=attrgetter("id"), reverse=True)


def tenant_of(unit: Unit, id: str) -> Tenant:
    """Return the tenant for an event's project and mode, with all rights, for the local administrator.

    Raises NotFound.
    """
    row = unit.first(
        "SELECT b.project, b.livemode FROM books AS b JOIN events AS e ON e.book = b.book AND e.id = :id",
        {"id": id},
    )
    if row is None:
        raise NotFound("event", id)
    return Tenant(row["project"], bool(row["livemode"]))


def resume(unit: Unit, tenant: Tenant, last: str | None) -> str:
    """Return the cursor where a stream starts: `last`, or the newest event's id if `last` is None.

    Raises InvalidRequest `invalid_cursor` if `last` is not the id of an event of this project and mode.
    """
    if last is not None:
        exists = last == BEFORE_ALL or unit.first(
            f"SELECT 1 FROM events WHERE {OF_BOOK} AND id = :id",
            tenant.bind(id=last),
        )
        if not exists:
            raise InvalidRequest(
                "invalid_cursor",
                "Last-Event-ID must be the id of an event. Connect without it to get future events.",
                "Last-Event-ID",
            )
        return last
    row = unit.first(_NEWEST, tenant.bind())
    return row["id"] if row else BEFORE_ALL


class _NewestEvent:
    """The id of a book's newest event. Implements the protocol `CachedValues` of `store`."""

    tables: ClassVar = frozenset({"events", *books.TABLES})
    __slots__ = ("id",)

    def __init__(self, cache: GroupCache, tenant: Tenant) -> None:
        rows = cache.execute(_NEWEST, tenant.bind())
        self.id: str = rows[0]["id"] if rows else BEFORE_ALL

    def write(self) -> None:
        """Do nothing, because the value is only read."""


def newest_event(unit: Unit, tenant: Tenant) -> str:
    """Return the id of the newest event, or an id before all events if there is none."""
    return unit.cached(_NewestEvent, tenant).id


def after(unit: Unit, tenant: Tenant, cursor: str, limit: int) -> tuple[list[Message], str]:
    """Return the events after `cursor` that the tenant may see, oldest first, and the next cursor.

    The next cursor is the id of the last event that was read, or `cursor` if no events follow. Events about
    users are left out if the tenant may not see them. If a long run of consecutive events is left out, the
    list is empty although more events follow. The function stops adding events once the bodies in the list
    have `pages.TOGETHER_MAX` characters in total.
    """
    condition = _shown_to(tenant)
    (looked_at,) = unit.execute(
        f"SELECT max(id) AS last FROM (SELECT id FROM events WHERE {OF_BOOK} AND id > :cursor"
        " ORDER BY id LIMIT :most) AS next_ones",
        tenant.bind(cursor=cursor, most=limit if condition is None else pages.LOOKED_AT_MAX),
    )
    last: str | None = looked_at["last"]
    if last is None:
        return [], cursor
    rows = unit.execute(
        f"SELECT {SHORT_COLUMNS}, :livemode AS livemode, e.book FROM {_WITH_POSTINGS}"
        f" WHERE e.{OF_BOOK} AND e.id > :cursor AND e.id <= :last"
        f"{'' if condition is None else f' AND {condition}'} ORDER BY e.id LIMIT :limit",
        tenant.bind(cursor=cursor, last=last, limit=limit),
    )
    messages: list[Message] = []
    letters_left = pages.TOGETHER_MAX
    for row in rows:
        if letters_left <= 0:
            return messages, messages[-1].id
        messages.append(Message(row["id"], row["type"], whole_body(unit, row)))
        letters_left -= len(messages[-1].body)
    return messages, messages[-1].id if len(messages) == limit else last


def between(unit: Unit, tenant: Tenant, first: str, end: str, request: str) -> list[str]:
    """Return the ids of the events that `request` caused, from `first` up to but not including `end`."""
    rows = unit.execute(
        f"SELECT id FROM events WHERE {OF_BOOK}"
        " AND id >= :first AND id < :end AND request = :request ORDER BY id",
        tenant.bind(first=first, end=end, request=request),
    )
    return [row["id"] for row in rows]


def erase_user(unit: Unit, user: str, after: str, limit: int) -> str | None:
    """Erase a user's name and email address from the user's events after the id `after`.

    One call erases up to `limit` events, oldest first. It returns the id of the last erased event, or None if
    no more events follow. The log contains a hash of each such event's salt and body. The function also
    deletes the salt, because with the salt somebody could test guesses of the erased text against the hash.
    """
    rows = unit.execute(
        "SELECT book, id, body FROM events AS e"
        f" WHERE object = :user AND body IS NOT NULL AND {_OF_USERS} AND id > :after"
        " ORDER BY id LIMIT :limit",
        {"user": user, "after": after, "limit": limit},
    )
    for row in rows:
        message = json.loads(row["body"])
        message["data"]["object"].update(name=None, email=None)
        unit.execute(
            "UPDATE events SET body = :body WHERE book = :book AND id = :id",
            {"book": row["book"], "id": row["id"], "body": dumps(message)},
        )
        unit.execute(
            "UPDATE log_commitments SET salt = NULL WHERE book = :book AND event = :id",
            {"book": row["book"], "id": row["id"]},
        )
    return rows[-1]["id"] if len(rows) == limit else None


def _page_of_posting(
    unit: Unit, tenant: Tenant, request: PageRequest, transaction: str, at: int | None
) -> Page[Event]:
    """Return a page with the one event of a transaction.

    No index leads from the transaction to its event. So the statement searches a range of ids: the event's id
    was made after the transaction's id, in the same millisecond.
    """
    _LISTING.require_cursors(unit, tenant, request)
    rows = unit.execute(
        f"SELECT {_COLUMNS} FROM {_WITH_POSTINGS} WHERE e.{OF_BOOK}"
        " AND e.id > :first AND e.id < :end AND e.object = :object",
        tenant.bind(
            object=transaction,
            first=transaction.replace("txn", "evt", 1),
            end=first_at("evt", moment_of(transaction) + 1),
        ),
    )
    after, before, end = request.after, request.before, _end_of(at)
    events = [
        _read(row)
        for row in rows
        if (after is None or row["id"] < after)
        and (before is None or row["id"] > before)
        and (end is None or row["id"] < end)
    ]
    return Page(events, False, None)


def _shown_to(tenant: Tenant) -> str | None:
    """Return the SQL condition for events that the tenant may see; None if the tenant may see all events."""
    return None if tenant.may_see_users() else f"NOT {_OF_USERS}"


def _read(row: Row) -> Event:
    return Event(
        id=row["id"],
        type=row["type"],
        created=row["created"],
        livemode=bool(row["livemode"]),
        data=data_of(row),
        request=row["request"],
    )


STORED = ("book", "id", "type", "object", "body", "request", "created", "traceparent")
_NEWEST = f"SELECT id FROM events WHERE {OF_BOOK} ORDER BY id DESC LIMIT 1"
BEFORE_ALL = first_at("evt", 0)
_COLUMNS = f"{COLUMNS}, e.request, :livemode AS livemode"
_WITH_POSTINGS = f"events AS e {JOIN}"
_LISTING: Listing[Event] = Listing(
    _WITH_POSTINGS,
    "event",
    _read,
    f"e.{OF_BOOK}",
    _COLUMNS,
    "e.id",
    long=("body",),
    short_columns=_COLUMNS.replace("e.body", f"{short('e.body', pages.SHORT_MAX)} AS body", 1),
)
