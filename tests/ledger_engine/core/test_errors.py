"""The errors of the ledger."""

from __future__ import annotations

import pickle

import pytest

from ledger_engine.core import errors


@pytest.mark.parametrize(
    "error",
    [
        errors.InvalidRequest("invalid_value", "It is wrong.", "amount"),
        errors.ExpiredCredential("It has expired.", 1_795_176_000_000, "api_key"),
        errors.NotFound("account", "acc_1", "account"),
        errors.DuplicateIdempotencyKey("txn_1"),
        errors.StorageUnavailable("the disk is full", unknown=True),
        errors.StorageUnavailable("it cannot be reached", detail="no route to db.internal"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_is_the_same_in_another_process(error: errors.LedgerError) -> None:
    other = pickle.loads(pickle.dumps(error))
    assert (type(other), str(other), vars(other)) == (type(error), str(error), vars(error))


def test_what_the_database_says_is_for_logs_and_not_for_clients() -> None:
    error = errors.StorageUnavailable("it cannot be reached", detail="no route to db.internal")
    assert error.message == "The storage is not available: it cannot be reached. Nothing was changed."
    assert str(error) == (
        "The storage is not available: it cannot be reached (no route to db.internal). Nothing was changed."
    )
