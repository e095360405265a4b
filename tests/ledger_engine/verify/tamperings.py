"""A catalogue of what somebody can change in a stopped ledger with any SQLite tool.

Each has a statement, or several with semicolons between, and the kind of the fault that names it, as in
docs/verify.md#faults.
"""

from __future__ import annotations


def _of(table: str, condition: str = "1 = 1", offset: int = 0, column: str = "id") -> str:
    """Return one of the rows that match, by its id."""
    return f"(SELECT {column} FROM {table} WHERE {condition} ORDER BY {column} LIMIT 1 OFFSET {offset})"


POSTING = _of("transactions", "transfer IS NULL AND reverses IS NULL", 100)
LAST = "(SELECT max(id) FROM transactions WHERE account = (SELECT id FROM accounts WHERE name = 'Till'))"
SIDE = _of("transactions", "transfer = id")
OTHER_SIDE = _of("transactions", "transfer <> id")
REVERSAL = _of("transactions", "reverses IS NOT NULL")
TILL = _of("accounts", "name = 'Till'")
PAID, OPEN, DRAFT, VOID = (
    _of("invoices", f"status = '{each}'") for each in ("paid", "open", "draft", "void")
)
ADA, BOB = _of("users", "name = 'ada'"), _of("users", "name = 'bob'")
NEW, SHIPPED = _of("orders", "status = 'open'"), _of("orders", "status = 'shipped'")
EVENT = _of("events", "body IS NULL", 100)
ABOUT_INVOICE = _of("events", "type = 'invoice.updated'")
ABOUT_USER = _of("events", "type = 'user.created'")


def _of_erased(said: str, says: str) -> str:
    """Return a change of the first event of a user who is erased."""
    return (
        f"UPDATE events SET body = replace(body, '{said}', '{says}') WHERE id ="
        " (SELECT min(id) FROM events WHERE body LIKE '%\"email\":null%')"
    )


def _set(table: str, column: str, value: str, id: str) -> str:
    return f"UPDATE {table} SET {column} = {value} WHERE id = {id}"


def _of_column(table: str, row: str, kind: str, /, **values: str) -> dict[str, tuple[str, str]]:
    """Return a change of each of these columns, all of which have faults of one kind."""
    return {
        f"{table}.{column}, {kind}": (_set(table, column, value, row), kind)
        for column, value in values.items()
    }


_COSIGNED = (
    "INSERT INTO log_cosignatures (book, witness, size, checkpoint, line)"
    " SELECT book, 'witness.example', size, checkpoint,"
)

