"""The later migrations, which continue those in `tables`."""

from __future__ import annotations

from sqlite_utils import Database

from ledger_engine.database import tables

ledger = tables.ledger
SQLITE_ALONE = "-- SQLite"  # begins a statement that is left out on PostgreSQL


@ledger()
def m009_native_apps_and_deleted_endpoints(database: Database) -> None:
    # A deleted endpoint is moved to another table, so that no statement on endpoints has to exclude it.
    tables.run(
        database,
        """
ALTER TABLE apps ADD COLUMN native INTEGER NOT NULL DEFAULT 0 CHECK (native IN (0, 1));
CREATE INDEX apps_by_deletion ON apps (deleted_at) WHERE deleted_at IS NOT NULL;
CREATE INDEX grants_by_app ON grants (app);
CREATE TABLE deleted_webhook_endpoints (
    id TEXT PRIMARY KEY,
    project TEXT NOT NULL REFERENCES projects (id),
    livemode INTEGER NOT NULL CHECK (livemode IN (0, 1)),
    url TEXT NOT NULL,
    events TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('enabled', 'disabled')),
    disabled_reason TEXT CHECK (disabled_reason IN ('asked', 'gone', 'failing')),
    disabled_at INTEGER,
    created INTEGER NOT NULL,
    deleted_at INTEGER NOT NULL
) STRICT;
CREATE INDEX deleted_webhook_endpoints_by_project ON deleted_webhook_endpoints (project, id);
CREATE INDEX deleted_webhook_endpoints_by_deletion ON deleted_webhook_endpoints (deleted_at)
""",
    )


@ledger()
def m010_kept_time(database: Database) -> None:
    # One row; `ledger_engine.database.kept_time` explains it.
    tables.run(
        database,
        """
CREATE TABLE kept_time (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    reached INTEGER NOT NULL,
    trusted INTEGER,
    put_off INTEGER NOT NULL
) STRICT;
INSERT INTO kept_time (id, reached, trusted, put_off) VALUES (1, 0, NULL, 0)
""",
    )


@ledger()
def m011_seeds(database: Database) -> None:
    # How much of a data set is loaded into a project (`ledger_engine.seeding.turns`).
    tables.run(
        database,
        """
CREATE TABLE seeds (
    project TEXT NOT NULL REFERENCES projects (id),
    name TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    start INTEGER NOT NULL,
    salt TEXT NOT NULL,
    stored_before INTEGER NOT NULL,
    done INTEGER NOT NULL,
    PRIMARY KEY (project, name)
) STRICT, WITHOUT ROWID
""",
    )


@ledger()
def m012_books(database: Database) -> None:
    # A book is one mode of a project. Transactions and events are named by a small number of their book and
    # by their own id, and the events of postings have no body: it follows from the transaction
    # (`ledger_engine.events.bodies`). A posting took 1,379 bytes with its event and all indexes.
    #
    # A table whose key changes has to be made anew, and so have those whose foreign keys referred to it.
    # `verify` checks what those keys ensured. This migration and the two after it go together.
    tables.run(
        database,
        """
CREATE TABLE books (
    book INTEGER PRIMARY KEY,
    project TEXT NOT NULL REFERENCES projects (id),
    livemode INTEGER NOT NULL CHECK (livemode IN (0, 1)),
    UNIQUE (project, livemode)
) STRICT;
INSERT INTO books (project, livemode)
    SELECT id, livemode FROM projects CROSS JOIN (SELECT 0 AS livemode UNION ALL SELECT 1) AS modes
    ORDER BY id, livemode;
DROP VIEW account_activity;
CREATE TABLE new_invoices (
    id TEXT PRIMARY KEY,
    project TEXT NOT NULL REFERENCES projects (id),
    livemode INTEGER NOT NULL CHECK (livemode IN (0, 1)),
    account TEXT NOT NULL REFERENCES accounts (id),
    customer TEXT NOT NULL,
    currency TEXT NOT NULL,
    amount INTEGER NOT NULL,
    lines TEXT,
    due_date TEXT,
    description TEXT,
    metadata TEXT NOT NULL DEFAULT '{}',
    status TEXT NOT NULL DEFAULT 'draft' CHECK (status IN ('draft', 'open', 'paid', 'void')),
    number TEXT,
    payment TEXT,
    opened_at INTEGER,
    paid_at INTEGER,
    voided_at INTEGER,
    created INTEGER NOT NULL
) STRICT;
INSERT INTO new_invoices SELECT id, project, livemode, account, customer, currency, amount, lines, due_date,
    description, metadata, status, number, payment, opened_at, paid_at, voided_at, created
    FROM invoices ORDER BY id;
DROP TABLE invoices;
ALTER TABLE new_invoices RENAME TO invoices;
CREATE INDEX invoices_by_project ON invoices (project, livemode, id);
CREATE INDEX invoices_by_status ON invoices (project, livemode, status, id);
CREATE INDEX invoices_by_account ON invoices (project, livemode, account, id);
CREATE INDEX invoices_by_account_and_status ON invoices (project, livemode, account, status, id);
CREATE UNIQUE INDEX invoices_by_number ON invoices (project, livemode, number) WHERE number IS NOT NULL
""",
    )


