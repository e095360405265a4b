"""The tables, as migrations: a released migration is never changed, new ones are added.

Times are integer milliseconds, amounts integers in the smallest currency unit, JSON is text. The views
`trial_balance` and `account_activity` show the books to people with any SQLite tool.
"""

from __future__ import annotations

from sqlite_utils import Database
from sqlite_utils.migrations import Migrations

ledger = Migrations("ledger")


def run(database: Database, script: str) -> None:
    """Run statements one by one, as `executescript` would commit the transaction first."""
    for statement in script.split(";\n"):
        if statement.strip():
            database.execute(statement)


@ledger()
def m001_projects_and_credentials(database: Database) -> None:
    run(
        database,
        """
CREATE TABLE projects (
    id TEXT PRIMARY KEY,
    parent TEXT REFERENCES projects (id),
    name TEXT NOT NULL,
    plan TEXT NOT NULL CHECK (plan IN ('free', 'pro', 'enterprise')),
    rate_limit INTEGER CHECK (rate_limit > 0),
    burst INTEGER CHECK (burst > 0),
    overdraft TEXT NOT NULL DEFAULT 'allow' CHECK (overdraft IN ('allow', 'refuse')),
    created INTEGER NOT NULL,
    archived_at INTEGER
) STRICT;
CREATE INDEX projects_by_parent ON projects (parent, id) WHERE parent IS NOT NULL;
CREATE TABLE counters (
    project TEXT NOT NULL REFERENCES projects (id),
    livemode INTEGER NOT NULL CHECK (livemode IN (0, 1)),
    stored_objects INTEGER NOT NULL DEFAULT 0,
    invoice_numbers INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (project, livemode)
) STRICT, WITHOUT ROWID;
CREATE TABLE api_keys (
    id TEXT PRIMARY KEY,
    project TEXT NOT NULL REFERENCES projects (id),
    livemode INTEGER NOT NULL CHECK (livemode IN (0, 1)),
    name TEXT,
    role TEXT NOT NULL CHECK (role IN ('member', 'admin', 'owner')),
    scopes TEXT,
    hash TEXT NOT NULL UNIQUE,
    last4 TEXT NOT NULL,
    session INTEGER NOT NULL DEFAULT 0 CHECK (session IN (0, 1)),
    created INTEGER NOT NULL,
    revoked_at INTEGER
) STRICT;
CREATE INDEX api_keys_by_project ON api_keys (project, livemode, id);
CREATE INDEX api_keys_of_sessions ON api_keys (id) WHERE session = 1 AND revoked_at IS NULL;
CREATE TABLE tokens (
    hash TEXT PRIMARY KEY,
    kind TEXT NOT NULL CHECK (kind IN ('access', 'refresh')),
    api_key TEXT NOT NULL REFERENCES api_keys (id),
    created INTEGER NOT NULL,
    expires INTEGER NOT NULL,
    used_at INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX tokens_by_api_key ON tokens (api_key);
CREATE INDEX tokens_by_expiry ON tokens (expires)
""",
    )