# What is named without a checkpoint.
SEEN: dict[str, tuple[str, str]] = {
    **_of_column(
        "accounts",
        TILL,
        "account",
        name="'Till 2'",
        currency="'USD'",
        balance="balance + 1",
        metadata="'{}'",
        created="created + 1",
        livemode="1",
        project="'prj_x'",
    ),
    "accounts.metadata that is no JSON": (_set("accounts", "metadata", "'{'", TILL), "account"),
    "accounts.metadata that is a list": (_set("accounts", "metadata", "'[]'", TILL), "account"),
    "accounts.id": (_set("accounts", "id", "'acc_x'", TILL), "account"),
    "an account that is gone": ("DELETE FROM accounts WHERE name = 'Yen'", "event"),
    "an account that is forged": (
        "INSERT INTO accounts SELECT 'acc_x', project, livemode, 'Mine', 'EUR', 0, '{}', created"
        " FROM accounts"
        " LIMIT 1; UPDATE counters SET stored_objects = stored_objects + 1 WHERE livemode = 0",
        "account",
    ),
    "money from account to account": (
        "UPDATE accounts SET balance = balance + CASE name WHEN 'Till' THEN -5 ELSE 5 END WHERE"
        " currency = 'EUR'",
        "account",
    ),
    **_of_column(
        "transactions",
        POSTING,
        "transaction",
        amount="amount + 1",
        type="'debit'",
        balance_after="balance_after + 1",
        account=_of("accounts", "name = 'Bank'"),
        id="'txn_x'",
    ),
    **_of_column(
        "transactions",
        POSTING,
        "log",
        description="'Theirs'",
        long_description="'Longer'",
        reverses="NULL, description = 'y'",
    ),
    "transactions.destination": (_set("transactions", "destination", TILL, POSTING), "transfer"),
    "transactions.transfer": (_set("transactions", "transfer", "'txn_x'", POSTING), "transfer"),
    "transactions.created": (_set("transactions", "created", "created + 1", POSTING), "event"),
    "transactions.book": (_set("transactions", "book", "book + 1", POSTING), "transaction"),
    "transactions.reverses": (_set("transactions", "reverses", f"{POSTING}", REVERSAL), "reversal"),
    "transactions.amount out of range": (_set("transactions", "amount", str(2**60), POSTING), "transaction"),
    "transactions.amount below zero": (_set("transactions", "amount", "-amount", POSTING), "transaction"),
    "the description and the balance of one posting": (
        f"UPDATE transactions SET description = 'z', balance_after = 0 WHERE id = {POSTING}",
        "transaction",
    ),
    "two postings with their amounts swapped": (
        "UPDATE transactions SET amount = CASE amount WHEN 50 THEN 51 ELSE 50 END WHERE amount IN (50, 51)",
        "transaction",
    ),
    "two postings with their descriptions swapped": (
        "UPDATE transactions SET description = CASE description WHEN 'No. 7' THEN 'No. 8' ELSE 'No. 7' END"
        " WHERE description IN ('No. 7', 'No. 8')",
        "log",
    ),
    "a posting that is gone": (f"DELETE FROM transactions WHERE id = {POSTING}", "event"),
    "the last posting of an account that is gone": (f"DELETE FROM transactions WHERE id = {LAST}", "event"),
    "a posting that is gone with its event": (
        f"DELETE FROM events WHERE object = {POSTING}; DELETE FROM transactions WHERE id = {POSTING}",
        "log",
    ),
    "the last posting with its event, and all balances": (
        f"UPDATE settlements SET balance = balance + (SELECT amount FROM transactions WHERE id = {LAST})"
        f" WHERE currency = 'EUR';"
        f"UPDATE accounts SET balance = balance - (SELECT amount FROM transactions WHERE id = {LAST})"
        f" WHERE name = 'Till';"
        "UPDATE counters SET stored_objects = stored_objects - 1 WHERE livemode = 0;"
        f"DELETE FROM events WHERE object = {LAST}; DELETE FROM transactions WHERE id = {LAST}",
        "log",
    ),
    "a posting that is forged": (
        "INSERT INTO transactions SELECT book, id || '0', account, amount, type, description,"
        " balance_after + amount,"
        f" NULL, NULL, NULL, created, NULL FROM transactions WHERE id = {LAST}",
        "transaction",
    ),
    "a posting that is forged with its event": (
        "INSERT INTO events SELECT book, id || '0', type, object || '0', NULL, NULL, created, NULL"
        f" FROM events WHERE object = {LAST}; INSERT INTO transactions SELECT book, id || '0', account,"
        " amount, type, description, balance_after + amount, NULL, NULL, NULL, created, NULL"
        f" FROM transactions WHERE id = {LAST}",
        "account",
    ),
    "all postings of an account moved to another": (
        "UPDATE transactions SET account = (SELECT id FROM accounts WHERE name = 'Yen') WHERE"
        f" account = {TILL}",
        "account",
    ),
    "all descriptions": ("UPDATE transactions SET description = ''", "log"),
    "a transfer cut in two": (
        f"UPDATE transactions SET transfer = NULL, destination = NULL WHERE transfer = {SIDE}",
        "log",
    ),
    "one side of a transfer cut off": (_set("transactions", "transfer", "NULL", OTHER_SIDE), "transfer"),
    "the destination of one side of a transfer": (
        _set("transactions", "destination", _of("accounts", "currency = 'JPY'"), SIDE),
        "transfer",
    ),
    "a transfer under another name": (
        f"UPDATE transactions SET transfer = 'txn_x' WHERE transfer = {SIDE}",
        "transfer",
    ),
    "a reversal that is none any more": (_set("transactions", "reverses", "NULL", REVERSAL), "log"),
    "a reversal of a reversal": (_set("transactions", "reverses", "id", REVERSAL), "reversal"),
    "a settlement": ("UPDATE settlements SET balance = balance + 5", "settlement"),
    "a settlement that is gone": ("DELETE FROM settlements", "settlement"),
    "a settlement's currency": ("UPDATE settlements SET currency = 'CHF'", "settlement"),
    "a settlement in the other mode": ("UPDATE settlements SET livemode = 1", "settlement"),
    "a forged settlement with an account's balance": (
        "INSERT INTO settlements SELECT project, livemode, 'JPY', -5 FROM settlements;"
        "UPDATE accounts SET balance = 5 WHERE currency = 'JPY'",
        "account",
    ),
    **_of_column(
        "invoices",
        OPEN,
        "invoice",
        account=_of("accounts", "name = 'Bank'"),
        customer="'Eve'",
        currency="'CHF'",
        amount="amount + 1",
        lines="NULL",
        due_date="'2030-01-01'",
        description="'x'",
        metadata="'{}'",
        status="'draft'",
        number="'INV-000009'",
        payment=POSTING,
        opened_at="opened_at + 1",
        paid_at="1",
        voided_at="1",
        created="created + 1",
        livemode="1",
    ),
    "invoices.lines that are no list": (_set("invoices", "lines", "'{}'", OPEN), "invoice"),
    "invoices.lines nested deeper than they can be read": (
        _set("invoices", "lines", f"'{'[' * 100_000}'", OPEN),
        "invoice",
    ),
    "invoices.lines that end too soon": (_set("invoices", "lines", "'['", OPEN), "invoice"),
    "a paid invoice set back": (
        f"UPDATE invoices SET status = 'open', paid_at = NULL, payment = NULL WHERE id = {PAID}",
        "invoice",
    ),
    "a void invoice set back": (
        f"UPDATE invoices SET status = 'open', voided_at = NULL WHERE id = {VOID}",
        "invoice",
    ),
    "an invoice paid by itself": (
        f"UPDATE invoices SET status = 'paid', paid_at = opened_at, payment = {POSTING} WHERE id = {OPEN}",
        "invoice",
    ),
    "a draft opened by itself": (
        f"UPDATE invoices SET status = 'open', opened_at = created, number = 'INV-000005' WHERE id = {DRAFT};"
        "UPDATE counters SET invoice_numbers = invoice_numbers + 1 WHERE livemode = 0",
        "invoice",
    ),
    "a paid invoice's payment": (_set("invoices", "payment", POSTING, PAID), "invoice"),
    "two numbers swapped": (
        "UPDATE invoices SET number = number || 'x' WHERE number IS NOT NULL; UPDATE invoices SET"
        " number = CASE"
        " number WHEN 'INV-000001x' THEN 'INV-000002' WHEN 'INV-000002x' THEN 'INV-000001' ELSE"
        " substr(number, 1, 10) END WHERE number IS NOT NULL",
        "invoice",
    ),
    "an invoice that is gone": (f"DELETE FROM invoices WHERE id = {VOID}", "counter"),
    "a draft that is gone": (f"DELETE FROM invoices WHERE id = {DRAFT}", "event"),
    "a draft that is gone and not counted": (
        f"DELETE FROM invoices WHERE id = {DRAFT};"
        "UPDATE counters SET stored_objects = stored_objects - 1 WHERE livemode = 0",
        "event",
    ),
    "an invoice that is forged": (
        "INSERT INTO invoices (id, project, livemode, account, customer, currency, amount, created)"
        " SELECT 'inv_x', project, livemode, id, 'Eve', 'EUR', 5, created FROM accounts WHERE name = 'Till'",
        "invoice",
    ),
    **_of_column(
        "users",
        ADA,
        "user",
        name="'eva'",
        email="'eva@example.com'",
        email_folded="'eva@example.com'",
        role="'owner'",
        status="'deactivated'",
        deactivated_at="1",
        created="created + 1",
        livemode="1",
    ),
    "a deactivated user set back": (
        f"UPDATE users SET status = 'active', deactivated_at = NULL WHERE id = {BOB}",
        "user",
    ),
    "a user who is erased but not": (_set("users", "erased_at", "1", BOB), "user"),
    "a user that is gone": (f"DELETE FROM users WHERE id = {BOB}", "event"),
    "a user that is forged": (
        "INSERT INTO users (id, project, livemode, name, email, email_folded, role, created) SELECT 'usr_x',"
        " project, livemode, 'mal', 'mal@example.com', 'mal@example.com', 'owner', created FROM"
        " users LIMIT 1",
        "user",
    ),
    **_of_column(
        "orders",
        NEW,
        "order",
        user_id=BOB,
        items="'[]'",
        total="total + 1",
        status="'paid'",
        paid_at="1",
        shipped_at="1",
        created="created + 1",
        livemode="1",
    ),
    "a shipped order set back": (
        f"UPDATE orders SET status = 'paid', shipped_at = NULL WHERE id = {SHIPPED}",
        "order",
    ),
    "an order that is gone": (f"DELETE FROM orders WHERE id = {NEW}", "event"),
    "an order of nobody": (_set("orders", "user_id", "'usr_x'", NEW), "damage"),
    "orders.items that are no JSON": (_set("orders", "items", "'x'", NEW), "order"),
    "orders.items with another field": (
        _set("orders", "items", "replace(items, 'beans', 'grass')", NEW),
        "order",
    ),
    **_of_column(
        "events",
        EVENT,
        "event",
        object="'txn_x'",
        created="created + 1",
        type="'account.created'",
        book="book + 1",
    ),
    "events.object of another posting": (
        _set("events", "object", _of("events", "body IS NULL", 101, "object"), EVENT),
        "event",
    ),
    "events.id": (_set("events", "id", "id || '0'", EVENT), "log"),
    "events.body that is no JSON": (_set("events", "body", "'x'", ABOUT_INVOICE), "event"),
    "events.body of another time": (
        _set("events", "body", 'replace(body, \'"created":"2\', \'"created":"3\')', ABOUT_INVOICE),
        "event",
    ),
    "events.body with another customer": (
        _set("events", "body", "replace(body, 'Grace', 'Gracy')", ABOUT_INVOICE),
        "log",
    ),
    "events.body of the last event, with the object": (
        f"UPDATE events SET body = replace(body, 'Grace', 'Gracy') WHERE object = {OPEN};"
        f"UPDATE invoices SET customer = 'Gracy' WHERE id = {OPEN}",
        "log",
    ),
    "events.body of an erased user, the name of a field": (_of_erased('"name":', '"n/me":'), "user"),
    "events.body of an erased user, the role": (_of_erased('"role":"member"', '"role":"owner"'), "user"),
    "events.body of an erased user, the mode": (_of_erased('false,"data"', 'true,"data"'), "user"),
    "events.body about a user, with the user": (
        f"UPDATE events SET body = replace(body, 'ada', 'adz') WHERE id = {ABOUT_USER}; UPDATE users SET"
        " name = 'adz', email = 'adz@Example.com', email_folded = 'adz@example.com' WHERE name = 'ada'",
        "event",
    ),
    "a body for the event of a posting": (_set("events", "body", "'{}'", EVENT), "event"),
    "no body for the event of an account": (
        "UPDATE events SET body = NULL WHERE type = 'account.created'",
        "event",
    ),
    "the event of a posting that is gone": (f"DELETE FROM events WHERE id = {EVENT}", "transaction"),
    "the first event that is gone": ("DELETE FROM events WHERE id = (SELECT min(id) FROM events)", "account"),
    "the event of an update that is gone": (f"DELETE FROM events WHERE id = {ABOUT_INVOICE}", "log"),
    "the event of an opening that is gone": (
        f"DELETE FROM events WHERE type = 'invoice.opened' AND object = {PAID}",
        "invoice",
    ),
    "the event of a payment that is gone": (
        "DELETE FROM events WHERE type = 'invoice.paid'",
        "invoice",
    ),
    "all events that are gone": ("DELETE FROM events", "transaction"),
    "all events that are gone, and the log": (
        "DELETE FROM events; DELETE FROM logs; DELETE FROM log_tiles",
        "transaction",
    ),
    "a second event of a posting": (
        "INSERT INTO events SELECT book, id || '0', type, object, body, request, created, NULL FROM events"
        f" WHERE id = {EVENT}",
        "event",
    ),
    "a second event of an order": (
        "INSERT INTO events SELECT book, id || '0', type, object, body, request, created, NULL FROM events"
        " WHERE type = 'order.shipped'",
        "order",
    ),
    "a forged event of nothing": (
        "INSERT INTO events SELECT book, id || '0', type, 'ord_x', body, request, created, NULL FROM events"
        " WHERE type = 'order.shipped'",
        "event",
    ),
    "idempotency_keys.object": (
        "UPDATE idempotency_keys SET object = 'acc_x' WHERE key = 'till'",
        "idempotency_key",
    ),
    "idempotency_keys.object of another account": (
        "UPDATE idempotency_keys SET object = (SELECT max(id) FROM accounts) WHERE key = 'till'",
        "idempotency_key",
    ),
    "idempotency_keys.created": (
        "UPDATE idempotency_keys SET created = created + 1 WHERE key = 'long'",
        "idempotency_key",
    ),
    "idempotency_keys.originals": (
        "UPDATE idempotency_keys SET originals = 'txn_ x y' WHERE key = 'batch'",
        "idempotency_key",
    ),
    "idempotency_keys.livemode": ("UPDATE idempotency_keys SET livemode = 1", "idempotency_key"),
    "an idempotency key that is gone, of a logged request": (
        "DELETE FROM idempotency_keys WHERE key = 'till'",
        "idempotency_key",
    ),
    "the count of stored objects": ("UPDATE counters SET stored_objects = stored_objects - 1", "counter"),
    "the count of invoice numbers": ("UPDATE counters SET invoice_numbers = invoice_numbers + 1", "counter"),
    "the counters that are gone": ("DELETE FROM counters", "counter"),
    "a book's mode": (
        "UPDATE books SET livemode = livemode + 2; UPDATE books SET livemode = 3 - livemode",
        "transaction",
    ),
    "a book that is gone": ("DELETE FROM books WHERE livemode = 0", "damage"),
    "a project that is gone": ("DELETE FROM projects", "damage"),
    "a delivery's event": ("UPDATE deliveries SET event = 'evt_x'", "delivery"),
    "a delivery's attempts": ("UPDATE deliveries SET attempts = 2", "delivery"),
    "an attempt that is gone": ("DELETE FROM delivery_attempts", "delivery"),
    "an endpoint beyond the last event": ("UPDATE webhook_endpoints SET cursor = 'evt_z'", "endpoint"),
    "logs.size": ("UPDATE logs SET size = size - 1", "log"),
    "logs.last": ("UPDATE logs SET last = 'evt_z'", "log"),
    "logs.checkpoint": ("UPDATE logs SET checkpoint = replace(checkpoint, '\n339', '\n338')", "log"),
    "logs.checkpoint that is none": ("UPDATE logs SET checkpoint = 'x'", "log"),
    "log_tiles.hash": ("UPDATE log_tiles SET hash = 'AAAA'", "log"),
    "log_tiles.last": ("UPDATE log_tiles SET last = 'evt_0'", "log"),
    "a tile that is gone": ("DELETE FROM log_tiles", "log"),
    "a tile that is forged": ("INSERT INTO log_tiles SELECT book, 2, 0, hash, last FROM log_tiles", "log"),
    "log_keys.public_key": ("UPDATE log_keys SET public_key = 'A' || substr(public_key, 2)", "log"),
    "log_keys.name": ("UPDATE log_keys SET name = 'other.example'", "log"),
    "log_commitments.commitment": (
        "UPDATE log_commitments SET commitment = 'A' || substr(commitment, 2)",
        "event",
    ),
    "a user who is active and erased by hand": (
        "UPDATE users SET name = NULL, email = NULL, email_folded = NULL, password_hash = NULL,"
        f" erased_at = created + 1 WHERE id = {ADA}",
        "user",
    ),
    "idempotency_keys.object of no kind": (
        "UPDATE idempotency_keys SET object = 'xyz_1' WHERE key = 'bank'",
        "idempotency_key",
    ),
    "idempotency_keys.object, another one of its batch": (
        "UPDATE idempotency_keys SET object = (SELECT t.id FROM transactions AS t WHERE t.created ="
        " idempotency_keys.created AND t.id > idempotency_keys.object AND t.transfer IS NULL"
        " AND t.reverses IS NULL ORDER BY t.id LIMIT 1) WHERE key = 'batch'",
        "idempotency_key",
    ),
    "idempotency_keys.object of a reversal, what it reverses": (
        "UPDATE idempotency_keys SET object = (SELECT reverses FROM transactions AS t WHERE t.id = object)"
        " WHERE key = 'undone'",
        "idempotency_key",
    ),
    "a delivery that is gone": ("DELETE FROM deliveries", "delivery"),
    "deliveries.attempted_at": ("UPDATE deliveries SET attempted_at = attempted_at + 1", "delivery"),
    "a delivery that failed and is called a success": (
        "UPDATE delivery_attempts SET error = 'timeout', status = NULL",
        "delivery",
    ),
    "delivery_attempts.number": ("UPDATE delivery_attempts SET number = 2", "delivery"),
    "kept_time.reached": ("UPDATE kept_time SET reached = 99999999999999", "time"),
    "log_keys.secret": ("UPDATE log_keys SET secret = 'AAAA'", "log"),
    "log_keys.secret of another key": (f"UPDATE log_keys SET secret = '{'A' * 43}='", "log"),
    "log_cosignatures.line": (f"{_COSIGNED} 'garbled' FROM logs", "log"),
    "log_cosignatures.line of another witness": (
        f"{_COSIGNED} '— other.example AAAAAAAAAAA=\n' FROM logs",
        "log",
    ),
    "the whole log, and a posting": (
        "UPDATE kept_time SET served = 1780000000000; DELETE FROM log_tiles; DELETE FROM logs;"
        " DELETE FROM log_commitments; DELETE FROM log_keys;"
        f" UPDATE transactions SET description = 'forged' WHERE id = {POSTING}",
        "log",
    ),
    "the log, and its key left": (
        "UPDATE kept_time SET served = 1790000000000; DELETE FROM log_tiles; DELETE FROM logs",
        "log",
    ),
    "log_commitments.salt": ("UPDATE log_commitments SET salt = NULL", "log"),
    "a commitment that is gone": ("DELETE FROM log_commitments", "log"),
}

