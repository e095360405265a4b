"""Write docs/events.md, the catalogue of events, from the code: `python -m tools.event_page`.

The engine makes each example by its usual rules, with the function behind `POST /v1/test_helpers/events`.
Times and ids are the same in each run.
"""

from __future__ import annotations

import json
import random
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from ledger_engine.access import projects
from ledger_engine.core.ids import IdSource
from ledger_engine.core.tenant import Tenant
from ledger_engine.events import outbox
from ledger_engine.sandbox.routes import make_happen
from ledger_engine.store.sqlite.connection import connect, make_private
from ledger_engine.store.sqlite.migrations import SqliteTables
from ledger_engine.store.sqlite.unit import SqliteUnit

PAGE = Path(__file__).resolve().parents[1] / "docs" / "events.md"
START = 1_795_149_060_123  # 2026-11-20T04:31:00.123Z
STEP_MS = 61_377  # from one example to the next

# The meaning of each kind of event.
MEANINGS: dict[str, str] = {
    "account.created": "An account was created.",
    "transaction.created": "A transaction was posted: by a request, a batch, a payment or a reversal. A"
    " transfer makes two transactions, each with an event.",
    "invoice.created": "A draft was created.",
    "invoice.updated": "A draft was changed by `PATCH`. A `PATCH` that changes nothing makes no event.",
    "invoice.opened": "A draft was finalized: the invoice has its `number`, and waits for the payment.",
    "invoice.paid": "An open invoice was paid. `transaction` is the payment; its `transaction.created` comes"
    " first.",
    "invoice.voided": "An open invoice was voided.",
    "user.created": "A user was created.",
    "user.deactivated": "A user was deactivated. After 30 days the name and the address are erased, in the"
    " user's events too: `name` and `email` are then null.",
    "user.restored": "A deactivated user was restored.",
    "order.created": "An order was placed.",
    "order.paid": "An open order was paid.",
    "order.shipped": "A paid order was shipped.",
}

_HEAD = """\
# Events

<!-- Made from the code: `make catalogues` writes this page anew. -->

Reference: every kind of event, with an example. [Webhooks](webhooks.md) describes how events are sent,
signed and retried. You get the same JSON by webhook, by `GET /v1/events/stream` and in `GET /v1/events`.
`GET /v1/events` adds `request`, the id of the request that caused the event.

`data.object` is the object at the time of the event; `GET` the object for its present state. A webhook may
come late, after the webhook of a later event, or twice with the same `id`.

To get any of these events in a test, start a server with `--test-helpers` and send
`POST /v1/test_helpers/events {"type": "invoice.paid"}` ([testing](testing.md#the-helpers)).

An endpoint registered for `["*"]` also gets the kinds of later versions: ignore unknown kinds.

| `type` | |
| --- | --- |
"""


class _StandingClock:
    """A clock that stands still until this program moves it, so that each run has the same times."""

    def __init__(self) -> None:
        self.moment = START

    def now(self) -> int:
        return self.moment

    def advance_past(self, moment: int) -> None:
        self.moment = max(self.moment, moment + 1)

    def machine(self) -> int:
        return self.moment

    def monotonic(self) -> float:
        return self.moment / 1000


def main() -> int:
    PAGE.write_text(page(), encoding="utf-8", newline="\n")
    return 0


def page() -> str:
    """Return the text of docs/events.md."""
    return "".join([_HEAD, *_table(), *_examples()])


def bodies() -> dict[str, str]:
    """Return the body of an event of each kind."""
    with tempfile.TemporaryDirectory(prefix="ledger-events-") as folder:
        path = Path(folder, "ledger.db")
        make_private(path)
        with closing(connect(path, checkpoints=True)) as connection:
            SqliteTables(connection).bring_up_to_date()
            connection.execute("BEGIN")
            clock, ids = _StandingClock(), IdSource(random.Random(1).getrandbits)
            project = projects.create(SqliteUnit(connection, clock, ids), projects.NewProject("Roastery"))
            tenant, made = Tenant(project.id, livemode=False), {}
            for kind in outbox.KINDS:
                clock.moment += STEP_MS
                unit = SqliteUnit(connection, clock, ids)
                event, _ = make_happen(unit, tenant, kind)
                sent, _ = outbox.after(unit, tenant, "evt_", 1000)
                made[kind] = next(message.body for message in sent if message.id == event.id)
            return made


def _table() -> Iterator[str]:
    for kind in outbox.KINDS:
        yield f"| [`{kind}`](#{kind.replace('.', '')}) | {MEANINGS[kind]} |\n"
    yield "\nEvents about users are shown only to credentials with the scope `read:users`.\n"


def _examples() -> Iterator[str]:
    for kind, body in bodies().items():
        text = json.dumps(json.loads(body), ensure_ascii=False, indent=2)
        yield f"\n## {kind}\n\n```json\n{text}\n```\n"


if __name__ == "__main__":
    raise SystemExit(main())
