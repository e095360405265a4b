"""The small checks of the audit. Most of them are one SQL statement, which selects the bad rows.

The module `book` checks transactions and events; the module `state` compares other objects with their events.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ledger_engine.access import idempotency
from ledger_engine.core.clock import DAY
from ledger_engine.core.ids import moment_of
from ledger_engine.core.money import MAX_AMOUNT
from ledger_engine.core.tenant import mode_name
from ledger_engine.events.outbox import BEFORE_ALL
from ledger_engine.ledger.accounts import TRANSACTIONS
from ledger_engine.log import keys, stored
from ledger_engine.log.entries import LoggedBook
from ledger_engine.log.keys import LogKey
from ledger_engine.store import Row, Value, kept_time
from ledger_engine.store.read_snapshot import AuditUnit
from ledger_engine.verify.faults import NAMED_MAX, Discrepancies

_ROWS_AT_ONCE = 1000
# `check_time` compares the ledger's stored time with the newest event, the last time at which a server ran,
# and the machine's clock. If the stored time is later than all three by more than this, it is a fault.
FAR_MS = 366 * DAY
# If a server was still running this long after a book's first event, the book must have a log. A much shorter
# time would prove nothing: if a server is killed, the events of its last second may have no log yet.
LONG_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class Check:
    """A check: `sql` selects the bad rows. `message` names columns of a bad row in braces, such as `{id}`.

    If the audit covers only the transactions after a checkpoint, the conditions in `since` are added to the
    statement, with the parameters `:book` and `:transaction`. If `since` is empty, all rows are checked.
    """

    kind: str
    message: str
    sql: str
    since: str = ""


CHECKS = (
    Check(
        "account",
        "account {id} has the balance {amount}, which is out of range.",
        f"""
SELECT id, balance AS amount FROM accounts WHERE balance NOT BETWEEN -{MAX_AMOUNT} AND {MAX_AMOUNT}""",
    ),
    Check(
        "account",
        "account {id} has the balance {balance}; its transactions add up to {due}.",
        f"""
SELECT id, balance, due FROM (
    SELECT a.id, a.balance, coalesce((SELECT balance_after FROM (
        SELECT id, balance_after FROM {TRANSACTIONS} WHERE account = a.id ORDER BY id DESC LIMIT 1
    ) AS last), 0) AS due FROM accounts AS a
) AS compared WHERE balance <> due""",
    ),
    Check(
        "settlement",
        "the balances in {currency} of {id}, {mode} mode, sum to {total} instead of 0.",
        """
SELECT project AS id, livemode, currency, sum(balance) AS total FROM (
    SELECT project, livemode, currency, balance FROM settlements
    UNION ALL
    SELECT project, livemode, currency, balance FROM accounts
) AS sides GROUP BY project, livemode, currency HAVING sum(balance) <> 0""",
    ),
    Check(
        "reversal",
        "transaction {id} reverses {reverses}, but is not its opposite.",
        """
SELECT r.id, r.reverses FROM transactions AS r
    LEFT JOIN transactions AS o ON o.book = r.book AND o.id = r.reverses
WHERE r.reverses IS NOT NULL AND (o.id IS NULL OR o.id >= r.id OR o.account <> r.account
    OR o.amount <> r.amount OR o.type = r.type OR coalesce(o.destination, '') <> coalesce(r.destination, '')
    OR (r.transfer IS NOT NULL AND NOT EXISTS (
        SELECT 1 FROM transactions AS s WHERE s.transfer = r.transfer AND s.id <> r.id
            AND s.reverses IS NOT NULL)))""",
        "r.book = :book AND r.id > :transaction",
    ),
    Check(
        "invoice",
        "invoice {id} is {status}, but its number, times or payment do not match that status.",
        """
SELECT id, status FROM invoices
WHERE (number IS NULL) <> (status = 'draft') OR (opened_at IS NULL) <> (status = 'draft')
    OR (paid_at IS NULL) = (status = 'paid') OR (payment IS NULL) = (status = 'paid')
    OR (voided_at IS NULL) = (status = 'void')""",
    ),
    Check(
        "invoice",
        "invoice {id} was not paid once and in full by {payment}.",
        """
SELECT i.id, i.payment FROM invoices AS i
    JOIN books AS b ON b.project = i.project AND b.livemode = i.livemode
    LEFT JOIN transactions AS t ON t.book = b.book AND t.id = i.payment
WHERE i.status = 'paid' AND (t.id IS NULL OR t.account <> i.account OR t.amount <> i.amount
    OR t.type <> 'credit' OR t.reverses IS NOT NULL)