# What PostgreSQL has in other words, or refuses.
SEEN_IN_FILES: dict[str, tuple[str, str]] = {
    "a trigger": (
        "CREATE TRIGGER mine AFTER INSERT ON transactions BEGIN UPDATE accounts SET balance = 0; END",
        "schema",
    ),
    "a unique index of somebody's own": (
        "CREATE UNIQUE INDEX mine ON accounts (project, name)",
        "schema",
    ),
    "an index of an expression": ("CREATE INDEX mine ON accounts (lower(name))", "schema"),
    "a partial index of somebody's own": ("CREATE INDEX mine ON users (id) WHERE name > 'x'", "schema"),
    "a table that refers to one of the ledger's": (
        "CREATE TABLE mine (account TEXT REFERENCES accounts (id))",
        "schema",
    ),
    "a unique index that is plain": (
        "DROP INDEX invoices_by_number; CREATE INDEX invoices_by_number ON invoices (project,"
        " livemode, number)"
        " WHERE number IS NOT NULL",
        "schema",
    ),
    "a unique index that is gone": ("DROP INDEX transactions_reversed_once", "schema"),
    "an index that is gone": ("DROP INDEX events_about", "schema"),
    "a view that shows something else": (
        "DROP VIEW trial_balance; CREATE VIEW trial_balance AS SELECT 1 AS project",
        "schema",
    ),
    "a view that is gone": ("DROP VIEW event_log", "schema"),
    "a column more": ("ALTER TABLE accounts ADD COLUMN owner TEXT", "schema"),
    "a table that is gone": ("DROP TABLE log_cosignatures", "schema"),
    "a constraint that is gone": (
        "CREATE TABLE kept AS SELECT * FROM counters; DROP TABLE counters; CREATE TABLE counters"
        " (project TEXT,"
        " livemode INTEGER, stored_objects INTEGER, invoice_numbers INTEGER); INSERT INTO counters"
        " SELECT * FROM kept; DROP TABLE kept",
        "schema",
    ),
}

