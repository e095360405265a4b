"""What is known of accounts by their id: a transaction names its account, but not its currency."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple


class AccountName(NamedTuple):
    id: str
    name: str
    currency: str


class AccountNames:
    """Accounts seen so far. Name and currency of an account never change, so an entry stays true."""

    def __init__(self) -> None:
        self._known: dict[str, AccountName] = {}
        self._absent: set[str] = set()

    def learn(self, records: Iterable[dict[str, Any]]) -> bool:
        """Take in account records; True if any was new."""
        before = len(self._known)
        for record in records:
            account_id, currency = record.get("id"), record.get("currency")
            if isinstance(account_id, str) and isinstance(currency, str):
                self._known[account_id] = AccountName(account_id, str(record.get("name", "")), currency)
        return len(self._known) != before

    def mark_absent(self, account_id: str) -> None:
        """The server has no such account (any more): do not ask again."""
        self._absent.add(account_id)

    def get(self, account_id: object) -> AccountName | None:
        return self._known.get(account_id) if isinstance(account_id, str) else None

    def currency(self, account_id: object) -> str | None:
        known = self.get(account_id)
        return known.currency if known else None

    def name(self, account_id: str) -> str:
        """The account's name where it is known, else what was given."""
        known = self._known.get(account_id)
        return known.name if known else account_id

    def unknown(self, account_ids: Iterable[object]) -> list[str]:
        """The ids worth asking the server for, each once, in order."""
        asked = dict.fromkeys(id_ for id_ in account_ids if isinstance(id_, str))
        return [id_ for id_ in asked if id_ not in self._known and id_ not in self._absent]

    def called(self, name: str) -> list[AccountName]:
        """Known accounts of exactly this name, but for its case."""
        wanted = name.strip().casefold()
        return [known for known in self._known.values() if known.name.casefold() == wanted]

    def search(self, text: str, limit: int = 5) -> list[AccountName]:
        """Known accounts whose name or id contains `text`, case-insensitively, names that begin so first."""
        wanted = text.strip().casefold()
        found = [
            known
            for known in self._known.values()
            if wanted in known.name.casefold() or wanted in known.id.casefold()
        ]
        found.sort(key=lambda known: (not known.name.casefold().startswith(wanted), known.name.casefold()))
        return found[:limit]
