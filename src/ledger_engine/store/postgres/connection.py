"""One connection to PostgreSQL, for one thread. It sends a statement without waiting for the previous result.

The connection waits only when a caller needs rows. It uses psycopg's wrapper of libpq and not psycopg's
cursors. A cursor takes several times as much processor time as this class, prepares statements again after
each rollback, and reports the error of a statement only at a later statement. Here the results come in the
order of the statements, so each error belongs to a known statement.
"""

from __future__ import annotations

import contextlib
import select
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence

import psycopg
from psycopg import Error, pq
from psycopg.pq.abc import PGconn, PGresult

from ledger_engine.store import Parameters, Value
from ledger_engine.store.postgres import rendering
from ledger_engine.store.postgres.errors import (
    UNCONFIRMED,
    ConnectionLost,
    DatabaseFailed,
    Silent,
    connection_error,
    failure,
)
from ledger_engine.store.postgres.rendering import RenderedRow, SqlStatement, rendered

CONNECT_S = 5
SILENT_S = 2  # seconds without an answer, after which the connection checks whether the host has stopped
_LOOKS_EVERY_S = 0.5  # how often a waiting connection checks whether it may still be used
# Switches off two time limits that an administrator can set for a role or a database. These limits would end
# the long transactions of a command, or the idle sessions of a server. Older versions of PostgreSQL lack some
# of these settings, so the statement sets only the settings that exist.
ENDLESS = (
    "SELECT set_config(name, '0', false) FROM pg_settings"
    " WHERE name IN ('idle_session_timeout', 'transaction_timeout') AND setting <> '0'"
)
UNLIMITED = (
    "SET statement_timeout TO 0",
    "SET lock_timeout TO 0",
    "SET idle_in_transaction_session_timeout TO 0",
    ENDLESS,
)
PREPARED_MAX = 400  # statements that a connection remembers; it forgets the least recently used statement
_BEFORE_PREPARED = 2  # a connection prepares a statement when it sends the statement for the second time
_GOOD = {pq.ExecStatus.COMMAND_OK, pq.ExecStatus.TUPLES_OK, pq.ExecStatus.EMPTY_QUERY}
_READABLE, _WRITABLE = select.POLLIN, select.POLLOUT


class _Prepared:
    """A statement on a connection: how often it was sent, and its name if it is prepared."""

    __slots__ = ("name", "types", "uses")

    def __init__(self) -> None:
        self.name = b""
        self.types: tuple[int, ...] = ()
        self.uses = 0


