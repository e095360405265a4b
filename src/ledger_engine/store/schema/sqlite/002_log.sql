-- The keys that sign the transparency logs (`ledger_engine.log`). Each book has one log, and the key without
-- `retired_at` signs all logs. `secret` is the private key, sealed like the secrets of webhooks. The origins
-- of all logs begin with `name`.
CREATE TABLE log_keys (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    public_key TEXT NOT NULL,
    secret TEXT,
    created INTEGER NOT NULL,
    retired_at INTEGER,
    CHECK ((secret IS NULL) = (retired_at IS NOT NULL))
) STRICT;

-- How far the log of a book is sealed: `size` is the number of sealed events, `last` is the last sealed event,
-- `checkpoint` is the signed checkpoint, and `sealed` is its time.
CREATE TABLE logs (
    book INTEGER PRIMARY KEY REFERENCES books (book),
    size INTEGER NOT NULL,
    last TEXT NOT NULL,
    checkpoint TEXT NOT NULL,
    sealed INTEGER NOT NULL
) STRICT;

-- The hashes of subtrees. A subtree of `level` 1 contains 256 events, a subtree of `level` 2 contains 65,536
-- events, and so on. `last` is the last event of the subtree.
CREATE TABLE log_tiles (
    book INTEGER NOT NULL REFERENCES books (book),
    level INTEGER NOT NULL,
    number INTEGER NOT NULL,
    hash TEXT NOT NULL,
    last TEXT NOT NULL,
    PRIMARY KEY (book, level, number)
) STRICT, WITHOUT ROWID;

-- The commitments to events whose body is not in the log. If `salt` is NULL, the body has been erased.
CREATE TABLE log_commitments (
    book INTEGER NOT NULL REFERENCES books (book),
    event TEXT NOT NULL,
    commitment TEXT NOT NULL,
    salt TEXT,
    PRIMARY KEY (book, event)
) STRICT, WITHOUT ROWID;

-- The last checkpoint that each witness has signed: its size, its note, and the line of the witness.
CREATE TABLE log_cosignatures (
    book INTEGER NOT NULL REFERENCES books (book),
    witness TEXT NOT NULL,
    size INTEGER NOT NULL,
    checkpoint TEXT NOT NULL,
    line TEXT NOT NULL,
    PRIMARY KEY (book, witness)
) STRICT, WITHOUT ROWID;
