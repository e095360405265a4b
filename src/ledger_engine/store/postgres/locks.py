"""Locks of writers: one server at a time writes a book, and each new id is greater than all ids in the book.

The transaction of a group of works acquires the lock of the whole ledger, or the locks of books. It may wait
for the locks of some of these books (`waits_for`), and leaves out other books that another server has locked.
A transaction that waits for the lock of a book either holds no other lock of a book, or acquires all its
locks in the order of their numbers. So transactions never wait for each other in a circle.

For each lock, the table `heads` stores the time up to which ids were issued under this lock, and the server
that issued them. Before a server makes an id, it advances its clock past the times that other servers have
stored for the same locks. So the ids of a book are in the order of its commits, even if the servers' clocks
differ.

`heads` also contains a row for each server, which each commit of the server updates. The row stores the time
that the server has reached, and in `announced` how many of its commits announced something, such as new
events (`Unit.announce`). Other servers follow this count (`notifications`), and use it to notice that a
database lacks commits (`seen`). To learn of new commits, a server reads only the rows of the servers, which
are few, so more books do not make this slower.

The locks are advisory locks of the session. A server takes them before the transaction begins, so that the
snapshot of the transaction contains all earlier commits under these locks.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from hashlib import blake2b

from psycopg.pq.abc import PGresult

from ledger_engine.store.postgres import rendering
from ledger_engine.store.postgres.connection import PostgresConnection
from ledger_engine.store.postgres.rendering import RenderedRow, SqlStatement, rendered

LEDGER = 0  # the lock of the whole ledger; transactions that lock single books hold it in shared mode
# "ledger" as a number, to avoid advisory locks of other programs in the same database.
_LEDGER_KEY = 0x6C6564676572

IDLE_MS = 5000  # a server that hangs between two transactions loses its locks after this time
_WITHIN = f"set_config('idle_session_timeout', '{IDLE_MS}', false)"
_LOCK_LEDGER = rendered(f"SELECT {_WITHIN}, pg_advisory_lock({_LEDGER_KEY})")
_SHARE_LEDGER = rendered(f"SELECT {_WITHIN}, pg_advisory_lock_shared({_LEDGER_KEY})")
_LOCK_BOOK = rendered("SELECT pg_advisory_lock(:lock)")
# Acquires those of the locks $1 that are free, but at most $2 of them. The statement stores the numbers of
# the acquired locks in a setting, because the next statement needs these numbers and is sent without waiting
# for this result.
_LOCK_FREE = SqlStatement(
    b"SELECT set_config('ledger.locked', concat_ws(',', '0', (SELECT string_agg(lock::text, ',') FROM (SELECT"
    b" lock FROM unnest($1) AS lock WHERE pg_try_advisory_lock(lock) LIMIT $2) AS free)), false)",
    (), False, True,
)  # fmt: skip
_UNLOCK = rendered("SELECT pg_advisory_unlock_all(), set_config('idle_session_timeout', '0', false)")
_BEGIN = rendered("BEGIN ISOLATION LEVEL SERIALIZABLE")
# Begins a transaction of books if PostgreSQL tracks reads by whole pages or tables. In this case, two
# serializable transactions on different books would often conflict, and one of them would fail. At the level
# REPEATABLE READ, two transactions on the same book still conflict, because both write the book's row in
# `heads`.
_BEGIN_BOOKS = rendered("BEGIN ISOLATION LEVEL REPEATABLE READ")
# All numbers of servers are in one range, so that PostgreSQL can read the rows of the servers by the index.
_FIRST_SERVER, _SERVERS_BITS = 1 << 62, 48
# The row that `migrate` stores in a new database: `moment` is the time up to which the source had issued ids.
MOVED = _FIRST_SERVER - 1
OF_SERVERS = f"lock BETWEEN {_FIRST_SERVER} AND {_FIRST_SERVER + (1 << _SERVERS_BITS) - 1} AND lock = server"
_OF_OTHERS = rendered(f"SELECT max(moment) AS moment FROM heads WHERE {OF_SERVERS} AND server <> :server")
_OF_OTHERS_LOCKED = SqlStatement(
    b"SELECT max(moment) AS moment, current_setting('ledger.locked') AS locked FROM heads"
    b" WHERE server <> $1 AND lock = ANY (string_to_array(current_setting('ledger.locked'), ',')::bigint[])",
    (), True, True,
)  # fmt: skip
_STORE = SqlStatement(
    b"INSERT INTO heads (lock, moment, announced, server)"
    b" SELECT lock, $1, $2, $3 FROM unnest($4) AS lock"
    b" ON CONFLICT (lock) DO UPDATE SET moment = excluded.moment, server = excluded.server,"
    b" announced = heads.announced + excluded.announced RETURNING lock, announced",
    (), False, True,
)  # fmt: skip


def new_server() -> int:
    """Return a random number for a new server, which is also the lock number of its row in `heads`."""
    return _FIRST_SERVER + secrets.randbits(_SERVERS_BITS)


def lock_of(book: tuple[str, bool]) -> int:
    """Return the lock number of a project and mode; it is never the number of the ledger's lock."""
    digest = blake2b(f"{book[0]} {int(book[1])}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True) or 1


@dataclass(frozen=True, slots=True)
class Locks:
    """The locks of the server with the number `server`.

    `own` is the lock number of the server's book `OWN` (`ledger_engine.store`), whose rows no other server
    writes. It is the number that the server got at its start. After an accepted loss the server gets a new
    number, `server` (`seen`), but `own` stays. If `rows_apart` is true, PostgreSQL tracks reads by rows, and
    all transactions are serializable. If `rows_apart` is false, only transactions of the whole ledger are
    serializable.
    """

    server: int
    own: int
    rows_apart: bool = False

    def begin(
        self,
        connection: PostgresConnection,
        locks: Sequence[int],
        at_most: int,
        waits_for: Collection[int] = (),
    ) -> tuple[frozenset[int], int | None]:
        """Acquire locks of books and begin a transaction. If `locks` is empty, acquire the ledger's lock.

        First wait for the locks in `waits_for`. Then acquire at most `at_most` locks from `locks`, in this
        order, but only locks that are free. The set of acquired locks can be empty; it does not contain the
        ledger's lock.

        Return the acquired locks, and the latest time that another server has stored under these locks. A
        lock does not count if this server made the last commit under the lock, or if there was no commit. If
        no lock counts, the time is None.

        Raises DatabaseFailed and ConnectionLost.
        """
        if not locks:
            connection.send(_LOCK_LEDGER)
            connection.sync()
            connection.send(_BEGIN)
            return frozenset(), connection.rows(_OF_OTHERS, {"server": self.server})[0]["moment"]
        connection.send(_SHARE_LEDGER)
        for lock in sorted(waits_for):
            connection.send(_LOCK_BOOK, {"lock": lock})
        connection.put_dumped(
            _LOCK_FREE,
            [rendering.array(locks), b"%d" % at_most],
            (rendering.INT8_ARRAY, rendering.INT8),
        )
        connection.sync()
        connection.send(_BEGIN if self.rows_apart else _BEGIN_BOOKS)
        rows = self._row_of(connection, _OF_OTHERS_LOCKED, [b"%d" % self.server], (rendering.INT8,))
        return frozenset(map(int, rows["locked"].split(","))) - {LEDGER}, rows["moment"]

    def _row_of(
        self,
        connection: PostgresConnection,
        statement: SqlStatement,
        values: list[bytes | None],
        types: tuple[int, ...],
    ) -> RenderedRow:
        """Run an aggregate and return its only row."""
        connection.put_dumped(statement, values, types)
        last = connection.settle()
        assert last is not None, "an aggregate returns a row"
        return rendering.rows_of(last)[0]

    def note(
        self, connection: PostgresConnection, locks: Collection[int], moment: int, *, announces: bool
    ) -> None:
        """Store, within the transaction, the time up to which ids were issued under these locks.

        If `announces` is true, also add the commit to this server's count of announcing commits.
        """
        rows = rendering.array(sorted({*(locks or [LEDGER])} - {self.own} | {self.server}))
        connection.put_dumped(
            _STORE,
            [b"%d" % moment, b"%d" % announces, b"%d" % self.server, rows],
            (rendering.INT8, rendering.INT8, rendering.INT8, rendering.INT8_ARRAY),
        )

    def number_of(self, result: PGresult) -> int:
        """Return the number of announcing commits of this server, from the result of `note`."""
        own = b"%d" % self.server
        (number,) = [
            result.get_value(row, 1) for row in range(result.ntuples) if result.get_value(row, 0) == own
        ]
        return int(number or b"")

    def release(self, connection: PostgresConnection) -> None:
        """Send the statement that releases all locks of the session, without waiting."""
        connection.send(_UNLOCK)