# What is done by somebody who has the log key and seals again: a checkpoint that was kept elsewhere names it.
SEEN_BY_CHECKPOINT: dict[str, str] = {
    "a description": _set("transactions", "description", "'Theirs'", POSTING),
    "a transfer cut in two": SEEN["a transfer cut in two"][0],
    "a reversal that is none any more": (
        f"UPDATE idempotency_keys SET originals = NULL WHERE key = 'undone';"
        f"{_set('transactions', 'reverses', 'NULL', REVERSAL)}"
    ),
    "the customer of an invoice": SEEN["events.body of the last event, with the object"][0],
    "the time of a posting, with its event": (
        f"UPDATE transactions SET created = created + 1 WHERE id = {POSTING};"
        f"UPDATE events SET created = created + 1 WHERE id = {EVENT}"
    ),
    "the id of an event": _set("events", "id", "id || '0'", EVENT),
    "the event of an update that is gone": f"DELETE FROM events WHERE id = {ABOUT_INVOICE}",
    "the last posting with its event, and all balances": SEEN[
        "the last posting with its event, and all balances"
    ][0],
    "the name of an account, in its event too": (
        "UPDATE accounts SET name = 'Tall' WHERE name = 'Till';"
        "UPDATE events SET body = replace(body, 'Till', 'Tall') WHERE body LIKE '%Till%'"
    ),
    "the role of a user, in its events and the commitments too": (
        f"UPDATE users SET role = 'owner' WHERE id = {ADA};"
        f"UPDATE events SET body = replace(body, 'member', 'owner') WHERE object = {ADA};"
        "DELETE FROM log_commitments"
    ),
}