@ledger()
def m013_transactions_by_book(database: Database) -> None:
    tables.run(
        database,
        """
CREATE TABLE new_transactions (
    book INTEGER NOT NULL REFERENCES books (book),
    id TEXT NOT NULL,
    account TEXT NOT NULL REFERENCES accounts (id),
    amount INTEGER NOT NULL CHECK (amount > 0),
    type TEXT NOT NULL CHECK (type IN ('credit', 'debit')),
    description TEXT,
    balance_after INTEGER NOT NULL,
    destination TEXT REFERENCES accounts (id),
    transfer TEXT,
    reverses TEXT,
    created INTEGER NOT NULL,
    PRIMARY KEY (book, id),
    FOREIGN KEY (book, reverses) REFERENCES new_transactions (book, id)
) STRICT, WITHOUT ROWID;
INSERT INTO new_transactions SELECT b.book, t.id, t.account, t.amount, t.type, t.description,
    t.balance_after, t.destination, t.transfer, t.reverses, t.created
    FROM books AS b CROSS JOIN transactions AS t ON t.project = b.project AND t.livemode = b.livemode
    ORDER BY b.book, t.id;
DROP TABLE transactions;
ALTER TABLE new_transactions RENAME TO transactions;
CREATE INDEX transactions_by_type ON transactions (type || book, id);
CREATE INDEX transactions_by_account ON transactions (account, id);
CREATE INDEX transactions_by_account_and_type ON transactions (account, type, id);
CREATE INDEX transactions_by_transfer ON transactions (transfer) WHERE transfer IS NOT NULL;
CREATE UNIQUE INDEX transactions_reversed_once ON transactions (reverses) WHERE reverses IS NOT NULL;
CREATE VIEW account_activity AS
SELECT t.id AS "transaction", a.id AS account, a.name AS account_name, a.project,
       CASE a.livemode WHEN 1 THEN 'live' ELSE 'test' END AS mode,
       strftime('%Y-%m-%dT%H:%M:%S', t.created / 1000, 'unixepoch')
           || printf('.%03dZ', t.created % 1000) AS posted,
       t.description, CASE t.type WHEN 'credit' THEN t.amount ELSE -t.amount END AS amount,
       a.currency, t.balance_after
FROM transactions AS t JOIN accounts AS a ON a.id = t.account
""",
    )


@ledger()
def m014_events_by_book(database: Database) -> None:
    tables.run(
        database,
        """
CREATE TABLE new_deliveries (
    id TEXT PRIMARY KEY,
    project TEXT NOT NULL,
    livemode INTEGER NOT NULL CHECK (livemode IN (0, 1)),
    endpoint TEXT NOT NULL,
    event TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('pending', 'succeeded', 'failed')),
    attempts INTEGER NOT NULL,
    retries INTEGER NOT NULL,
    due INTEGER,
    attempted_at INTEGER,
    created INTEGER NOT NULL,
    CHECK ((status = 'pending') = (due IS NOT NULL))
) STRICT, WITHOUT ROWID;
INSERT INTO new_deliveries SELECT id, project, livemode, endpoint, event, status, attempts, retries, due,
    attempted_at, created FROM deliveries ORDER BY id;
DROP TABLE deliveries;
ALTER TABLE new_deliveries RENAME TO deliveries;
CREATE UNIQUE INDEX deliveries_by_event ON deliveries (endpoint, event);
CREATE INDEX deliveries_by_endpoint ON deliveries (project, livemode, endpoint, id);
CREATE INDEX deliveries_pending ON deliveries (endpoint, due) WHERE status = 'pending';
CREATE INDEX deliveries_unsuccessful ON deliveries (project, livemode, attempted_at)
    WHERE status <> 'succeeded';
CREATE TABLE new_events (
    book INTEGER NOT NULL REFERENCES books (book),
    id TEXT NOT NULL,
    type TEXT NOT NULL,
    object TEXT NOT NULL,
    body TEXT CHECK (body IS NOT NULL OR type = 'transaction.created'),
    request TEXT,
    created INTEGER NOT NULL,
    PRIMARY KEY (book, id)
) STRICT, WITHOUT ROWID;
INSERT INTO new_events SELECT b.book, e.id, e.type, e.object, e.body, e.request, e.created
    FROM books AS b CROSS JOIN events AS e ON e.project = b.project AND e.livemode = b.livemode
    ORDER BY b.book, e.id;
DROP TABLE events;
ALTER TABLE new_events RENAME TO events;
CREATE INDEX events_about_users ON events (object)
    WHERE type IN ('user.created', 'user.deactivated', 'user.restored');
CREATE VIEW event_log AS
SELECT e.id AS event, b.project, CASE b.livemode WHEN 1 THEN 'live' ELSE 'test' END AS mode,
       strftime('%Y-%m-%dT%H:%M:%S', e.created / 1000, 'unixepoch')
           || printf('.%03dZ', e.created % 1000) AS happened,
       e.type, e.object, e.request
FROM events AS e JOIN books AS b ON b.book = e.book
""",
    )


