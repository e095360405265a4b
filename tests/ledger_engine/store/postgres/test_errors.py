"""The errors that callers get when PostgreSQL fails."""

from __future__ import annotations

import pytest

from ledger_engine.core.errors import StorageUnavailable
from ledger_engine.store.postgres.errors import (
    ConnectionLost,
    DatabaseFailed,
    connection_error,
    public_error,
    unavailable,
)

DISK_FULL = DatabaseFailed("53100", "could not extend file")
CONFLICT = DatabaseFailed("40001", "could not serialize access")
WRONG_STATEMENT = DatabaseFailed("42601", "syntax error")


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ConnectionLost("server closed the connection"), "it cannot be reached"),
        (DISK_FULL, "its disk is full"),
        (CONFLICT, "other servers kept changing the same rows"),
        (DatabaseFailed("XX000", "cache lookup failed"), "it has failed"),
        (DatabaseFailed("42P01", 'relation "heads" does not exist'), "the role may not see them"),
        (DatabaseFailed("57014", "canceling statement due to user request"), "somebody has cancelled"),
        (DatabaseFailed("57014", "canceling statement due to statement timeout"), "it does not answer"),
    ],
)
def test_a_failure_of_the_storage_is_told_in_our_words(error: Exception, reason: str) -> None:
    told = public_error(error)
    assert isinstance(told, StorageUnavailable)
    assert reason in told.message
    assert str(error) not in told.message


def test_a_failure_of_any_other_kind_is_reported_as_a_plain_failure() -> None:
    told = unavailable(ValueError("password=secret"))
    assert "it has failed" in told.message
    assert "secret" not in told.message


@pytest.mark.parametrize("error", [WRONG_STATEMENT, ValueError("no"), KeyError("x")])
def test_a_mistake_is_not_called_a_failure_of_the_storage(error: Exception) -> None:
    assert public_error(error) is error


def test_an_error_that_no_future_takes_is_wrapped() -> None:
    told = public_error(StopIteration("x"))
    assert (type(told), str(told)) == (RuntimeError, "StopIteration('x')")


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("FATAL:  the database system is starting up", "it is being started or stopped"),
        ("FATAL:  the database system is shutting down", "it is being started or stopped"),
        ("FATAL:  sorry, too many clients already", "it has too many connections"),
        (
            "FATAL:  remaining connection slots are reserved for roles with the SUPERUSER attribute",
            "it has too many connections",
        ),
        ("Connection refused; session is read-only", "it is read-only at the moment"),
        ('FATAL:  password authentication failed for user "ledger"', "it refused the login"),
        ('FATAL:  database "ledger" does not exist', "it refused the login"),
        ('could not open file "/nowhere/root.crt": it does not exist', "it cannot be reached"),
        ("Connection refused", "it cannot be reached"),
    ],
)
def test_the_error_of_a_refused_connection_contains_the_reason(said: str, reason: str) -> None:
    assert unavailable(connection_error(said)).reason == reason