UNION ALL
SELECT max(id), payment FROM invoices WHERE payment IS NOT NULL GROUP BY payment HAVING count(*) > 1""",
    ),
    Check(
        "invoice",
        "invoice {id} does not fit its account {account}.",
        """
SELECT i.id, i.account FROM invoices AS i JOIN accounts AS a ON a.id = i.account
WHERE i.currency <> a.currency OR i.project <> a.project OR i.livemode <> a.livemode""",
    ),
    Check(
        "invoice",
        "invoice {id} has the number {number}; the next number without a gap is {due}.",
        """
SELECT id, number, due FROM (
    SELECT id, number, 'INV-' || CASE WHEN position < 1000000
        THEN substr(CAST(1000000 + position AS TEXT), 2) ELSE CAST(position AS TEXT) END AS due
    FROM (
        SELECT id, number, row_number() OVER (
            PARTITION BY project, livemode ORDER BY CAST(substr(number, 5) AS BIGINT)) AS position
        FROM invoices WHERE number IS NOT NULL
    ) AS numbered
) AS expected WHERE number <> due""",
    ),
    Check(
        "order",
        "order {id} is {status}, but its times do not match that status.",
        """
SELECT id, status FROM orders
WHERE (paid_at IS NULL) <> (status = 'open') OR (shipped_at IS NULL) = (status = 'shipped')""",
    ),
    Check(
        "user",
        "user {id} is {status}, but its times do not match that status.",
        """
SELECT id, status FROM users WHERE (deactivated_at IS NULL) <> (status = 'active')""",
    ),
    Check(
        "user",
        "user {id} is erased and was not deactivated before.",
        """
SELECT id FROM users WHERE erased_at < coalesce(deactivated_at, erased_at + 1)""",
    ),
    Check(
        "order",
        "order {id} belongs to another project or mode than its user {user_id}.",
        """
SELECT o.id, o.user_id FROM orders AS o JOIN users AS u ON u.id = o.user_id
WHERE o.project <> u.project OR o.livemode <> u.livemode""",
    ),
    Check(
        "event",
        "event {id} is about {object}, which does not exist.",
        """
SELECT e.id, e.object FROM events AS e JOIN books AS b ON b.book = e.book
WHERE e.body IS NOT NULL AND NOT CASE substr(e.object, 1, 4)
    WHEN 'acc_' THEN EXISTS (SELECT 1 FROM accounts AS x WHERE x.id = e.object
        AND x.project = b.project AND x.livemode = b.livemode)
    WHEN 'inv_' THEN EXISTS (SELECT 1 FROM invoices AS x WHERE x.id = e.object
        AND x.project = b.project AND x.livemode = b.livemode)
    WHEN 'usr_' THEN EXISTS (SELECT 1 FROM users AS x WHERE x.id = e.object
        AND x.project = b.project AND x.livemode = b.livemode)
    WHEN 'ord_' THEN EXISTS (SELECT 1 FROM orders AS x WHERE x.id = e.object
        AND x.project = b.project AND x.livemode = b.livemode)
    ELSE e.type = 'transaction.created' END""",
    ),
    Check(
        "delivery",
        "delivery {id} belongs to {object}, which does not exist.",
        """
SELECT d.id, d.event AS object FROM deliveries AS d
    LEFT JOIN books AS b ON b.project = d.project AND b.livemode = d.livemode
    LEFT JOIN events AS e ON e.book = b.book AND e.id = d.event
WHERE e.id IS NULL""",
    ),
    Check(
        "delivery",
        "delivery {id} has {made} attempts instead of {attempts}.",
        """
SELECT d.id, d.attempts, count(a.number) AS made FROM deliveries AS d
    LEFT JOIN delivery_attempts AS a ON a.delivery = d.id
GROUP BY d.id, d.attempts HAVING count(a.number) <> d.attempts""",
    ),
    Check(
        "delivery",
        "delivery {id} is {status}, but its last attempt does not match that status.",
        """
SELECT d.id, d.status FROM deliveries AS d
    LEFT JOIN delivery_attempts AS a ON a.delivery = d.id AND a.number = d.attempts
WHERE (d.status = 'succeeded' OR d.attempts > 0) AND (a.number IS NULL
    OR d.attempted_at <> a.attempted_at OR (d.status = 'succeeded' AND a.error IS NOT NULL))""",
    ),
    Check(
        "delivery",
        "delivery {id} is missing, but its attempts exist.",
        """
SELECT DISTINCT a.delivery AS id FROM delivery_attempts AS a LEFT JOIN deliveries AS d ON d.id = a.delivery
WHERE d.id IS NULL""",
    ),
    Check(
        "endpoint",
        "webhook endpoint {id} is at {cursor}, beyond the last event.",
        f"""