# What nothing in a ledger says otherwise, so no check can see it.
UNSEEN: dict[str, str] = {
    "the role of an API key": "UPDATE api_keys SET role = 'owner'",
    "an API key that is revoked, or not": "UPDATE api_keys SET revoked_at = 1",
    "the address of a webhook endpoint": "UPDATE webhook_endpoints SET url = 'https://example.org/'",
    "the plan of a project": "UPDATE projects SET plan = 'free'",
    "the password of a user": f"UPDATE users SET password_hash = 'x' WHERE id = {ADA}",
    "an idempotency key that is gone, of no logged request": "DELETE FROM idempotency_keys WHERE key"
    " = 'bank'",
    "the fingerprint of an idempotency key": "UPDATE idempotency_keys SET fingerprint = 5",
    "which request caused an event": "UPDATE events SET request = 'req_2'",
    "which redirects an app may ask for": "UPDATE apps SET redirect_uris = '[]'",
    "whether a project refuses overdrafts": "UPDATE projects SET overdraft = 'refuse'",
    "the name of a project": "UPDATE projects SET name = 'Theirs'",
    "a delivery that is gone with its attempts": "DELETE FROM delivery_attempts; DELETE FROM deliveries",
    "the request log": "UPDATE requests SET path = '/v1/orders', idempotency_key = NULL",
}
