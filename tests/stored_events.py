"""The events in a ledger's file, each with its body, whether that is stored or rendered."""

from __future__ import annotations

from ledger_engine.events import outbox

# Of all projects, oldest first; `bodies.body_of` renders the body of a row.
EVERY_EVENT = (
    f"SELECT {outbox.COLUMNS}, e.request, b.project, b.livemode FROM books AS b"
    f" JOIN events AS e ON e.book = b.book {outbox.JOIN} ORDER BY e.id"
)