@ledger()
def m002_accounts_and_transactions(database: Database) -> None:
    run(
        database,
        """
CREATE TABLE accounts (
    id TEXT PRIMARY KEY,
    project TEXT NOT NULL REFERENCES projects (id),
    livemode INTEGER NOT NULL CHECK (livemode IN (0, 1)),
    name TEXT NOT NULL,
    currency TEXT NOT NULL,
    balance INTEGER NOT NULL DEFAULT 0,
    metadata TEXT NOT NULL DEFAULT '{}',
    created INTEGER NOT NULL
) STRICT;
CREATE INDEX accounts_by_project ON accounts (project, livemode, id);
CREATE TABLE settlements (
    project TEXT NOT NULL REFERENCES projects (id),
    livemode INTEGER NOT NULL CHECK (livemode IN (0, 1)),
    currency TEXT NOT NULL,
    balance INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (project, livemode, currency)
) STRICT, WITHOUT ROWID;
CREATE TABLE transactions (
    id TEXT PRIMARY KEY,
    project TEXT NOT NULL REFERENCES projects (id),
    livemode INTEGER NOT NULL CHECK (livemode IN (0, 1)),
    account TEXT NOT NULL REFERENCES accounts (id),
    amount INTEGER NOT NULL CHECK (amount > 0),
    type TEXT NOT NULL CHECK (type IN ('credit', 'debit')),
    description TEXT,
    balance_after INTEGER NOT NULL,
    destination TEXT REFERENCES accounts (id),
    transfer TEXT,
    reverses TEXT REFERENCES transactions (id),
    created INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX transactions_by_project ON transactions (project, livemode, id);
CREATE INDEX transactions_by_type ON transactions (project, livemode, type, id);
CREATE INDEX transactions_by_account ON transactions (project, livemode, account, id);
CREATE INDEX transactions_by_account_and_type ON transactions (project, livemode, account, type, id);
CREATE INDEX transactions_by_transfer ON transactions (transfer) WHERE transfer IS NOT NULL;
CREATE UNIQUE INDEX transactions_reversed_once ON transactions (reverses) WHERE reverses IS NOT NULL;
CREATE TABLE idempotency_keys (
    project TEXT NOT NULL REFERENCES projects (id),
    livemode INTEGER NOT NULL CHECK (livemode IN (0, 1)),
    key TEXT NOT NULL,
    object TEXT NOT NULL,
    created INTEGER NOT NULL,
    PRIMARY KEY (project, livemode, key)
) STRICT, WITHOUT ROWID;
CREATE TABLE events (
    id TEXT PRIMARY KEY,
    project TEXT NOT NULL REFERENCES projects (id),
    livemode INTEGER NOT NULL CHECK (livemode IN (0, 1)),
    type TEXT NOT NULL,
    object TEXT NOT NULL,
    body TEXT NOT NULL,
    request TEXT,
    created INTEGER NOT NULL
) STRICT;
CREATE INDEX events_by_project ON events (project, livemode, id)
""",
    )


@ledger()
def m003_invoices(database: Database) -> None:
    run(
        database,
        """
CREATE TABLE invoices (
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
    payment TEXT REFERENCES transactions (id),
    opened_at INTEGER,
    paid_at INTEGER,
    voided_at INTEGER,
    created INTEGER NOT NULL
) STRICT;
CREATE INDEX invoices_by_project ON invoices (project, livemode, id);
CREATE INDEX invoices_by_status ON invoices (project, livemode, status, id);
CREATE INDEX invoices_by_account ON invoices (project, livemode, account, id);
CREATE INDEX invoices_by_account_and_status ON invoices (project, livemode, account, status, id);
CREATE UNIQUE INDEX invoices_by_number ON invoices (project, livemode, number) WHERE number IS NOT NULL
""",
    )


@ledger()
def m004_users_and_orders(database: Database) -> None:
    run(
        database,
        """
CREATE TABLE users (
    id TEXT PRIMARY KEY,
    project TEXT NOT NULL REFERENCES projects (id),
    livemode INTEGER NOT NULL CHECK (livemode IN (0, 1)),
    name TEXT,
    email TEXT,
    email_folded TEXT,
    role TEXT NOT NULL CHECK (role IN ('member', 'admin', 'owner')),
    status TEXT NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'deactivated')),
    password_hash TEXT,
    deactivated_at INTEGER,
    erased_at INTEGER,
    created INTEGER NOT NULL,
    CHECK (erased_at IS NOT NULL OR (name IS NOT NULL AND email IS NOT NULL AND email_folded IS NOT NULL))
) STRICT;
CREATE INDEX users_by_project ON users (project, livemode, id);
CREATE INDEX users_by_role ON users (project, livemode, role, id);
CREATE UNIQUE INDEX users_by_active_email ON users (project, livemode, email_folded) WHERE status = 'active';
CREATE INDEX users_by_deactivation ON users (deactivated_at)
    WHERE deactivated_at IS NOT NULL AND erased_at IS NULL;
CREATE TABLE orders (
    id TEXT PRIMARY KEY,
    project TEXT NOT NULL REFERENCES projects (id),
    livemode INTEGER NOT NULL CHECK (livemode IN (0, 1)),
    user_id TEXT NOT NULL REFERENCES users (id),
    items TEXT NOT NULL,
    total INTEGER NOT NULL,
    status TEXT NOT NULL DEFAULT 'open' CHECK (status IN ('open', 'paid', 'shipped')),
    paid_at INTEGER,
    shipped_at INTEGER,
    created INTEGER NOT NULL
) STRICT;
CREATE INDEX orders_by_project ON orders (project, livemode, id);
CREATE INDEX orders_by_status ON orders (project, livemode, status, id);
CREATE INDEX orders_by_user ON orders (user_id)
""",
    )


