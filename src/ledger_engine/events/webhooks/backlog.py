"""How much is still to be sent to the enabled endpoints; for the metrics."""

from __future__ import annotations

from dataclasses import dataclass

from ledger_engine.events.webhooks import endpoints
from ledger_engine.store import Unit, Value
from ledger_engine.store.books import OF_BOOK

COUNTED_MAX = 10_000  # events after one endpoint's cursor; more are not looked at


@dataclass(slots=True)
class Backlog:
    """`events` are those whose first attempt to an endpoint is not recorded yet, `retries` the deliveries
    that failed and wait for their next attempt. `oldest` is when the oldest of all of these happened, in
    milliseconds, None without any."""

    events: int = 0
    retries: int = 0
    oldest: int | None = None

    def _note_oldest(self, created: int | None) -> None:
        if created is not None:
            self.oldest = created if self.oldest is None else min(self.oldest, created)


def measure(unit: Unit) -> Backlog:
    """Return the backlog of all projects."""
    backlog = Backlog()
    for each in endpoints.subscriptions(unit):
        kinds = sorted(each.kinds or ())
        parameters: dict[str, Value] = {f"kind{position}": kind for position, kind in enumerate(kinds)}
        names = ", ".join(f":{name}" for name in parameters)
        wanted = "1 = 1" if each.kinds is None else f"type IN ({names})"
        row = unit.first(
            f"SELECT sum(CASE WHEN {wanted} THEN 1 ELSE 0 END) AS events,"
            f" min(CASE WHEN {wanted} THEN created END) AS oldest FROM"
            f" (SELECT type, created FROM events WHERE {OF_BOOK} AND id > :cursor ORDER BY id LIMIT :most)"
            " AS following",
            parameters
            | {
                "project": each.project,
                "livemode": each.livemode,
                "cursor": each.cursor,
                "most": COUNTED_MAX,
            },
        )
        assert row is not None, "an aggregate has one row"
        backlog.events += row["events"] or 0
        backlog._note_oldest(row["oldest"])
        row = unit.first(
            "SELECT count(*) AS retries, min(created) AS oldest FROM deliveries"
            " WHERE endpoint = :endpoint AND status = 'pending'",
            {"endpoint": each.endpoint},
        )
        assert row is not None
        backlog.retries += row["retries"]
        backlog._note_oldest(row["oldest"])
    return backlog
