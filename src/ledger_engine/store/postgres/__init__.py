"""The ledger on PostgreSQL: the second implementation of the database interface in `store/__init__.py`.

The modules, beginning at the network: `connection.py` sends statements and reads their results, with
`rendering.py` and `errors.py`; `hosts.py` opens connections, and `seen.py` refuses a database that has lost
commits. `migrations.py` creates the tables, and `locks.py` lets one server at a time write a book. `unit.py`
is the transaction of a work, `committer.py` commits a group of works, and `readers.py` runs works that read.
`notifications.py` notifies servers of each other's commits, and `database.py` puts everything together.
`leases.py` uses the database to decide which server runs the tasks that only one server may run.
`snapshot.py` reads for the audit, and `transfer.py` copies a ledger in and out. The driver psycopg is
optional: an extra of the package installs it.
"""

from __future__ import annotations

import importlib.util

from ledger_engine.core.errors import StorageUnavailable
from ledger_engine.core.settings import named

MISSING = "PostgreSQL needs psycopg, which is not installed: `pip install 'psycopg[binary]>=3.2'` installs it"


def require_driver(url: str) -> None:
    """Raise StorageUnavailable if psycopg is missing.

    Call this before importing another module of this package.
    """
    if importlib.util.find_spec("psycopg") is None:
        missing = StorageUnavailable(MISSING)
        # Replace the usual text of the error: it says that nothing was changed, but nobody wanted a change
        # yet.
        missing.args = (f"Cannot open {named(url)}: {MISSING}.",)
        raise missing
