"""Notifications in the terminal, of what the user asked for in the config file.

[notify]
on = ["delivery.failed", "invoice.*"]
by = ["bell", "osc9"]         # both without this line
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from textual.app import App

from ledger_tui.client.api import Api
from ledger_tui.client.errors import LedgerError
from ledger_tui.client.figures import ENDPOINTS_READ, read_deliveries
from ledger_tui.client.lists import fetch_page
from ledger_tui.client.records import Record, Want
from ledger_tui.client.session import Session
from ledger_tui.formats.text import literal
from ledger_tui.settings.config import DELIVERY_KINDS, Notify

_LOOK_SECONDS = 5.0
_KNOWN_KEPT = 2_000
_NAMED = 3  # in one notification; further ones are counted


@dataclass(frozen=True, slots=True)
class Happened:
    """Something that can be notified: what kind it is, an identity to notify it once by, and its name."""

    kind: str
    identity: str
    name: str


def deliveries_of(records: Iterable[Record], urls: Mapping[str, str]) -> list[Happened]:
    """Return the deliveries that failed for good, and those that will be tried again."""
    found = []
    for record in records:
        attempts = record.get("attempts")
        last = attempts[-1] if isinstance(attempts, list) and attempts else {}
        failed = record.get("status") == "failed"
        if failed or (record.get("status") == "pending" and isinstance(last, dict) and last.get("error")):
            kind = "delivery.failed" if failed else "delivery.retrying"
            url = urls.get(str(record.get("endpoint")), str(record.get("endpoint")))
            found.append(Happened(kind, f"{kind} {record.get('id')}", url))
    return found


def events_of(records: Iterable[Record]) -> list[Happened]:
    """Return the events, oldest first."""
    rows = [*records][::-1]
    return [
        Happened(str(each.get("type")), str(each.get("id")), str(each.get("id")))
        for each in rows
        if each.get("id")
    ]


class News:
    """What has happened since the first look, as far as it was asked for; each thing once."""

    def __init__(self, wanted: Sequence[str]) -> None:
        self._wanted = wanted
        self._known: OrderedDict[str, None] = OrderedDict()
        self._looked: set[str] = set()

    def since(self, source: str, found: Iterable[Happened]) -> list[Happened]:
        """Return what is new in a source; at the first look nothing is."""
        first = source not in self._looked
        self._looked.add(source)
        new = []
        for each in found:
            if each.identity not in self._known:
                self._known[each.identity] = None
                if not first and any(fnmatchcase(each.kind, wanted) for wanted in self._wanted):
                    new.append(each)
        while len(self._known) > _KNOWN_KEPT:
            self._known.popitem(last=False)
        return new


def sentence(happened: Sequence[Happened]) -> str:
    """Return one line about several things: `delivery.failed http://…/shop, invoice.paid and 3 more`."""
    named = list(dict.fromkeys(f"{each.kind} {each.name}" for each in happened))
    more = f" and {len(named) - _NAMED} more" if len(named) > _NAMED else ""
    return literal(", ".join(named[:_NAMED])) + more


class Notifier:
    """Looks for news while the dashboard runs, and notifies the user through the terminal."""

    def __init__(self, app: App[Any], api: Api, session: Session, config: Notify) -> None:
        self._app = app
        self._api = api
        self._session = session
        self._config = config
        self._news = News(config.on)

    async def watch(self) -> None:
        """Look again and again, within the rate limit."""
        while True:
            requests = 0
            if not self._session.waiting_seconds:
                try:
                    requests = await self.look()
                except LedgerError:  # the status bar says what is wrong
                    requests = 1
            await asyncio.sleep(max(_LOOK_SECONDS, self._session.pause_after(requests)))

    async def look(self) -> int:
        """Look once and notify what is new; return how many requests that took. Raises LedgerError."""
        requests = 0
        new: list[Happened] = []
        if any(each not in DELIVERY_KINDS for each in self._config.on):
            page = await fetch_page(self._api, "/v1/events", {}, Want(0, "page", 0, None), "events")
            new += self._news.since("events", events_of(page.rows))
            requests += 1
        if any(fnmatchcase(kind, each) for each in self._config.on for kind in DELIVERY_KINDS):
            endpoints, deliveries = await read_deliveries(self._api)
            urls = {str(each.get("id")): str(each.get("url")) for each in endpoints}
            new += self._news.since("deliveries", deliveries_of(deliveries, urls))
            requests += 1 + min(ENDPOINTS_READ, len(endpoints))
        if new:
            self.notify(sentence(new))
        return requests

    def notify(self, text: str) -> None:
        """Notify the user of this line."""
        self._app.notify(text, title="Notification", markup=False)
        if "osc9" in self._config.by and self._app._driver is not None and not self._app.is_web:
            self._app._driver.write(f"\x1b]9;ledger-tui: {text}\x07")
        if "bell" in self._config.by:
            self._app.bell()
