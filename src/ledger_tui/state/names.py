"""What is known of accounts and users by their id: a transaction names its account, but not its currency."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple


class AccountName(NamedTuple):
    id: str
    name: str
    currency: str


class AccountNames:
    """Accounts seen so far, and users. Name and currency of an account never change: an entry stays true."""

    def __init__(self) -> None:
        self._known: dict[str, AccountName] = {}
        self._absent: set[str] = set()
        self._users: dict[str, str] = {}

    def learn(self, records: Iterable[dict[str, Any]]) -> bool:
        """Take in account records; True if any was new."""
        before = len(self._known)
        for record in records:
            account_id, currency = record.get("id"), record.get("currency")
            if isinstance(account_id, str) and isinstance(currency, str):
                self._known[account_id] = AccountName(account_id, str(record.get("name", "")), currency)
        return len(self._known) != before

    def learn_users(self, records: Iterable[dict[str, Any]]) -> bool:
        """Take in user records; True if any name was new."""
        before = dict(self._users)
        for record in records:
            user_id, name = record.get("id"), record.get("name")
            if isinstance(user_id, str) and isinstance(name, str) and name:
                self._users[user_id] = name
        return self._users != before

    def user(self, user_id: object) -> str | None:
        """A user's name, where the user was seen."""
        return self._users.get(user_id) if isinstance(user_id, str) else None

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

    def meant(self, text: str) -> AccountName | None:
        """The account a name or a part of it leads to; None where it is none, or may be several."""
        wanted = text.strip().casefold()
        exact = self.called(text)
        found = exact or [known for known in self._known.values() if wanted in known.name.casefold()]
        return found[0] if wanted and len(found) == 1 else None

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
