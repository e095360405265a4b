"""The errors of the ledger."""

from __future__ import annotations

from ledger_engine.core import errors


def test_the_databases_message_is_for_logs_and_not_for_clients() -> None:
    error = errors.StorageUnavailable("it cannot be reached", detail="no route to db.internal")
    assert error.message == "The storage is not available: it cannot be reached. Nothing was changed."
    assert str(error) == (
        "The storage is not available: it cannot be reached (no route to db.internal). Nothing was changed."
    )