SELECT w.id, w.cursor FROM webhook_endpoints AS w JOIN books AS b
    ON b.project = w.project AND b.livemode = w.livemode
WHERE w.cursor > coalesce((SELECT max(e.id) FROM events AS e WHERE e.book = b.book), '{BEFORE_ALL}')""",
    ),
    Check(
        "idempotency_key",
        "idempotency key {id} names {object}, which does not exist or was made at another time.",
        """
SELECT k.key AS id, k.object FROM idempotency_keys AS k
    JOIN books AS b ON b.project = k.project AND b.livemode = k.livemode
WHERE NOT CASE substr(k.object, 1, 4)
    WHEN 'txn_' THEN EXISTS (SELECT 1 FROM transactions AS x WHERE x.book = b.book AND x.id = k.object
        AND x.created = k.created)
    WHEN 'acc_' THEN EXISTS (SELECT 1 FROM accounts AS x WHERE x.id = k.object AND x.project = k.project
        AND x.livemode = k.livemode AND x.created = k.created)
    WHEN 'inv_' THEN EXISTS (SELECT 1 FROM invoices AS x WHERE x.id = k.object AND x.project = k.project
        AND x.livemode = k.livemode AND k.created IN (x.created, x.opened_at, x.paid_at))
    WHEN 'ord_' THEN EXISTS (SELECT 1 FROM orders AS x WHERE x.id = k.object AND x.project = k.project
        AND x.livemode = k.livemode AND k.created IN (x.created, x.paid_at, x.shipped_at))
    WHEN 'usr_' THEN EXISTS (SELECT 1 FROM users AS x WHERE x.id = k.object AND x.project = k.project
        AND x.livemode = k.livemode AND k.created >= x.created)
    WHEN 'evt_' THEN EXISTS (SELECT 1 FROM events AS x WHERE x.book = b.book AND x.id = k.object)
    ELSE k.object = 'clock' OR substr(k.object, 1, 4) IN ('key_', 'prj_', 'whe_', 'flt_', 'snp_') END""",
    ),
    Check(
        "idempotency_key",
        "idempotency key {id} is missing, although request {request} with this key was answered 201.",
        """
SELECT r.idempotency_key AS id, r.id AS request FROM requests AS r LEFT JOIN idempotency_keys AS k
    ON k.project = r.project AND k.livemode = r.livemode AND k.key = r.idempotency_key
WHERE r.status = 201 AND r.idempotency_key IS NOT NULL AND k.key IS NULL
    AND r.path NOT LIKE '/v1/test_helpers%'""",
    ),
)


def run(unit: AuditUnit, check: Check, since: Mapping[LoggedBook, str] | None, faults: Discrepancies) -> None:
    """Note the bad rows that a check finds.

    `since` contains, for each book, the transaction after which the audit begins. `since` is None if the
    audit covers all rows.
    """
    if since is None or not check.since:
        _note(unit, check, check.sql, {}, faults)
        return
    for book, transaction in since.items():
        bounds: dict[str, Value] = {"book": book.number, "transaction": transaction}
        _note(unit, check, f"{check.sql} AND {check.since}", bounds, faults)


def _note(unit: AuditUnit, check: Check, sql: str, bounds: dict[str, Value], faults: Discrepancies) -> None:
    for row in unit.execute(f"{sql} LIMIT {NAMED_MAX + 1}", bounds):
        faults.add(check.kind, str(row["id"]), check.message.format(**_columns_of(row)))


def check_counters(unit: AuditUnit, counts: Mapping[int, int], faults: Discrepancies) -> None:
    """Note the projects and modes with wrong counters.

    `counts` maps the number of each book to how many transactions the book has.
    """
    rows = unit.execute(
        """
