"""Reads data for the time machine: the events around a moment, the time of the first event, and failures."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace

from ledger_client.errors import InvalidRequest, LedgerError
from ledger_tui.client import past
from ledger_tui.client.api import Api
from ledger_tui.client.errors import NotOffered
from ledger_tui.client.figures import read_deliveries
from ledger_tui.client.lists import fetch_page
from ledger_tui.client.past import Happening, happenings, moment_ms, moment_text
from ledger_tui.client.records import Record, Want, attempts_of

_LONG_AGO = "2020-01-01T00:00:00.000Z"
_HOUR_MS = 3_600_000
# The search for the first event stops when its result is wrong by at most 1/200 of the time from that event
# to now.
_PRECISION = 200
_SEARCHES_MAX = 40
_SERVER_ERRORS = 500


@dataclass(frozen=True)
class PastReading:
    """Successive events, oldest first.

    `begins` is true if no event precedes the first of them. `ends` is true if no event follows the last of
    them.
    """

    known: list[Happening]
    begins: bool
    ends: bool


async def require_looking_back(api: Api) -> None:
    """Raise NotOffered unless the server shows earlier moments. Only the first call asks the server."""
    if api.looks_back:
        return
    if past.PART in api.session.missing_parts:
        raise NotOffered(past.NOT_OFFERED)
    params = {"from": _LONG_AGO, "to": _LONG_AGO, "limit": "1"}
    try:
        await api.read("/v1/diff", params, part=past.PART)
    except (NotOffered, InvalidRequest):
        api.session.mark_missing(past.PART)
        raise NotOffered(past.NOT_OFFERED) from None
    api.looks_back = True


async def read_around(api: Api, ms: int | None) -> PastReading:
    """Return the last events up to the moment `ms`; None stands for the present.

    Raises NotOffered if the server shows no events or no earlier moments.
    """
    await require_looking_back(api)
    at = {} if ms is None else {"at": moment_text(ms)}
    return replace(await _events(api, at, Want(0, "page", 0, None)), ends=ms is None)


async def read_older(api: Api, first: Happening) -> PastReading:
    """Return the events just before the event `first`."""
    return await _events(api, {}, Want(0, "page", 0, first.id))


async def read_newer(api: Api, last: Happening) -> PastReading:
    """Return the events just after the event `last`; no events if the server cannot page to newer objects."""
    try:
        read = await _events(api, {}, Want(0, "newer", 0, last.id))
    except LedgerError:
        return PastReading([], False, True)
    # In this direction `page.older` leads to newer events. So `read.begins` means that no event follows.
    return PastReading(read.known, False, read.begins)


async def _events(api: Api, filters: dict[str, str], want: Want) -> PastReading:
    page = await fetch_page(api, "/v1/events", filters, want, "events")
    return PastReading(happenings(page.rows), page.older is None, False)


async def read_first(api: Api, now_ms: int) -> int | None:
    """Return the approximate time of the ledger's first event; None if it cannot be found.

    The server cannot list the oldest event first. So this function asks for the events up to a moment, and
    bisects the time until the moment is close to the first event.
    """
    oldest_found, before_first, reach = now_ms, None, _HOUR_MS
    for _ in range(_SEARCHES_MAX):
        probe = max(0, now_ms - reach) if before_first is None else (oldest_found + before_first) // 2
        want = Want(0, "page", 0, None, limit=1)
        page = await fetch_page(api, "/v1/events", {"at": moment_text(probe)}, want, "events")
        if page.rows:
            oldest_found = moment_ms(page.rows[0].get("created")) or probe
            if page.older is None:
                return oldest_found
            reach = (now_ms - oldest_found) * 2
        else:
            before_first = probe
        if before_first is not None and oldest_found - before_first <= (now_ms - oldest_found) / _PRECISION:
            break
    return oldest_found


async def read_failures(api: Api) -> list[int]:
    """Return the times of recent failures: attempts of deliveries that failed, and requests that ended with a
    server error.
    """
    failures: list[object] = []
    with suppress(LedgerError):
        _endpoints, deliveries = await read_deliveries(api)
        for delivery in deliveries:
            failures += [each.get("attempted_at") for each in attempts_of(delivery) if each.get("error")]
    with suppress(LedgerError):
        page = await fetch_page(api, "/v1/requests", {}, Want(0, "page", 0, None), "requests")
        failures += [each.get("created") for each in page.rows if _is_error(each)]
    return sorted(ms for each in failures if (ms := moment_ms(each)) is not None)


def _is_error(request: Record) -> bool:
    status = request.get("status")
    return isinstance(status, int) and status >= _SERVER_ERRORS
