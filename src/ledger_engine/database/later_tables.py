"""The tables' later migrations, which go on where those of `tables` end."""

from __future__ import annotations

from sqlite_utils import Database

from ledger_engine.database import tables

ledger = tables.ledger


@ledger()
def m009_native_apps_and_deleted_endpoints(database: Database) -> None:
    # A deleted endpoint is moved to a table of its own, so that no statement has to leave it out.
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
    # One row, which `ledger_engine.database.kept_time` explains.
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
    # How far a data set is loaded into a project (`ledger_engine.seeding.turns`).
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
