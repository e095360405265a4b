"""The audit: computes every stored result again from its sources, and compares.

The checks run one after the other on one snapshot; the first row with a fault ends the audit. Each is one
statement that returns bad rows, so that a million transactions take seconds and no memory.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from ledger_engine.core.money import MAX_AMOUNT
from ledger_engine.core.tenant import mode_name
from ledger_engine.database import Unit

_ITEMS_AT_ONCE = 1000


@dataclass(frozen=True, slots=True)
class Fault:
    """A failed check: `check` is its name, `id` the row (of a table named in `message`) with the fault."""

    check: str
    id: str
    message: str


@dataclass(frozen=True, slots=True)
class Report:
    """How many records were checked, and the first fault, if there is one."""

    projects: int
    accounts: int
    transactions: int
    invoices: int
    fault: Fault | None


@dataclass(frozen=True, slots=True)
class _Check:
    """`sql` selects the bad rows in order; `message` is filled in from their columns."""

    name: str
    message: str
    sql: str


def verify(unit: Unit) -> Report:
    """Run every check over all projects and both modes, until one fails."""
    counted = unit.first(
        "SELECT (SELECT count(*) FROM projects) AS projects, (SELECT count(*) FROM accounts) AS accounts,"
        " (SELECT count(*) FROM transactions) AS transactions, (SELECT count(*) FROM invoices) AS invoices"
    )
    assert counted is not None
    return Report(
        projects=counted["projects"],
        accounts=counted["accounts"],
        transactions=counted["transactions"],
        invoices=counted["invoices"],
        fault=next(_faults(unit), None),
    )


def unreadable(reason: str) -> Report:
    """Return the report on a file that cannot be read at all."""
    return Report(0, 0, 0, 0, Fault("the storage is sound", "", reason))


def _faults(unit: Unit) -> Iterator[Fault]:
    for sentence in unit.inspect():
        yield Fault("the storage is sound", "", f"The file is damaged: {sentence}.")
    for check in CHECKS:
        for row in unit.execute(f"{check.sql} LIMIT 1"):
            named = {name: row[name] for name in list(row.keys())}
            if "livemode" in named:
                named["mode"] = mode_name(bool(named["livemode"]))
            yield Fault(check.name, str(row["id"]), check.message.format(**named))
    for kind, table, column in _OBJECTS:
        bad = unit.first_not_an_object(table, column)
        if bad is not None:
            yield Fault(OBJECTS_CHECK, bad, f"{kind} {bad} has text in {column} that is not a JSON object.")
    for check in SUMS:
        yield from _items_that_do_not_add_up(unit, check)


_SIGNED = "CASE type WHEN 'credit' THEN amount ELSE -amount END"

CHECKS = (
    _Check(
        "amounts and balances are in range",
        "{kind} {id} holds {amount}, which is out of range.",
        f"""
SELECT 'transaction' AS kind, id,
       CASE WHEN amount BETWEEN 1 AND {MAX_AMOUNT} THEN balance_after ELSE amount END AS amount
FROM transactions
WHERE amount NOT BETWEEN 1 AND {MAX_AMOUNT} OR balance_after NOT BETWEEN -{MAX_AMOUNT} AND {MAX_AMOUNT}
UNION ALL
SELECT 'account', id, balance FROM accounts WHERE balance NOT BETWEEN -{MAX_AMOUNT} AND {MAX_AMOUNT}
UNION ALL
SELECT 'settlement', project || ' ' || currency, balance FROM settlements WHERE abs(balance / 2) > {2**61}""",
    ),
    _Check(
        "a transaction belongs to its account's project and mode",
        "transaction {id} belongs to another project or mode than its account {account}.",
        """
SELECT t.id, t.account FROM transactions AS t JOIN accounts AS a ON a.id = t.account
    JOIN books AS b ON b.book = t.book
WHERE b.project <> a.project OR b.livemode <> a.livemode""",
    ),
    _Check(
        "each balance follows from the one before",
        "transaction {id} records {account} at {said} after it; the correct balance is {due}.",
        f"""
