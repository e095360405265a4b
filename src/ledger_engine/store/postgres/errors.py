"""The errors of PostgreSQL, and the errors that the callers of the storage get instead."""

from __future__ import annotations

import re

from psycopg import pq
from psycopg.pq.abc import PGresult

from ledger_engine.core.errors import NO_MEMORY, StorageUnavailable
from ledger_engine.store import schema

# A serialization failure and a deadlock, after which the same transaction may succeed.
_PASSING = ("40001", "40P01")
_LOCK_NOT_AVAILABLE, _CANCELED = "55P03", "57014"
# Codes, or beginnings of codes, of errors that the storage causes and not the statement: errors of
# connections, missing resources (a full disk, too many connections), an operator's intervention, system
# errors and internal errors.
_OF_STORAGE = ("08", "53", "57", "58", "F0", "XX", "25P03", "25P04", "25006", "55P03", "28", "3D", "42501")
# A constraint or a unique index refused a change; a trigger refused a change with RAISE EXCEPTION.
_CONSTRAINT = ("23", "P0001")
_NOT_SEEN = ("42P01", "3F000")  # no such table, no such schema
_UNAVAILABLE = (*_OF_STORAGE, *_NOT_SEEN)
_ENDS_CONNECTION = ("57P01", "57P02", "57P03", "57P05", "25P03", "25P04", "08")
_READ_ONLY = "25006"  # the server is a standby now, and another server is the primary
_TOO_MANY, _STARTING, _NOT_LET_IN = "53300", "57P03", "28"
UNCONFIRMED = "01"  # a warning came with a commit: no standby has the commit, and a failover may lose it
# The codes of a commit if somebody cancelled its wait for the standby, or ended the connection.
CANCELLED_BY_SOMEBODY = (UNCONFIRMED, "57P01")
UNCONFIRMED_REASON = "no standby has confirmed the change"
OLDER = "older"  # our own code: the database lacks acknowledged changes (`seen`)
# Texts for clients, each with the beginnings of its codes; the first match decides.
_REASONS = (
    (_LOCK_NOT_AVAILABLE, "another server has kept this book locked for too long"),
    (_CANCELED, "it does not answer"),
    (_PASSING, "other servers kept changing the same rows"),
    (_READ_ONLY, "it is read-only at the moment"),
    ("53100", "its disk is full"),
    (_TOO_MANY, "it has too many connections"),
    (("57P05", "25P03", "25P04"), "it closed a connection that was idle for too long"),
    ("57P", "it is being started or stopped"),
    (UNCONFIRMED, UNCONFIRMED_REASON),
    (OLDER, "it lacks changes that were acknowledged"),
    ("08", "it cannot be reached"),
    ((_NOT_LET_IN, "3D"), "it refused the login"),
    ("42501", "the role lacks a permission"),
    (_NOT_SEEN, "its tables are missing, or the role may not see them"),
)
_FAILED = "it has failed"
# A message with the code _CANCELED contains this text if somebody cancelled the statement. Without this text,
# the statement took too long.
_BY_SOMEBODY = "user request"
# If libpq cannot connect, it returns a message without a code. These patterns in the message stand for codes;
# the first match decides.
_REFUSALS = (
    (re.compile("session is read-only|server is in hot standby mode"), _READ_ONLY),
    (re.compile("the database system is "), _STARTING),
    (
        re.compile(
            "too many clients already|connection slots are reserved|too many connections for"
            "|no more connections allowed"  # a message of PgBouncer
        ),
        _TOO_MANY,
    ),
    (
        re.compile(
            "authentication failed|no pg_hba.conf entry|is not permitted to log in"
            r'|(?:role|database) ".*" does not exist'
        ),
        _NOT_LET_IN,
    ),
)


class ConnectionLost(Exception):
    """The connection has ended, could not be made, or was closed because the database did not answer.

    `state` is PostgreSQL's code for the reason; '' if the code is not known.
    """

    def __init__(self, message: str, state: str = "") -> None:
        super().__init__(message)
        self.state = state


class Silent(ConnectionLost):
    """The host has not answered in time."""


def connection_error(message: str) -> ConnectionLost:
    """Return the error for libpq's message about a failed attempt to connect."""
    return ConnectionLost(message, next((state for words, state in _REFUSALS if words.search(message)), ""))


class DatabaseFailed(Exception):
    """A statement failed. `state` is PostgreSQL's code, such as 40001.

    `syncs` is the number of calls of `PostgresConnection.sync` between the last `settle` and the statement.
    """

    def __init__(self, state: str, message: str) -> None:
        super().__init__(message)
        self.state = state
        self.syncs = 0

    @property
    def fatal(self) -> bool:
        """Return whether the connection cannot be used after this error."""
        return self.state.startswith(_ENDS_CONNECTION) or self.state == _READ_ONLY

    @property
    def passing(self) -> bool:
        """Return whether the same transaction could succeed in another attempt."""
        return self.state in _PASSING


def failure(result: PGresult) -> DatabaseFailed:
    """Return the error that a result of libpq contains."""
    state = (result.error_field(pq.DiagnosticField.SQLSTATE) or b"").decode()
    message = (result.error_field(pq.DiagnosticField.MESSAGE_PRIMARY) or b"").decode(errors="replace")
    error = DatabaseFailed(state, message or result.get_error_message().strip())
    if state.startswith(_CONSTRAINT):
        error.add_note(schema.REFUSED)
    return error


def public_error(error: BaseException) -> BaseException:
    """Return the error for the caller: StorageUnavailable if the storage failed, else the same error."""
    if isinstance(error, ConnectionLost):
        return unavailable(error)
    if isinstance(error, DatabaseFailed) and (error.passing or error.state.startswith(_UNAVAILABLE)):
        return unavailable(error)
    if isinstance(error, MemoryError):
        return StorageUnavailable(NO_MEMORY)
    if isinstance(error, StopIteration):  # a future does not accept a StopIteration
        return RuntimeError(repr(error))
    return error


def unavailable(error: BaseException, *, unknown: bool = False) -> StorageUnavailable:
    """Return StorageUnavailable with a reason in our words, and PostgreSQL's words as its detail."""
    return StorageUnavailable(_reason(error), detail=reason_of(error), unknown=unknown)


def is_of_others(error: BaseException) -> bool:
    """Return whether other transactions caused the error, because they changed or locked the same rows."""
    return isinstance(error, DatabaseFailed) and (error.passing or error.state == _LOCK_NOT_AVAILABLE)


def reason_of(error: BaseException) -> str:
    """Return PostgreSQL's message without its full stop, as part of a sentence. Do not show it to clients."""
    return (str(error) or type(error).__name__).rstrip(".")


def _reason(error: BaseException) -> str:
    if not isinstance(error, (ConnectionLost, DatabaseFailed)):
        return _FAILED
    if error.state == _CANCELED and _BY_SOMEBODY in str(error):
        return "somebody has cancelled the statement"
    default_reason = "it cannot be reached" if isinstance(error, ConnectionLost) else _FAILED
    return next((reason for state, reason in _REASONS if error.state.startswith(state)), default_reason)
