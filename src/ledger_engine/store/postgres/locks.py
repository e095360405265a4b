"""Locks of writers: one of N servers at a time writes a book, and its ids follow the ids of the server
before.

A group of works takes the locks of its free books, or the lock of the whole ledger. A transaction waits for
the lock of a book only while it holds no other lock, or it takes the locks in their order, so no transactions
wait in a circle. Under each lock `heads` stores the time up to which ids were given out, and the server that
gave them. A server's clock first passes the times of other servers, so the ids of a book are in the order of
its commits whatever the servers' clocks show.

Each server also has a row by its number, which each of its commits writes: the time that it has reached, and
in `announced` how many of its commits announced something. Others follow that (`notifications`), and know by
it what a database lacks (`seen`). A question about all books is answered from the rows of servers, which are
few, so it takes no longer with more books.

The locks are advisory locks of the session. They are taken before the transaction begins, so that its
snapshot contains everything committed under them.
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

LEDGER = 0  # the lock of the whole ledger, which the locks of single books share
_LEDGER_KEY = 0x6C6564676572  # "ledger": among the advisory locks of a database, which others may use too

IDLE_MS = 5000  # a server that stops between two transactions while it holds locks loses them
_WITHIN = f"set_config('idle_session_timeout', '{IDLE_MS}', false)"
_LOCK_LEDGER = rendered(f"SELECT {_WITHIN}, pg_advisory_lock({_LEDGER_KEY})")
_SHARE_LEDGER = rendered(f"SELECT {_WITHIN}, pg_advisory_lock_shared({_LEDGER_KEY})")
_LOCK_BOOK = rendered("SELECT pg_advisory_lock(:lock)")
# Takes at most this many free locks, and stores them for the next statement, which needs no answer.
_LOCK_FREE = SqlStatement(
    b"SELECT set_config('ledger.locked', concat_ws(',', '0', (SELECT string_agg(lock::text, ',') FROM (SELECT"
    b" lock FROM unnest($1) AS lock WHERE pg_try_advisory_lock(lock) LIMIT $2) AS free)), false)",
    (), False, True,
)  # fmt: skip
_UNLOCK = rendered("SELECT pg_advisory_unlock_all(), set_config('idle_session_timeout', '0', false)")
_BEGIN = rendered("BEGIN ISOLATION LEVEL SERIALIZABLE")
# If the database locks whole tables, serializable transactions of two books would prevent each other from
# committing. Two transactions of one book still conflict, because both write its row of `heads`.
_BEGIN_BOOKS = rendered("BEGIN ISOLATION LEVEL REPEATABLE READ")
# The numbers of servers are adjacent, so their rows are read without the rows of all books.
_FIRST_SERVER, _SERVERS_BITS = 1 << 62, 48
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
    """Return a number for a server; its row has this number."""
    return _FIRST_SERVER + secrets.randbits(_SERVERS_BITS)


def lock_of(book: tuple[str, bool]) -> int:
    """Return the number of the lock of a project and mode, which is never the ledger's."""
    digest = blake2b(f"{book[0]} {int(book[1])}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True) or 1


@dataclass(frozen=True, slots=True)
class Locks:
    """The locks of the server with this number.

    `own` is the lock of the changes that no other server makes: the first number of the server, which stays
    when it takes a new one. With `rows_apart` transactions under the locks of books are serializable too.
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
        """Take these locks of books and begin a transaction.

        Return the locks that it has, and the time that others have reached under them, or None. It returns at
        most this many of the `locks` locks that are free, in this order, after waiting for the `waits_for`
        ones; none if all are taken.

        With none wanted it waits for the whole ledger. Raises DatabaseFailed and ConnectionLost.
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
        rows = self._found(connection, _OF_OTHERS_LOCKED, [b"%d" % self.server], (rendering.INT8,))
        return frozenset(map(int, rows["locked"].split(","))) - {LEDGER}, rows["moment"]

    def _found(
        self,
        connection: PostgresConnection,
        statement: SqlStatement,
        values: list[bytes | None],
        types: tuple[int, ...],
    ) -> RenderedRow:
        """Return the row of an aggregate, which always has one row."""
        connection.put_dumped(statement, values, types)
        last = connection.settle()
        assert last is not None, "it has a row"
        return rendering.rows_of(last)[0]

    def note(
        self, connection: PostgresConnection, locks: Collection[int], moment: int, *, announces: bool
    ) -> None:
        """Store, within the transaction, up to which time ids were given out under these locks.

        With `announces` the commit counts as announcing something.
        """
        rows = rendering.array(sorted({*(locks or [LEDGER])} - {self.own} | {self.server}))
        connection.put_dumped(
            _STORE,
            [b"%d" % moment, b"%d" % announces, b"%d" % self.server, rows],
            (rendering.INT8, rendering.INT8, rendering.INT8, rendering.INT8_ARRAY),
        )

    def number_of(self, result: PGresult) -> int:
        """Return how many commits of this server announce something, by the result of `note`."""
        own = b"%d" % self.server
        (number,) = [
            result.get_value(row, 1) for row in range(result.ntuples) if result.get_value(row, 0) == own
        ]
        return int(number or b"")

    def release(self, connection: PostgresConnection) -> None:
        """Give the locks back, with the next statement sent."""
        connection.send(_UNLOCK)
