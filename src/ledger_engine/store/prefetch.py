"""Reading together what the works of a group will read one by one, where each reading waits for the network.

SQLite reads a row in less time than looking after this would take.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from ledger_engine.store import BookKey, F, Unit, Work, book_of
from ledger_engine.store.threaded import Job

# What has a unit hold (`Unit.held`) what several calls of a function in one book will read.
Foresee: TypeAlias = Callable[[Unit, Any, list[tuple[Any, ...]]], None]
_FORESEEN: dict[Callable[..., Any], Foresee] = {}


def foreseen_by(foresee: Foresee) -> Callable[[F], F]:
    """Have `foresee` called before the calls of a function in one group.

    It gets the unit, the tenant, and the arguments of each call after the tenant.
    """

    def mark(function: F) -> F:
        _FORESEEN[function] = foresee
        return function

    return mark


def foresee_all(unit: Unit, group: Sequence[Job], failures: tuple[type[Exception], ...]) -> None:
    """Read what is foreseen of the works of a group. Raises `failures`, those of the database."""
    calls: dict[tuple[Foresee, BookKey], list[tuple[Any, tuple[Any, ...]]]] = {}
    for job in group:
        seen = _of(job.work)
        book = book_of(job.work)
        if seen is not None and book is not None:
            calls.setdefault((seen[0], book), []).append(seen[1:])
    for (foresee, _), given in calls.items():
        try:
            foresee(unit, given[0][0], [each for _, each in given])
        except failures:
            raise
        except Exception:  # a value of one work, which will fail by itself
            continue


def _of(work: Work[Any]) -> tuple[Foresee, Any, tuple[Any, ...]] | None:
    """Return what foresees the reading of a work, with its tenant and arguments; None for nothing."""
    called = getattr(work, "called", None)
    if called is None:
        return None
    function, tenant, given = called
    foresee = _FORESEEN.get(function)
    return None if foresee is None else (foresee, tenant, given)
