"""The ledger on PostgreSQL: the second implementation of the database interface, behind the same rooms.

From the network up: `connection.py` sends statements and reads their results, with `rendering.py` and
`errors.py`; `hosts.py` opens connections, and `seen.py` refuses an older database; `migrations.py` makes the
tables; `locks.py` lets one server at a time write a book; `unit.py` is the view of a work; `committer.py`
commits a group of works, `readers.py` runs works that read, `notifications.py` tells servers of each other's
commits, and `database.py` puts it together. `leases.py` builds on it: it decides which server does the tasks
that only one may do. Next to it stand `snapshot.py` for the audit, and `transfer.py`, by which a ledger comes
here and leaves. psycopg is an extra of the package.
"""

from __future__ import annotations

import importlib.util

from ledger_engine.core.errors import StorageUnavailable
from ledger_engine.core.settings import named

MISSING = (
    "PostgreSQL needs psycopg, which is not installed: "
    "`pip install '.[postgres]'` in the folder of the ledger's sources installs it"
)


def require_driver(url: str) -> None:
    """Raise StorageUnavailable when psycopg is missing: to be called before another module is imported."""
    if importlib.util.find_spec("psycopg") is None:
        missing = StorageUnavailable(MISSING)
        missing.args = (f"Cannot open {named(url)}: {MISSING}.",)  # nothing was to be changed yet
        raise missing