@ledger()
def m005_views_for_people(database: Database) -> None:
    run(
        database,
        """
CREATE VIEW trial_balance AS
SELECT project, CASE livemode WHEN 1 THEN 'live' ELSE 'test' END AS mode, currency, name, balance,
       CASE WHEN balance < 0 THEN -balance ELSE 0 END AS debit,
       CASE WHEN balance > 0 THEN balance ELSE 0 END AS credit
FROM (
    SELECT project, livemode, currency, name || ' (' || id || ')' AS name, balance FROM accounts
    UNION ALL
    SELECT project, livemode, currency, 'settlement', balance FROM settlements
);
CREATE VIEW account_activity AS
SELECT t.id AS "transaction", a.id AS account, a.name AS account_name,
       CASE t.livemode WHEN 1 THEN 'live' ELSE 'test' END AS mode,
       strftime('%Y-%m-%dT%H:%M:%S', t.created / 1000, 'unixepoch')
           || printf('.%03dZ', t.created % 1000) AS posted,
       t.description, CASE t.type WHEN 'credit' THEN t.amount ELSE -t.amount END AS amount,
       a.currency, t.balance_after
FROM transactions AS t JOIN accounts AS a ON a.id = t.account
""",
    )


@ledger()
def m006_webhooks(database: Database) -> None:
    # A delivery and its attempts may outlive their endpoint until they expire, so there is no foreign key.
    run(
        database,
        """
CREATE TABLE webhook_endpoints (
    id TEXT PRIMARY KEY,
    project TEXT NOT NULL REFERENCES projects (id),
    livemode INTEGER NOT NULL CHECK (livemode IN (0, 1)),
    url TEXT NOT NULL,
    events TEXT NOT NULL,
    secret TEXT NOT NULL,
    status TEXT NOT NULL DEFAULT 'enabled' CHECK (status IN ('enabled', 'disabled')),
    disabled_reason TEXT CHECK (disabled_reason IN ('asked', 'gone', 'failing')),
    disabled_at INTEGER,
    failing_since INTEGER,
    cursor TEXT NOT NULL,
    created INTEGER NOT NULL
) STRICT;
CREATE INDEX webhook_endpoints_by_project ON webhook_endpoints (project, livemode, id);
CREATE INDEX webhook_endpoints_enabled ON webhook_endpoints (id) WHERE status = 'enabled';
CREATE TABLE deliveries (
    id TEXT PRIMARY KEY,
    project TEXT NOT NULL,
    livemode INTEGER NOT NULL CHECK (livemode IN (0, 1)),
    endpoint TEXT NOT NULL,
    event TEXT NOT NULL REFERENCES events (id),
    status TEXT NOT NULL CHECK (status IN ('pending', 'succeeded', 'failed')),
    attempts INTEGER NOT NULL,
    retries INTEGER NOT NULL,
    due INTEGER,
    attempted_at INTEGER,
    created INTEGER NOT NULL,
    CHECK ((status = 'pending') = (due IS NOT NULL))
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX deliveries_by_event ON deliveries (endpoint, event);
CREATE INDEX deliveries_by_endpoint ON deliveries (project, livemode, endpoint, id);
CREATE INDEX deliveries_pending ON deliveries (endpoint, due) WHERE status = 'pending';
CREATE INDEX deliveries_unsuccessful ON deliveries (project, livemode, attempted_at)
    WHERE status <> 'succeeded';
CREATE INDEX events_about_users ON events (object)
    WHERE type IN ('user.created', 'user.deactivated', 'user.restored');
CREATE TABLE delivery_attempts (
    delivery TEXT NOT NULL,
    number INTEGER NOT NULL,
    attempted_at INTEGER NOT NULL,
    latency_ms INTEGER NOT NULL,
    status INTEGER,
    error TEXT,
    request_headers TEXT NOT NULL,
    response_headers TEXT,
    response_body TEXT,
    PRIMARY KEY (delivery, number)
) STRICT, WITHOUT ROWID
""",
    )


