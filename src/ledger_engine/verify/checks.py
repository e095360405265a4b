"""The checks of the audit, in the order in which their faults are reported.

Most are one statement that returns bad rows. What takes reading all transactions is found by the pass over
them (`scan`), so that a million transactions take seconds and little memory.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from ledger_engine.core.money import MAX_AMOUNT
from ledger_engine.core.tenant import mode_name
from ledger_engine.store import Row, Value
from ledger_engine.store.snapshot import AuditUnit
from ledger_engine.verify import scan
from ledger_engine.verify.points import Proven
from ledger_engine.verify.scan import Found, Pool

_ROWS_AT_ONCE = 1000

SOUND = "the storage is sound"
COUNTERS = "the counters have counted right"


@dataclass(frozen=True, slots=True)
class Check:
    """`sql` selects the bad rows in order; `message` is filled in from their columns.

    Without `sql` another part of the audit finds them. `since` are more conditions, on transactions after
    `:transaction` of `:book`, for an audit of these alone.
    """

    name: str
    message: str
    sql: str = ""
    since: str = ""


CHECKS = (
    Check(
        scan.RANGE,
        "{kind} {id} has the amount {amount}, which is out of range.",
        f"""
SELECT 'account' AS kind, id, balance AS amount FROM accounts
WHERE balance NOT BETWEEN -{MAX_AMOUNT} AND {MAX_AMOUNT}
UNION ALL
SELECT 'settlement', project || ' ' || currency, balance FROM settlements WHERE abs(balance / 2) > {2**61}""",
    ),
    Check(
        scan.OF_ITS_BOOK, "transaction {id} belongs to another project or mode than its account {account}."
    ),
    Check(
        scan.CHAIN,
        "transaction {id} has the balance_after {said} for {account}; the correct value is {due}.",
    ),
    Check(scan.LAST, "account {id} has the balance {said}; its transactions add up to {due}."),
    Check(scan.SETTLED, "the settlement in {currency} of {id}, {mode} mode, is off by {off}."),
    Check(
        "the books sum to zero",
        "the books in {currency} of {id}, {mode} mode, sum to {total}.",
        """
SELECT project AS id, livemode, currency, sum(balance) AS total FROM (
    SELECT project, livemode, currency, balance FROM settlements
    UNION ALL
    SELECT project, livemode, currency, balance FROM accounts
) AS sides GROUP BY project, livemode, currency HAVING sum(balance) <> 0""",
    ),
    Check(scan.MIRRORED, "the sides of transfer {id} do not mirror each other."),
    Check(scan.DESTINED, "transaction {id} has no destination that fits its account {account}."),
    Check(
        "a reversal is the opposite of what it reverses",
        "transaction {id} is not the opposite of {reverses}, which it reverses.",
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
        "an invoice has what its status says",
        "invoice {id} is {status}, but its number, times or payment do not match that status.",
        """
SELECT id, status FROM invoices
WHERE (number IS NULL) <> (status = 'draft') OR (opened_at IS NULL) <> (status = 'draft')
    OR (paid_at IS NULL) = (status = 'paid') OR (payment IS NULL) = (status = 'paid')
    OR (voided_at IS NULL) = (status = 'void')""",
    ),
    Check(
        "a paid invoice was paid once and in full",
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
        "an invoice is in its account's currency, project and mode",
        "invoice {id} does not fit its account {account}.",
        """
SELECT i.id, i.account FROM invoices AS i JOIN accounts AS a ON a.id = i.account
WHERE i.currency <> a.currency OR i.project <> a.project OR i.livemode <> a.livemode""",
    ),
    Check(
        scan.POSTED,
        "{kind} {id} belongs to {object}, which does not exist.",
        """
SELECT 'delivery' AS kind, d.id, d.event AS object FROM deliveries AS d
    LEFT JOIN books AS b ON b.project = d.project AND b.livemode = d.livemode
    LEFT JOIN events AS e ON e.book = b.book AND e.id = d.event
WHERE e.id IS NULL""",
    ),
    Check(
        "invoice numbers have no gaps",
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
        "an order or user has what its status says",
        "{kind} {id} is {status}, but its times do not match that status.",
        """
SELECT 'order' AS kind, id, status FROM orders
WHERE (paid_at IS NULL) <> (status = 'open') OR (shipped_at IS NULL) = (status = 'shipped')
UNION ALL
SELECT 'user', id, status FROM users WHERE (deactivated_at IS NULL) <> (status = 'active')""",
    ),
    Check(
        "an order is in its user's project and mode",
        "order {id} belongs to another project or mode than its user {user_id}.",
        """
