"""Recording the results of attempts, all that arrived together in one commit if possible.

If that fails, and not because of the storage, they are recorded in ever smaller parts, so that a result which
cannot be recorded does not block the others.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from functools import partial

from ledger_engine.core.errors import StorageUnavailable
from ledger_engine.events.webhooks import attempts, endpoints
from ledger_engine.events.webhooks.attempts import Outcome
from ledger_engine.store import Unit
from ledger_engine.store.engine import Engine

GONE = 410  # the status with which a receiver asks for no more events

log = logging.getLogger("ledger_engine.events.webhooks.deliver")


@dataclass(frozen=True, slots=True)
class OutcomeBatch:
    """Outcomes, and the cursors of their endpoints. A `bare` batch is recorded without the exchange."""

    outcomes: list[Outcome]
    cursors: dict[str, str]
    bare: bool = False

    def smaller(self) -> list[OutcomeBatch]:
        """Return this batch split into smaller ones, the cursors last; empty when it cannot be split."""
        by_endpoint = [
            OutcomeBatch([outcome for outcome in self.outcomes if outcome.endpoint == id], {id: cursor})
            for id, cursor in self.cursors.items()
        ]
        if len(by_endpoint) > 1:
            return by_endpoint
        if self.outcomes and (self.cursors or len(self.outcomes) > 1):
            return [
                *(OutcomeBatch([outcome], {}) for outcome in self.outcomes),
                OutcomeBatch([], self.cursors),
            ]
        if self.outcomes and not self.bare:
            return [OutcomeBatch([_without_exchange(self.outcomes[0])], {}, bare=True)]
        return []


class Recording:
    """The recording of some outcomes. After StorageUnavailable, `run` continues where it stopped."""

    def __init__(self, engine: Engine, outcomes: list[Outcome], cursors: dict[str, str]) -> None:
        self._engine = engine
        self._batches = [OutcomeBatch(outcomes, cursors)]
        self._recorded_at: dict[tuple[str, str], int] = {}  # by endpoint and event

    async def run(self, now: int) -> None:
        """Record what is not recorded yet; the waits before retries count from `now`.

        Raises StorageUnavailable.
        """
        while self._batches:
            batch = self._batches[0]
            try:
                await self._engine.write(partial(store, batch=batch, now=now))
                self._batches[:1] = []
                self._recorded_at |= {(each.endpoint, each.event): now for each in batch.outcomes}
            except StorageUnavailable:
                raise
            except Exception:
                smaller = batch.smaller()
                self._batches[:1] = smaller
                if not smaller:
                    self._give_up(batch)

    def is_given_up(self, outcome: Outcome) -> bool:
        """Return whether the outcome cannot be recorded; for after `run`."""
        return (outcome.endpoint, outcome.event) not in self._recorded_at

    def retry_at(self, outcome: Outcome) -> int | None:
        """Return when the retry of a recorded outcome is due, as the database has it; None without one."""
        if outcome.retry_in_ms is None:
            return None
        return self._recorded_at[outcome.endpoint, outcome.event] + outcome.retry_in_ms

    def _give_up(self, batch: OutcomeBatch) -> None:
        for outcome in batch.outcomes:
            log.exception("the attempt to send %s to %s cannot be recorded", outcome.event, outcome.endpoint)
        for endpoint in batch.cursors:
            log.exception("the cursor of %s cannot be recorded", endpoint)


def store(unit: Unit, batch: OutcomeBatch, now: int) -> None:
    """Record the outcomes and the cursors, and disable endpoints where that follows."""
    attempts.record(unit, batch.outcomes, now)
    for id, cursor in batch.cursors.items():
        endpoints.advance(unit, id, cursor)
    attempted = {outcome.endpoint for outcome in batch.outcomes}
    succeeded = {outcome.endpoint for outcome in batch.outcomes if outcome.error is None}
    gone = {outcome.endpoint for outcome in batch.outcomes if outcome.status == GONE}
    for id in attempted:
        endpoints.note_outcomes(unit, id, now, any_succeeded=id in succeeded, gone=id in gone)


def _without_exchange(outcome: Outcome) -> Outcome:
    error = None if outcome.error is None else "failed; what was answered cannot be recorded"
    return replace(outcome, error=error, request_headers="[]", response_headers=None, response_body=None)