@ledger()
def m007_requests(database: Database) -> None:
    # The primary key is the only index, as every request is written and few are ever searched for. A filter
    # reads the newest entries one by one.
    run(
        database,
        """
CREATE TABLE requests (
    project TEXT NOT NULL REFERENCES projects (id),
    livemode INTEGER NOT NULL CHECK (livemode IN (0, 1)),
    id TEXT NOT NULL,
    method TEXT NOT NULL,
    path TEXT NOT NULL,
    query TEXT NOT NULL,
    status INTEGER NOT NULL,
    duration_us INTEGER NOT NULL,
    credential_id TEXT NOT NULL,
    credential TEXT NOT NULL,
    address TEXT NOT NULL,
    error_code TEXT,
    idempotency_key TEXT,
    request_body TEXT,
    response_body TEXT,
    created INTEGER NOT NULL,
    PRIMARY KEY (project, livemode, id)
) STRICT, WITHOUT ROWID
""",
    )


@ledger()
def m008_oauth(database: Database) -> None:
    # A grant is the permission of one user for one app: it starts as a code and owns all tokens issued from
    # it.
    run(
        database,
        """
CREATE TABLE apps (
    id TEXT PRIMARY KEY,
    project TEXT NOT NULL REFERENCES projects (id),
    livemode INTEGER NOT NULL CHECK (livemode IN (0, 1)),
    name TEXT NOT NULL,
    redirect_uris TEXT NOT NULL,
    created INTEGER NOT NULL,
    deleted_at INTEGER
) STRICT;
CREATE INDEX apps_by_project ON apps (project, livemode, id);
CREATE TABLE sign_ins (
    hash TEXT PRIMARY KEY,
    user_id TEXT NOT NULL REFERENCES users (id),
    created INTEGER NOT NULL,
    expires INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX sign_ins_by_user ON sign_ins (user_id);
CREATE INDEX sign_ins_by_expiry ON sign_ins (expires);
CREATE TABLE grants (
    id TEXT PRIMARY KEY,
    app TEXT NOT NULL REFERENCES apps (id),
    user_id TEXT NOT NULL REFERENCES users (id),
    scopes TEXT NOT NULL,
    redirect_uri TEXT NOT NULL,
    code_hash TEXT NOT NULL UNIQUE,
    code_challenge TEXT NOT NULL,
    code_expires INTEGER NOT NULL,
    redeemed_at INTEGER,
    revoked_at INTEGER,
    created INTEGER NOT NULL,
    expires INTEGER NOT NULL
) STRICT;
CREATE INDEX grants_by_user ON grants (user_id);
CREATE INDEX grants_by_expiry ON grants (expires);
CREATE TABLE oauth_tokens (
    hash TEXT PRIMARY KEY,
    kind TEXT NOT NULL CHECK (kind IN ('access', 'refresh')),
    grant_id TEXT NOT NULL REFERENCES grants (id),
    scopes TEXT NOT NULL,
    created INTEGER NOT NULL,
    expires INTEGER NOT NULL,
    used_at INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX oauth_tokens_by_grant ON oauth_tokens (grant_id);
CREATE INDEX oauth_tokens_by_expiry ON oauth_tokens (expires)
""",
    )
