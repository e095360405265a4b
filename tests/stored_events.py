"""Reads the events in a ledger's file, each with its stored or rendered body."""

from __future__ import annotations

from ledger_engine.events import outbox

# The events are of all projects, oldest first; `bodies.body_of` renders the body of a row.
EVERY_EVENT = (
    f"SELECT {outbox.COLUMNS}, e.request, b.project, b.livemode FROM books AS b"
    f" JOIN events AS e ON e.book = b.book {outbox.JOIN} ORDER BY e.id"
)