SELECT min(b.book) AS book, project AS id, livemode, sum(objects) AS objects_off, sum(numbers) AS numbers_off
FROM (
    SELECT project, livemode, stored_objects AS objects, invoice_numbers AS numbers FROM counters
    UNION ALL
    SELECT project, livemode, -count(*), 0 FROM accounts GROUP BY project, livemode
    UNION ALL
    SELECT project, livemode, -count(*), -count(number) FROM invoices GROUP BY project, livemode
    UNION ALL
    SELECT project, livemode, -count(*), 0 FROM users GROUP BY project, livemode
    UNION ALL
    SELECT project, livemode, -count(*), 0 FROM orders GROUP BY project, livemode
) AS counted JOIN books AS b USING (project, livemode)
GROUP BY project, livemode ORDER BY project, livemode"""
    )
    for row in rows:
        off = row["objects_off"] - counts.get(row["book"], 0)
        if off or row["numbers_off"]:
            mode = mode_name(bool(row["livemode"]))
            faults.add(
                "counter",
                str(row["id"]),
                f"the counters of project {row['id']}, {mode} mode, are off by {off} objects and"
                f" {row['numbers_off']} invoice numbers.",
            )


def check_time(unit: AuditUnit, faults: Discrepancies) -> None:
    """Note a fault if the stored time is far in the future.

    The stored time is the latest time that the ledger's clock has reached (`kept_time`). A wrong time does
    harm, because the ledger's clock starts at the stored time and never goes back. If a test moved the clock
    forward, the stored time is no fault, because the ledger then contains events of the later time, or a
    server ran at the later time.
    """
    reached_time, newest = kept_time.get(unit), unit.first(kept_time.NEWEST_EVENT)
    event = 0 if newest is None or newest["id"] is None else moment_of(newest["id"])
    if reached_time.reached - max(unit.now, event, reached_time.served or 0) > FAR_MS:
        faults.add(
            "time",
            "",
            f"kept_time.reached is {reached_time.reached},"
            " more than a year after the last event and the machine's"
            " clock: the ledger's clock would start there.",
        )


def check_logs(unit: AuditUnit, faults: Discrepancies) -> None:
    """Note the books whose transparency log was removed.

    A server makes the key of the log before it serves, and seals an event within a second. So a served ledger
    must have a key, and a book with events must have a log if a server ran for long enough
    (`_sealed_long_ago`).
    """
    served_at = kept_time.get(unit).served
    if served_at is None:
        return  # the ledger was never served
    key = keys.current(unit)
    for book in stored.behind(unit):
        if book.checkpoint is None and (
            key is None or _sealed_long_ago(unit, book.book.number, key, served_at)
        ):
            mode = mode_name(book.book.livemode)
            faults.add(
                "log",
                book.book.project,
                f"{book.book.project}, {mode} mode, has events but no log, although a server has run:"
                " somebody removed the log. Compare with a checkpoint that you saved elsewhere.",
            )


def _sealed_long_ago(unit: AuditUnit, book: int, key: LogKey, served_at: int) -> bool:
    """Return whether a server was still running LONG_MS after the book's log could begin.

    The log can begin when the key is made and the book has an event.
    """
    row = unit.first("SELECT min(created) AS first FROM events WHERE book = :book", {"book": book})
    return row is not None and max(row["first"] or served_at, key.created) + LONG_MS < served_at


def check_originals(unit: AuditUnit, faults: Discrepancies) -> None:
    """Note the idempotency keys that name a wrong object of their request (see `_is_first`)."""
    values: dict[str, Value] = {"project": "", "livemode": 0, "key": ""}
    while rows := unit.execute(
        "SELECT project, livemode, key, object, originals FROM idempotency_keys"
        " WHERE originals IS NOT NULL AND (project, livemode, key) > (:project, :livemode, :key)"
        " ORDER BY project, livemode, key LIMIT :rows",
        {**values, "rows": _ROWS_AT_ONCE},
    ):
        for row in rows:
            if not _is_first(unit, row["object"], idempotency.unfold(row["originals"])):
                faults.add(
                    "idempotency_key",
                    row["key"],
                    f"idempotency key {row['key']} names {row['object']}, but this is not the first object"
                    " that its request made.",
                )
        values = {name: rows[-1][name] for name in values}


def _is_first(unit: AuditUnit, object: str, ids: list[str]) -> bool:
    """Return whether `object`, which an idempotency key names, is the object that the key must name.

    `ids` are the ids of all objects of the request, as `idempotency.store_ids` stores them. A key must name
    the first of these objects. There are two exceptions: the first object of a reversal is the reversed
    transaction, and the first object of a roll is the old API key. In both cases the idempotency key must
    name the second object, which the request created.
    """
    about, *objects_made = ids or [""]
    if len(objects_made) != 1:
        return object == about
    if about.startswith("txn_"):
        row = unit.first("SELECT reverses FROM transactions WHERE id = :id", {"id": objects_made[0]})
        return object == (objects_made[0] if row is not None and row["reverses"] == about else about)
    return object == (objects_made[0] if about.startswith("key_") else about)


def _columns_of(row: Row) -> dict[str, object]:
    columns: dict[str, object] = {name: row[name] for name in list(row.keys())}
    if "livemode" in columns:
        columns["mode"] = mode_name(bool(columns["livemode"]))
    return columns