SELECT id, account, balance_after AS said, due FROM (
    SELECT id, account, balance_after,
           {_SIGNED} + lag(balance_after, 1, 0)
               OVER (PARTITION BY account ORDER BY id) AS due
    FROM transactions
) WHERE balance_after <> due ORDER BY id""",
    ),
    _Check(
        "an account holds what its last transaction says",
        "account {id} has the balance {said}; its transactions add up to {due}.",
        """
SELECT id, balance AS said, due FROM (
    SELECT a.id, a.balance, coalesce((
        SELECT t.balance_after FROM transactions AS t
        WHERE t.account = a.id ORDER BY t.id DESC LIMIT 1), 0) AS due
    FROM accounts AS a
) WHERE balance <> due ORDER BY id""",
    ),
    _Check(
        "a settlement is the other side of all that is no transfer",
        "the settlement in {currency} of {id}, {mode} mode, is off by {off}.",
        f"""
SELECT project AS id, livemode, currency, sum(balance) AS off FROM (
    SELECT project, livemode, currency, balance FROM settlements
    UNION ALL
    SELECT a.project, a.livemode, a.currency, moved.amount
    FROM (SELECT account, sum({_SIGNED}) AS amount FROM transactions WHERE transfer IS NULL GROUP BY account)
        AS moved JOIN accounts AS a ON a.id = moved.account
) GROUP BY project, livemode, currency HAVING off <> 0""",
    ),
    _Check(
        "the books sum to zero",
        "the books in {currency} of {id}, {mode} mode, sum to {total}.",
        """
SELECT project AS id, livemode, currency, sum(balance) AS total FROM (
    SELECT project, livemode, currency, balance FROM settlements
    UNION ALL
    SELECT project, livemode, currency, balance FROM accounts
) GROUP BY project, livemode, currency HAVING total <> 0""",
    ),
    _Check(
        "the two sides of a transfer mirror each other",
        "the sides of transfer {id} do not mirror each other.",
        f"""
SELECT transfer AS id FROM transactions WHERE transfer IS NOT NULL GROUP BY transfer
HAVING count(*) <> 2 OR sum({_SIGNED}) <> 0 OR min(id) <> transfer OR min(created) <> max(created)
    OR min(account) <> min(destination) OR max(account) <> max(destination) OR min(account) = max(account)
    OR sum(account = destination) <> 0""",
    ),
    _Check(
        "a transfer has a destination of its currency, and nothing else has one",
        "transaction {id} has no destination that fits its account {account}.",
        """
SELECT t.id, t.account FROM transactions AS t
    LEFT JOIN accounts AS a ON a.id = t.account LEFT JOIN accounts AS b ON b.id = t.destination
WHERE (t.transfer IS NOT NULL OR t.destination IS NOT NULL)
    AND (t.transfer IS NULL OR b.id IS NULL OR a.currency <> b.currency
    OR a.project <> b.project OR a.livemode <> b.livemode)""",
    ),
    _Check(
        "a reversal is the opposite of what it reverses",
        "transaction {id} is not the opposite of {reverses}, which it reverses.",
        """
SELECT r.id, r.reverses FROM transactions AS r
    LEFT JOIN transactions AS o ON o.book = r.book AND o.id = r.reverses
WHERE r.reverses IS NOT NULL AND (o.id IS NULL OR o.id >= r.id OR o.account <> r.account
    OR o.amount <> r.amount OR o.type = r.type OR o.destination IS NOT r.destination
    OR (r.transfer IS NOT NULL AND NOT EXISTS (
        SELECT 1 FROM transactions AS s WHERE s.transfer = r.transfer AND s.id <> r.id
            AND s.reverses IS NOT NULL)))""",
    ),
    _Check(
        "an invoice has what its status says",
        "invoice {id} is {status}, but its number, times or payment do not match that status.",
        """
SELECT id, status FROM invoices
WHERE (number IS NULL) <> (status = 'draft') OR (opened_at IS NULL) <> (status = 'draft')
    OR (paid_at IS NULL) = (status = 'paid') OR (payment IS NULL) = (status = 'paid')
    OR (voided_at IS NULL) = (status = 'void')""",
    ),
    _Check(
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
    _Check(
        "an invoice is in its account's currency, project and mode",
        "invoice {id} does not fit its account {account}.",
        """