@ledger()
def m015_idempotency_fingerprints(database: Database) -> None:
    # `ledger_engine.access.idempotency` explains them. The keys that are there have neither.
    tables.run(
        database,
        """
ALTER TABLE idempotency_keys ADD COLUMN fingerprint INTEGER;
ALTER TABLE idempotency_keys ADD COLUMN originals TEXT
""",
    )


@ledger()
def m016_previous_webhook_secrets(database: Database) -> None:
    # After a roll the secret before it signs too, until this time (docs/decisions.md#webhooks-roll).
    tables.run(
        database,
        """
ALTER TABLE webhook_endpoints ADD COLUMN previous_secret TEXT;
ALTER TABLE webhook_endpoints ADD COLUMN previous_until INTEGER
""",
    )


@ledger()
def m017_what_belongs_together(database: Database) -> None:
    # The event of a posting has no body and is found by the time in its transaction's id, so this index costs
    # a posting nothing. It holds the events about users too.
    tables.run(
        database,
        """
DROP INDEX events_about_users;
CREATE INDEX events_about ON events (object) WHERE body IS NOT NULL;
DROP INDEX orders_by_user;
CREATE INDEX orders_by_user ON orders (user_id, id)
""",
    )


@ledger()
def m018_copies_of_other_servers(database: Database) -> None:
    # A book that `pull` fills is read-only and names its source. `pulled` has the records that were read and
    # not yet applied, so that an interrupted pull goes on where it was (`ledger_engine.pulling`).
    tables.run(
        database,
        """
ALTER TABLE books ADD COLUMN copy_of TEXT;
CREATE UNIQUE INDEX books_copied ON books (copy_of) WHERE copy_of IS NOT NULL;
CREATE TABLE pulls (
    book INTEGER PRIMARY KEY REFERENCES books (book),
    source_project TEXT,
    pulled_at INTEGER
) STRICT;
CREATE TABLE pull_lists (
    book INTEGER NOT NULL REFERENCES books (book),
    kind TEXT NOT NULL,
    until TEXT NOT NULL,
    cursor TEXT NOT NULL,
    done INTEGER NOT NULL DEFAULT 0 CHECK (done IN (0, 1)),
    PRIMARY KEY (book, kind)
) STRICT, WITHOUT ROWID;
CREATE TABLE pulled (
    book INTEGER NOT NULL REFERENCES books (book),
    kind TEXT NOT NULL,
    id TEXT NOT NULL,
    record TEXT NOT NULL,
    PRIMARY KEY (book, kind, id)
) STRICT, WITHOUT ROWID
""",
    )


@ledger()
def m019_one_index_by_account(database: Database) -> None:
    # An account's transactions are its credits and its debits, merged: that takes a second search, where this
    # index took a page and an entry with each posting (`ledger_engine.ledger.accounts.TRANSACTIONS`).
    tables.run(database, "DROP INDEX transactions_by_account")


@ledger()
def m020_sessions_of_servers(database: Database) -> None:
    # Where several servers serve one ledger, a session ends with its own (`ledger_engine.access.sessions`).
    tables.run(
        database,
        """
ALTER TABLE api_keys ADD COLUMN server TEXT;
CREATE TABLE servers (
    id TEXT PRIMARY KEY,
    beats INTEGER NOT NULL
) STRICT, WITHOUT ROWID
""",
    )


@ledger()
def m021_all_of_an_account_together(database: Database) -> None:
    # The index by account has all columns but one, so that what is read of one account is read from
    # neighbouring entries; long descriptions are in the other one (`ledger_engine.ledger.descriptions`). In
    # the index by type, type and book are two columns, so that `verify` reads it without the rows. PostgreSQL
    # keeps the indexes it had: it limits the size of an entry, and sorts what it looks up.
    tables.run(
        database,
        """
-- SQLite
DROP INDEX transactions_by_type;
-- SQLite
DROP INDEX transactions_by_account_and_type;
DROP VIEW account_activity;
ALTER TABLE transactions ADD COLUMN long_description TEXT;
UPDATE transactions SET long_description = description, description = '…' WHERE length(description) > 100;
CREATE VIEW account_activity AS
SELECT t.id AS "transaction", a.id AS account, a.name AS account_name, a.project,
       CASE a.livemode WHEN 1 THEN 'live' ELSE 'test' END AS mode,
       strftime('%Y-%m-%dT%H:%M:%S', t.created / 1000, 'unixepoch')
           || printf('.%03dZ', t.created % 1000) AS posted,
       coalesce(t.long_description, t.description) AS description,
       CASE t.type WHEN 'credit' THEN t.amount ELSE -t.amount END AS amount, a.currency, t.balance_after
FROM transactions AS t JOIN accounts AS a ON a.id = t.account;
-- SQLite
CREATE INDEX transactions_by_type ON transactions (type, book, id);
-- SQLite
CREATE INDEX transactions_by_account_and_type ON transactions (account, type, id, amount, balance_after,
    created, description, destination, transfer, reverses)
""",
    )