SELECT o.id, o.user_id FROM orders AS o JOIN users AS u ON u.id = o.user_id
WHERE o.project <> u.project OR o.livemode <> u.livemode""",
    ),
    Check(
        COUNTERS,
        "the counters of project {id}, {mode} mode, are off by {objects_off} objects and {numbers_off}"
        " invoice numbers.",
    ),
)

# The kinds, tables and columns of what is stored as a JSON object. Each engine checks these by its own means:
# in Python it would take an eighth of the audit's time.
OBJECTS_CHECK = "what is stored as JSON is a JSON object"
_OBJECTS = (
    ("account", "accounts", "metadata"),
    ("invoice", "invoices", "metadata"),
    ("event", "events", "body"),
)

# Each selects rows after `:after`, with `said` and the JSON `items` that must add up to it.
SUMS = (
    Check(
        "an invoice's lines add up to its amount",
        "invoice {id} has the amount {said}; its lines add up to {due}.",
        "SELECT id, amount AS said, lines AS items FROM invoices WHERE lines IS NOT NULL AND id > :after",
    ),
    Check(
        "an order's items add up to its total",
        "order {id} has the amount {said}; its items add up to {due}.",
        "SELECT id, total AS said, items FROM orders WHERE id > :after",
    ),
)
MESSAGES = {check.name: check.message for check in (*CHECKS, *SUMS)} | {
    OBJECTS_CHECK: "{kind} {id} has text in {column} that is not a JSON object."
}
# In which faults are reported: storage, which is none of them, comes before all.
ORDER = [*(check.name for check in CHECKS), OBJECTS_CHECK, *(check.name for check in SUMS)]


def first_faults(unit: AuditUnit, since: Mapping[int, Proven] | None) -> dict[str, Found]:
    """Return the first fault of each check that a statement makes, by the check's name.

    With `since`, transactions and events up to there are left out.
    """
    faults: dict[str, Found] = {}
    for check in CHECKS:
        if check.sql and (row := _first_row(unit, check, since)) is not None:
            faults[check.name] = _found(row)
    for kind, table, column in _OBJECTS:
        if since is not None and table == "events":
            continue
        id = unit.first_not_an_object(table, column)
        if id is not None and OBJECTS_CHECK not in faults:
            faults[OBJECTS_CHECK] = Found(id, {"kind": kind, "column": column})
    for check in SUMS:
        if (found := _first_wrong_sum(unit, check)) is not None:
            faults[check.name] = found
    return faults


def miscounted(unit: AuditUnit, counted: Mapping[int, int]) -> Found | None:
    """Return the first project and mode whose counters are wrong; `counted` has its transactions by book."""
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
        off = row["objects_off"] - counted.get(row["book"], 0)
        if off or row["numbers_off"]:
            return _found(row, objects_off=off)
    return None


def unsettled(unit: AuditUnit, moved: Mapping[Pool, int], since: Mapping[int, Proven] | None) -> Found | None:
    """Return the first settlement that is not the other side of what was `moved`, since then."""
    off: defaultdict[Pool, int] = defaultdict(int, moved)
    for row in unit.execute(
        "SELECT b.book, s.currency, s.balance FROM settlements AS s JOIN books AS b USING (project, livemode)"
    ):
        off[Pool(row["book"], row["currency"])] += row["balance"]
    for book, proven in (since or {}).items():
        for currency, balance in proven.settlements.items():
            off[Pool(book, currency)] -= balance
    books = {row["book"]: row for row in unit.execute("SELECT book, project AS id, livemode FROM books")}
    wrong = [
        (books[pool.book]["id"], books[pool.book]["livemode"], pool.currency, by)
        for pool, by in off.items()
        if by
    ]
    for id, livemode, currency, by in sorted(wrong)[:1]:
        return Found(id, {"mode": mode_name(bool(livemode)), "currency": currency, "off": by})
    return None


def unlike_last(unit: AuditUnit, held: Mapping[str, int], *, every: bool) -> Found | None:
    """Return the first account that does not hold what its last transaction says, as in `held`.

    Unless it is `every` account, only those in `held` are looked at.
    """
    after = ""
    while rows := unit.execute(
        "SELECT id, balance FROM accounts WHERE id > :after ORDER BY id LIMIT :rows",
        {"after": after, "rows": _ROWS_AT_ONCE},
    ):
        for row in rows:
            if (every or row["id"] in held) and held.get(row["id"], 0) != row["balance"]:
                return Found(row["id"], {"said": row["balance"], "due": held.get(row["id"], 0)})
        after = rows[-1]["id"]
    return None


def _first_row(unit: AuditUnit, check: Check, since: Mapping[int, Proven] | None) -> Row | None:
    if since is None or not check.since:
        return unit.first(f"{check.sql} LIMIT 1")
    for book in scan.books_of(unit, "transactions"):
        proven = since.get(book)
        bounds: dict[str, Value] = {"book": book, "transaction": "" if proven is None else proven.transaction}
        if (row := unit.first(f"{check.sql} AND {check.since} LIMIT 1", bounds)) is not None:
            return row
    return None


def _found(row: Row, **others: object) -> Found:
    named: dict[str, object] = {name: row[name] for name in list(row.keys())} | others
    if "livemode" in named:
        named["mode"] = mode_name(bool(named["livemode"]))
    return Found(str(row["id"]), named)


def _first_wrong_sum(unit: AuditUnit, check: Check) -> Found | None:
    after = ""
    while rows := unit.execute(
        f"{check.sql} ORDER BY id LIMIT :rows", {"after": after, "rows": _ROWS_AT_ONCE}
    ):
        for row in rows:
            due = _total(row["items"])
            if due != row["said"]:
                return Found(
                    row["id"], {"said": row["said"], "due": "no whole number" if due is None else due}
                )
        after = rows[-1]["id"]
    return None


def _total(items: str) -> int | None:
    """Return the sum of quantity × unit_amount, or None when `items` is not a JSON list of such objects.

    Either may be missing: the quantity is then 1, the unit amount 0, as in `orders.create`.
    """
    try:
        parsed = json.loads(items)
    except (ValueError, RecursionError):
        return None
    if not isinstance(parsed, list) or not all(isinstance(each, dict) for each in parsed):
        return None
    factors = [(each.get("quantity", 1), each.get("unit_amount", 0)) for each in parsed]
    if not all(type(factor) is int for pair in factors for factor in pair):
        return None
    total: int = sum(quantity * amount for quantity, amount in factors)
    return total
