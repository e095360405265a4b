-- The keys that sign the transparency logs (`ledger_engine.log`). Each book has one log, and the key without
-- `retired_at` signs all logs. `secret` is the private key, sealed like the secrets of webhooks. The origins
-- of all logs begin with `name`.
CREATE TABLE log_keys (
    id BIGINT PRIMARY KEY,
    name TEXT COLLATE "C" NOT NULL,
    public_key TEXT COLLATE "C" NOT NULL,
    secret TEXT COLLATE "C",
    created BIGINT NOT NULL,
    retired_at BIGINT,
    CHECK ((secret IS NULL) = (retired_at IS NOT NULL))
);

-- How far the log of a book is sealed: `size` is the number of sealed events, `last` is the last sealed event,
-- `checkpoint` is the signed checkpoint, and `sealed` is its time.
CREATE TABLE logs (
    book BIGINT PRIMARY KEY REFERENCES books (book),
    size BIGINT NOT NULL,
    last TEXT COLLATE "C" NOT NULL,
    checkpoint TEXT COLLATE "C" NOT NULL,
    sealed BIGINT NOT NULL
);

-- The hashes of subtrees. A subtree of `level` 1 contains 256 events, a subtree of `level` 2 contains 65,536
-- events, and so on. `last` is the last event of the subtree.
CREATE TABLE log_tiles (
    book BIGINT NOT NULL REFERENCES books (book),
    level BIGINT NOT NULL,
    number BIGINT NOT NULL,
    hash TEXT COLLATE "C" NOT NULL,
    last TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (book, level, number)
);

-- The commitments to events whose body is not in the log. If `salt` is NULL, the body has been erased.
CREATE TABLE log_commitments (
    book BIGINT NOT NULL REFERENCES books (book),
    event TEXT COLLATE "C" NOT NULL,
    commitment TEXT COLLATE "C" NOT NULL,
    salt TEXT COLLATE "C",
    PRIMARY KEY (book, event)
);

-- The last checkpoint that each witness has signed: its size, its note, and the line of the witness.
CREATE TABLE log_cosignatures (
    book BIGINT NOT NULL REFERENCES books (book),
    witness TEXT COLLATE "C" NOT NULL,
    size BIGINT NOT NULL,
    checkpoint TEXT COLLATE "C" NOT NULL,
    line TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (book, witness)
);