SELECT i.id, i.account FROM invoices AS i JOIN accounts AS a ON a.id = i.account
WHERE i.currency <> a.currency OR i.project <> a.project OR i.livemode <> a.livemode""",
    ),
    _Check(
        "the event of a posting has its transaction, and a delivery its event",
        "{kind} {id} belongs to {object}, which does not exist.",
        """
SELECT 'event' AS kind, e.id, e.object FROM events AS e
    LEFT JOIN transactions AS t ON t.book = e.book AND t.id = e.object
WHERE e.body IS NULL AND (t.id IS NULL OR t.created <> e.created)
UNION ALL
SELECT 'delivery', d.id, d.event FROM deliveries AS d
    LEFT JOIN books AS b ON b.project = d.project AND b.livemode = d.livemode
    LEFT JOIN events AS e ON e.book = b.book AND e.id = d.event
WHERE e.id IS NULL""",
    ),
    _Check(
        "invoice numbers have no gaps",
        "invoice {id} has the number {number}; the next number without a gap is {due}.",
        """
SELECT id, number, due FROM (
    SELECT id, number, 'INV-' || printf('%06d', row_number() OVER (
        PARTITION BY project, livemode ORDER BY CAST(substr(number, 5) AS INTEGER))) AS due
    FROM invoices WHERE number IS NOT NULL
) WHERE number <> due""",
    ),
    _Check(
        "an order or user has what its status says",
        "{kind} {id} is {status}, but its times do not match that status.",
        """
SELECT 'order' AS kind, id, status FROM orders
WHERE (paid_at IS NULL) <> (status = 'open') OR (shipped_at IS NULL) = (status = 'shipped')
UNION ALL
SELECT 'user', id, status FROM users WHERE (deactivated_at IS NULL) <> (status = 'active')""",
    ),
    _Check(
        "an order is in its user's project and mode",
        "order {id} belongs to another project or mode than its user {user_id}.",
        """
SELECT o.id, o.user_id FROM orders AS o JOIN users AS u ON u.id = o.user_id
WHERE o.project <> u.project OR o.livemode <> u.livemode""",
    ),
    _Check(
        "the counters have counted right",
        "project {id}, {mode} mode, has counted {objects_off} objects, {numbers_off} numbers too many.",
        """
SELECT project AS id, livemode, sum(objects) AS objects_off, sum(numbers) AS numbers_off
FROM (
    SELECT project, livemode, stored_objects AS objects, invoice_numbers AS numbers FROM counters
    UNION ALL
    SELECT project, livemode, -count(*), 0 FROM accounts GROUP BY project, livemode
    UNION ALL
    SELECT b.project, b.livemode, -t.counted, 0
    FROM (SELECT book, count(*) AS counted FROM transactions GROUP BY book) AS t
        JOIN books AS b ON b.book = t.book
    UNION ALL
    SELECT project, livemode, -count(*), -count(number) FROM invoices GROUP BY project, livemode
    UNION ALL
    SELECT project, livemode, -count(*), 0 FROM users GROUP BY project, livemode
    UNION ALL
    SELECT project, livemode, -count(*), 0 FROM orders GROUP BY project, livemode
) GROUP BY project, livemode HAVING objects_off <> 0 OR numbers_off <> 0""",
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
    _Check(
        "an invoice's lines add up to its amount",
        "invoice {id} has the amount {said}; its lines add up to {due}.",
        "SELECT id, amount AS said, lines AS items FROM invoices WHERE lines IS NOT NULL AND id > :after",
    ),
    _Check(
        "an order's items add up to its total",
        "order {id} has the amount {said}; its items add up to {due}.",
        "SELECT id, total AS said, items FROM orders WHERE id > :after",
    ),
)


def _items_that_do_not_add_up(unit: Unit, check: _Check) -> Iterator[Fault]:
    after = ""
    while rows := unit.execute(
        f"{check.sql} ORDER BY id LIMIT :rows", {"after": after, "rows": _ITEMS_AT_ONCE}
    ):
        for row in rows:
            due = _total(row["items"])
            if due != row["said"]:
                message = check.message.format(
                    id=row["id"], said=row["said"], due="no whole number" if due is None else due
                )
                yield Fault(check.name, row["id"], message)
        after = rows[-1]["id"]


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