class PostgresConnection:
    """A connection to one host; it closes itself if an answer takes longer than `answer_s` seconds.

    `Hosts.open` opens such a connection. During a long wait the connection calls `is_silent`, which returns
    whether the host has stopped. Any thread can set `must_not_be_used`; then the connection is not used any
    more.
    """

    def __init__(
        self,
        host: str,
        answer_s: float,
        settings: Sequence[str] = (),
        *,
        connect_s: float = CONNECT_S,
        is_silent: Callable[[], bool] | None = None,
    ) -> None:
        """Connect to `host`, a connection string of libpq. Raises ConnectionLost."""
        self.host = host
        self.must_not_be_used = False
        # The cluster and timeline of the host, once they are known (`seen`).
        self.timeline: tuple[int, int] | None = None
        self._answer_s = answer_s
        self._is_silent = is_silent
        self._statements: OrderedDict[bytes, _Prepared] = OrderedDict()
        self._names = 0
        # One entry for each sent message whose result is still to be read: `_Prepared` for the preparation of
        # a statement, True for a statement, and False for a synchronisation.
        self._pipeline: list[_Prepared | bool] = []
        # Errors of the first `_forgiven` entries of `_pipeline` are ignored.
        self._forgiven = 0
        self._is_broken = False
        self._lent: psycopg.Connection | None = None
        self._warning = ""  # the warning that came before the next result
        self._pg = connect_host(host, min(connect_s, answer_s))
        self._poll = select.poll()
        try:
            self._poll.register(self._pg.socket, _READABLE)
            self._pg.nonblocking = 1
            self._pg.enter_pipeline_mode()
            self._pg.notice_handler = self._note_warning
        except Error as error:  # the server has ended the connection
            raise self._lost(error) from error
        for setting in settings:
            self.send(rendered(setting))
        self.settle()

    @property
    def usable(self) -> bool:
        """Return whether the connection works and may be used."""
        return not self._is_broken and not self.must_not_be_used

    def rows(self, statement: SqlStatement, parameters: Parameters) -> list[RenderedRow]:
        """Run a statement after the statements already sent, and return its rows.

        Raises the errors of `settle`.
        """
        self.put(statement, [parameters[name] for name in statement.names])
        last = self.settle()
        return rendering.rows_of(last) if last is not None else []

    def send(self, statement: SqlStatement, parameters: Parameters | None = None) -> None:
        """Send a statement without waiting; `settle` raises its error."""
        self.put(statement, [parameters[name] for name in statement.names] if parameters else ())

    def put(self, statement: SqlStatement, values: Sequence[Value]) -> None:
        """Send a statement without waiting. `values` are the values of its parameters, in their order."""
        types = tuple([rendering.type_of(value) for value in values])
        self.put_dumped(statement, [rendering.dumped(value) for value in values], types)

    def put_dumped(
        self, statement: SqlStatement, texts: Sequence[bytes | None], types: tuple[int, ...]
    ) -> None:
        """Send a statement without waiting.

        `texts` are the values of its parameters in PostgreSQL's form, and `types` are the numbers of
        their types, such as INT8.
        """
        if self._is_broken:
            raise ConnectionLost("the connection is closed")
        pg, statements = self._pg, self._statements
        statement_in_use = statements.get(statement.text)
        try:
            if statement_in_use is None:
                statement_in_use = statements[statement.text] = _Prepared()
                if len(statements) > PREPARED_MAX:
                    self._forget_one()
            else:
                statements.move_to_end(statement.text)
            statement_in_use.uses += 1
            if statement_in_use.types != types:
                self._fit_types(statement_in_use, types)
            if not statement_in_use.name:
                if statement_in_use.uses < _BEFORE_PREPARED:
                    pg.send_query_params(statement.text, texts, statement_in_use.types)
                    self._pipeline.append(True)
                    return
                self._prepare(statement, statement_in_use)
            pg.send_query_prepared(statement_in_use.name, texts)
            self._pipeline.append(True)
        except Error as error:
            raise self._lost(error) from error

    def sync(self) -> None:
        """Send a synchronisation, which ends a part of the pipeline.

        Later statements see everything that the statements before the synchronisation have committed, and run
        even if an earlier statement has failed. Without a synchronisation, all sent statements outside a
        transaction would form one transaction.
        """
        try:
            self._pg.pipeline_sync()
        except Error as error:
            raise self._lost(error) from error
        self._pipeline.append(False)

    def settle(self) -> PGresult | None:
        """Wait for the results of all sent statements, and return the last result.

        If a statement fails, the statements after it do not run, up to the next synchronisation. Raises
        DatabaseFailed with the first error, and ConnectionLost.
        """
        if self._is_broken:
            raise ConnectionLost("the connection is closed")
        pipeline, self._pipeline = self._pipeline, []
        try:
            self._pg.pipeline_sync()
            return self._take(pipeline)
        except Error as error:
            raise self._lost(error) from error

    def settle_quietly(self) -> None:
        """Wait for all results and ignore errors in them: the caller has already raised the first error."""
        with contextlib.suppress(DatabaseFailed):
            self.settle()

    def flush(self, *, forgiving: bool = False) -> None:
        """Make the server run the sent statements now, without waiting; the next `settle` reads the results.

        If `forgiving` is true, the next `settle` ignores the errors of these statements.
        """
        self.sync()
        if forgiving:
            self._forgiven = len(self._pipeline)
        try:
            self._pg.flush()
        except Error as error:
            raise self._lost(error) from error

    @property
    def process(self) -> int:
        """Return the process number that was sent when the connection was opened.

        It is the number of the database's process for this connection. Behind a pooler, it may be another
        number.
        """
        return self._pg.backend_pid

    @property
    def server_version(self) -> int:
        """Return the version of the server as a number: 180001 for 18.1."""
        return self._pg.server_version

    @property
    def encoding(self) -> str:
        """Return the encoding of the database, such as UTF8."""
        return (self._pg.parameter_status(b"server_encoding") or b"").decode()

    @property
    def descriptor(self) -> int:
        """Return the descriptor of the socket; it is readable when the server has answered."""
        return self._pg.socket

    def has_answered(self) -> bool:
        """Read the input that has arrived; return whether `take` would return without waiting."""
        try:
            self._pg.consume_input()
            return not self._pg.is_busy()
        except Error as error:
            raise self._lost(error) from error

    def take(self) -> PGresult | None:
        """Return the last result of the statements sent before `flush`. Raises the errors of `settle`."""
        pipeline, self._pipeline = self._pipeline, []
        try:
            # Leave out the synchronisation that `flush` sent, because `_take` waits for one synchronisation
            # at the end.
            return self._take(pipeline[:-1])
        except Error as error:
            raise self._lost(error) from error

    def wait_for_notifications(self, seconds: float, waker: int) -> list[str]:
        """Return the texts of the notifications that have arrived.

        If no notification has arrived, first wait for at most `seconds`. The wait ends when a notification
        arrives or when the descriptor `waker` is readable.
        """
        poll = select.poll()
        poll.register(self._pg.socket, _READABLE)
        poll.register(waker, _READABLE)
        try:
            # Look for notifications before waiting: some may have arrived with the results of statements.
            if not (texts := self._take_notified()) and poll.poll(seconds * 1000):
                self._pg.consume_input()
                if self._pg.status == pq.ConnStatus.BAD:
                    raise self._lost(None)
                texts = self._take_notified()
        except Error as error:
            raise self._lost(error) from error
        return texts

    def _take_notified(self) -> list[str]:
        texts = []
        while (notification := self._pg.notifies()) is not None:
            texts.append(notification.extra.decode())
        return texts

    @contextlib.contextmanager
    def lent(self) -> Iterator[psycopg.Connection]:
        """Let psycopg use the session within the block, to run COPY.

        A cursor of psycopg can run COPY, but libpq cannot run COPY while it is in pipeline mode.
        Raises the errors of `settle`, and psycopg.Error.
        """
        self.settle()
        self._pg.exit_pipeline_mode()
        if self._lent is None:
            self._lent = psycopg.Connection(self._pg)
        try:
            yield self._lent
        finally:
            self._pg.notice_handler = self._note_warning
            if self._pg.status == pq.ConnStatus.OK:
                self._pg.enter_pipeline_mode()
            else:
                self.close()

    def interrupt(self) -> None:
        """Cancel the current statement, so that the statement fails; any thread may call this."""
        with contextlib.suppress(Error):
            self._pg.get_cancel().cancel()

    def close(self) -> None:
        """Close the connection; uncommitted changes are rolled back."""
        self._is_broken = True
        with contextlib.suppress(Error):
            self._pg.finish()

    def _take(self, pipeline: list[_Prepared | bool]) -> PGresult | None:
        """Read the results of all entries of the pipeline, and of the synchronisation after these entries.

        Return the last result of a statement, or raise the first error.
        """
        pg = self._pg
        last: PGresult | None = None
        first_failure: DatabaseFailed | None = None
        syncs = 0
        forgiven, self._forgiven = self._forgiven, 0
        for number, entry in enumerate(pipeline):
            if entry is False:
                self._take_sync()
                syncs += 1
                continue
            result = self._next()
            while result is not None:
                status = result.status
                if self._warning:
                    self._require_confirmed(result)
                if status in _GOOD:
                    last = result
                elif (
                    status != pq.ExecStatus.PIPELINE_ABORTED and first_failure is None and number >= forgiven
                ):
                    first_failure = failure(result)
                    first_failure.syncs = syncs
                if isinstance(entry, _Prepared) and status != pq.ExecStatus.COMMAND_OK:
                    entry.name = b""
                result = self._next()
        self._take_sync()
        if pg.status == pq.ConnStatus.BAD or (first_failure is not None and first_failure.fatal):
            raise self._lost(first_failure)
        if first_failure is not None:
            raise first_failure
        return last

    def _note_warning(self, notice: PGresult) -> None:
        # The server does not translate this field. It translates the field SEVERITY and the notice's text.
        if notice.error_field(pq.DiagnosticField.SEVERITY_NONLOCALIZED) == b"WARNING":
            self._warning = str(failure(notice))

    def _require_confirmed(self, result: PGresult) -> None:
        """Raise ConnectionLost if `result` is the result of a COMMIT.

        Call this only if a warning has come before `result`. If somebody cancels the wait of a commit for the
        standby, PostgreSQL reports this only in a warning.
        """
        warning, self._warning = self._warning, ""
        if result.command_status == b"COMMIT":
            self.close()
            raise ConnectionLost(warning, UNCONFIRMED)

    def _take_sync(self) -> None:
        result = self._next()
        if result is None or result.status != pq.ExecStatus.PIPELINE_SYNC:
            raise self._lost(None)

    def _next(self) -> PGresult | None:
        """Return the next result, or None at the end of a statement's results."""
        pg = self._pg
        if pg.is_busy():
            began = time.monotonic()
            unsent = pg.flush()
            while pg.is_busy():
                seconds = time.monotonic() - began
                if unsent:
                    self._poll.modify(pg.socket, _READABLE | _WRITABLE)
                ready = self._poll.poll(max(0, min(self._answer_s - seconds, _LOOKS_EVERY_S)) * 1000)
                if unsent:
                    self._poll.modify(pg.socket, _READABLE)
                    unsent = pg.flush()
                if not ready:
                    self._require_answer(seconds)
                elif ready[0][1] & ~_WRITABLE:
                    pg.consume_input()
        return pg.get_result()

    def _require_answer(self, waited_s: float) -> None:
        """Raise ConnectionLost if it is useless to wait any longer."""
        if (
            self.must_not_be_used
            or waited_s >= self._answer_s
            or (waited_s >= SILENT_S and self._is_silent is not None and self._is_silent())
        ):
            raise self._lost(None, "it does not answer")

    def _prepare(self, statement: SqlStatement, entry: _Prepared) -> None:
        self._names += 1
        entry.name = b"s%d" % self._names
        self._pg.send_prepare(entry.name, statement.text, entry.types)
        self._pipeline.append(entry)

    def _fit_types(self, entry: _Prepared, types: tuple[int, ...]) -> None:
        """Forget a prepared statement if the type of a value differs from the type in earlier uses.

        The statement is then prepared again. The value None fits every type. If the values of a parameter
        have all been None so far, PostgreSQL chooses the type of the parameter from the statement.
        """
        if not entry.types:
            entry.types = types
            return
        pairs = list(zip(entry.types, types, strict=True))
        if any(new not in (rendering.UNKNOWN, old) for old, new in pairs):
            entry.types = tuple(new or old for old, new in pairs)
            if entry.name:
                self._deallocate(entry.name)
                entry.name = b""

    def _forget_one(self) -> None:
        _, oldest = self._statements.popitem(last=False)
        if oldest.name:
            self._deallocate(oldest.name)

    def _deallocate(self, name: bytes) -> None:
        self._pg.send_query_params(b"DEALLOCATE " + name, [])
        self._pipeline.append(True)

    def _lost(self, error: BaseException | None, reason: str | None = None) -> ConnectionLost:
        """Close the connection. Return the error to raise, with `reason` or else the message of `error`."""
        if isinstance(error, ConnectionLost):
            return error
        message = reason or (str(error) if error is not None else self._pg.get_error_message())
        self.close()
        state = error.state if isinstance(error, DatabaseFailed) else ""
        return ConnectionLost(_in_one_line(message) or "the connection was closed", state)


def _in_one_line(message: str) -> str:
    """Return libpq's message in one line, without its indented hints (`Is the server running …?`)."""
    return "; ".join([line for line in message.strip().split("\n") if not line.startswith("\t")])


def connect_host(conninfo: str, limit_s: float) -> PGconn:
    """Connect to one host. Raises Silent after `limit_s` seconds, or ConnectionLost with libpq's message."""
    try:
        pg: PGconn = pq.PGconn.connect_start(conninfo.encode())
        deadline = time.monotonic() + limit_s
        status = pq.PollingStatus.WRITING
        while status not in (pq.PollingStatus.OK, pq.PollingStatus.FAILED):
            if pg.status == pq.ConnStatus.BAD:
                break
            poll = select.poll()
            poll.register(pg.socket, _WRITABLE if status == pq.PollingStatus.WRITING else _READABLE)
            if not poll.poll(max(0, deadline - time.monotonic()) * 1000):
                pg.finish()
                raise Silent("it does not answer")
            status = pq.PollingStatus(pg.connect_poll())
    except Error as error:
        raise connection_error(str(error).strip()) from error
    if pg.status != pq.ConnStatus.OK:
        message = _in_one_line(pg.get_error_message())
        pg.finish()
        raise connection_error(message)
    return pg
