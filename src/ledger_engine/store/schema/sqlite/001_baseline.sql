-- The tables of a ledger in a SQLite file, as of version 1.0.
--
-- Times are integer milliseconds, amounts are integers in the smallest currency unit, JSON is text. The views
-- are for people who read the books in a SQLite tool.

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

-- A book is one mode of a project. The keys of transactions and events contain the small number of the book.
-- 003_no_copies drops `copy_of`, which named the source of a copied book.
CREATE TABLE books (
    book INTEGER PRIMARY KEY,
    project TEXT NOT NULL REFERENCES projects (id),
    livemode INTEGER NOT NULL CHECK (livemode IN (0, 1)),
    copy_of TEXT,
    UNIQUE (project, livemode)
) STRICT;
CREATE UNIQUE INDEX books_copied ON books (copy_of) WHERE copy_of IS NOT NULL;

-- The key of a session names its server in `server`, and ends when the server ends
-- (`ledger_engine.access.api_keys`).
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
    revoked_at INTEGER,
    server TEXT
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
CREATE INDEX tokens_by_expiry ON tokens (expires);
CREATE TABLE servers (
    id TEXT PRIMARY KEY,
    beats INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

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

-- The index by account contains all columns except `long_description`, so that a reader of one account reads
-- only neighbouring entries of the index (`ledger_engine.ledger.accounts`).
CREATE TABLE transactions (
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
    long_description TEXT,
    PRIMARY KEY (book, id),
    FOREIGN KEY (book, reverses) REFERENCES transactions (book, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX transactions_by_transfer ON transactions (transfer) WHERE transfer IS NOT NULL;
CREATE UNIQUE INDEX transactions_reversed_once ON transactions (reverses) WHERE reverses IS NOT NULL;
CREATE INDEX transactions_by_type ON transactions (type, book, id);
CREATE INDEX transactions_by_account_and_type ON transactions (account, type, id, amount, balance_after,
    created, description, destination, transfer, reverses);

-- `ledger_engine.access.idempotency` explains `fingerprint` and `originals`.
CREATE TABLE idempotency_keys (
    project TEXT NOT NULL REFERENCES projects (id),
    livemode INTEGER NOT NULL CHECK (livemode IN (0, 1)),
    key TEXT NOT NULL,
    object TEXT NOT NULL,
    created INTEGER NOT NULL,
    fingerprint INTEGER,
    originals TEXT,
    PRIMARY KEY (project, livemode, key)
) STRICT, WITHOUT ROWID;

-- The event of a posting is stored without a body, because the transaction contains the same data
-- (`ledger_engine.events.outbox`). The ledger finds such an event by the time in the transaction's id. So a
-- posting adds no entry to the index `events_about`.
CREATE TABLE events (
    book INTEGER NOT NULL REFERENCES books (book),
    id TEXT NOT NULL,
    type TEXT NOT NULL,
    object TEXT NOT NULL,
    body TEXT CHECK (body IS NOT NULL OR type = 'transaction.created'),
    request TEXT,
    created INTEGER NOT NULL,
    PRIMARY KEY (book, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX events_about ON events (object) WHERE body IS NOT NULL;

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
    payment TEXT,
    opened_at INTEGER,
    paid_at INTEGER,
    voided_at INTEGER,
    created INTEGER NOT NULL
) STRICT;
CREATE INDEX invoices_by_project ON invoices (project, livemode, id);
CREATE INDEX invoices_by_status ON invoices (project, livemode, status, id);
CREATE INDEX invoices_by_account ON invoices (project, livemode, account, id);
CREATE INDEX invoices_by_account_and_status ON invoices (project, livemode, account, status, id);
CREATE UNIQUE INDEX invoices_by_number ON invoices (project, livemode, number) WHERE number IS NOT NULL;

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
CREATE INDEX orders_by_user ON orders (user_id, id);

-- After the secret was rolled, webhooks are also signed with the previous secret, until `previous_until`
-- (docs/decisions.md#webhooks-roll).
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
    created INTEGER NOT NULL,
    previous_secret TEXT,
    previous_until INTEGER
) STRICT;
CREATE INDEX webhook_endpoints_by_project ON webhook_endpoints (project, livemode, id);
CREATE INDEX webhook_endpoints_enabled ON webhook_endpoints (id) WHERE status = 'enabled';

-- The ledger moves deleted endpoints here, so that no statement on endpoints has to exclude deleted endpoints.
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
CREATE INDEX deleted_webhook_endpoints_by_deletion ON deleted_webhook_endpoints (deleted_at);

-- If an endpoint is deleted, its deliveries and their attempts stay until they expire. So they have no foreign
-- key to the endpoint.
CREATE TABLE deliveries (
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
CREATE UNIQUE INDEX deliveries_by_event ON deliveries (endpoint, event);
CREATE INDEX deliveries_by_endpoint ON deliveries (project, livemode, endpoint, id);
CREATE INDEX deliveries_pending ON deliveries (endpoint, due) WHERE status = 'pending';
CREATE INDEX deliveries_unsuccessful ON deliveries (project, livemode, attempted_at)
    WHERE status <> 'succeeded';
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
) STRICT, WITHOUT ROWID;

-- The log of requests. The primary key is the only index, because the log is written for every request but
-- seldom searched.
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
) STRICT, WITHOUT ROWID;

CREATE TABLE apps (
    id TEXT PRIMARY KEY,
    project TEXT NOT NULL REFERENCES projects (id),
    livemode INTEGER NOT NULL CHECK (livemode IN (0, 1)),
    name TEXT NOT NULL,
    redirect_uris TEXT NOT NULL,
    created INTEGER NOT NULL,
    deleted_at INTEGER,
    native INTEGER NOT NULL DEFAULT 0 CHECK (native IN (0, 1))
) STRICT;
CREATE INDEX apps_by_project ON apps (project, livemode, id);
CREATE INDEX apps_by_deletion ON apps (deleted_at) WHERE deleted_at IS NOT NULL;
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
CREATE INDEX grants_by_app ON grants (app);
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
CREATE INDEX oauth_tokens_by_expiry ON oauth_tokens (expires);

-- One row; `ledger_engine.store.kept_time` explains it.
CREATE TABLE kept_time (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    reached INTEGER NOT NULL,
    trusted INTEGER,
    put_off INTEGER NOT NULL
) STRICT;
INSERT INTO kept_time (id, reached, trusted, put_off) VALUES (1, 0, NULL, 0);

-- How much of a data set is loaded into a project; 007_whole_seeds drops all columns but the key.
CREATE TABLE seeds (
    project TEXT NOT NULL REFERENCES projects (id),
    name TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    start INTEGER NOT NULL,
    salt TEXT NOT NULL,
    stored_before INTEGER NOT NULL,
    done INTEGER NOT NULL,
    PRIMARY KEY (project, name)
) STRICT, WITHOUT ROWID;

-- 003_no_copies drops these three tables, which stored the progress of a command that copied a project.
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
) STRICT, WITHOUT ROWID;

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
SELECT t.id AS "transaction", a.id AS account, a.name AS account_name, a.project,
       CASE a.livemode WHEN 1 THEN 'live' ELSE 'test' END AS mode,
       strftime('%Y-%m-%dT%H:%M:%S', t.created / 1000, 'unixepoch')
           || printf('.%03dZ', t.created % 1000) AS posted,
       coalesce(t.long_description, t.description) AS description,
       CASE t.type WHEN 'credit' THEN t.amount ELSE -t.amount END AS amount, a.currency, t.balance_after
FROM transactions AS t JOIN accounts AS a ON a.id = t.account;
CREATE VIEW event_log AS
SELECT e.id AS event, b.project, CASE b.livemode WHEN 1 THEN 'live' ELSE 'test' END AS mode,
       strftime('%Y-%m-%dT%H:%M:%S', e.created / 1000, 'unixepoch')
           || printf('.%03dZ', e.created % 1000) AS happened,
       e.type, e.object, e.request
FROM events AS e JOIN books AS b ON b.book = e.book;
