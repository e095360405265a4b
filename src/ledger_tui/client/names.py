"""Remembers the names of accounts and users, and the URLs of webhook endpoints, by id.

A transaction contains the id of its account, but neither the account's name nor its currency.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, NamedTuple, TypeVar


class AccountName(NamedTuple):
    """An account; `type` is the text `type` of its metadata, "" if there is none."""

    id: str
    name: str
    currency: str
    type: str = ""

    def is_partner_of(self, other: AccountName) -> bool:
        """Whether a transfer can lead from one account to the other."""
        return self.currency == other.currency and self.id != other.id


class UserName(NamedTuple):
    id: str
    name: str
    email: str


Named = TypeVar("Named", AccountName, UserName)


class Directory(Generic[Named]):
    """Objects seen so far, found by their id or name, or by a part of the id, the name or the email."""

    def __init__(self) -> None:
        self._by_id: dict[str, Named] = {}

    def clear(self) -> None:
        """Forget all objects."""
        self._by_id.clear()

    def _learn(self, entries: Iterable[Named]) -> bool:
        """Add objects; return whether one of them was unknown or has changed."""
        before = dict(self._by_id)
        self._by_id.update({entry.id: entry for entry in entries})
        return self._by_id != before

    def get(self, object_id: object) -> Named | None:
        return self._by_id.get(object_id) if isinstance(object_id, str) else None

    def with_name(self, name: str) -> list[Named]:
        """Return the known objects with this whole name, ignoring upper and lower case."""
        folded = name.strip().casefold()
        return [entry for entry in self._by_id.values() if entry.name.casefold() == folded]

    def containing(self, text: str) -> list[Named]:
        """Return the known objects with `text` in their name, ignoring upper and lower case."""
        folded = text.strip().casefold()
        return [entry for entry in self._by_id.values() if folded in entry.name.casefold()]

    def resolve(self, text: str, fits: Callable[[Named], bool] = lambda _entry: True) -> Named | None:
        """Return the object whose name is `text` or, if there is none, the object whose name contains `text`.

        Return None unless exactly one object matches. If `fits` accepts some of the matching objects, the
        other objects do not count.
        """
        matches = self.with_name(text) or self.containing(text)
        matches = [entry for entry in matches if fits(entry)] or matches
        return matches[0] if text.strip() and len(matches) == 1 else None

    def search(
        self, text: str, limit: int | None = 5, fits: Callable[[Named], bool] = lambda _entry: True
    ) -> list[Named]:
        """Return the known objects that `fits` accepts and whose name, id or email contains `text`.

        Ignore upper and lower case. Objects whose names begin with `text` come first.
        """
        folded = text.strip().casefold()
        matches = [
            entry
            for entry in self._by_id.values()
            if fits(entry) and any(folded in field.casefold() for field in _searchable_texts(entry))
        ]
        matches.sort(key=lambda entry: (not entry.name.casefold().startswith(folded), entry.name.casefold()))
        return matches[:limit]


def _searchable_texts(entry: AccountName | UserName) -> tuple[str, ...]:
    return (entry.name, entry.id) if isinstance(entry, AccountName) else (entry.name, entry.id, entry.email)


def _type_of(record: dict[str, Any]) -> str:
    metadata = record.get("metadata")
    return str(metadata.get("type", "")) if isinstance(metadata, dict) else ""


class UserNames(Directory[UserName]):
    """The users seen so far."""

    def learn(self, records: Iterable[dict[str, Any]]) -> bool:
        """Add user records, and return whether one of them was unknown or has changed.

        Leave out erased users, because they have no name.
        """
        return self._learn(
            UserName(record["id"], record["name"], str(record.get("email") or ""))
            for record in records
            if isinstance(record.get("id"), str) and isinstance(record.get("name"), str) and record["name"]
        )


class AccountNames(Directory[AccountName]):
    """The accounts, users and webhook endpoints seen so far.

    An account's name and currency never change, so its entry stays valid. Its type may be old.
    """

    def __init__(self) -> None:
        super().__init__()
        self.all_known = False  # whether the whole list of accounts was read at some time
        self._absent: set[str] = set()  # ids of accounts that the server does not know
        self.users = UserNames()
        self._urls: dict[str, str] = {}  # of the webhook endpoints, by id

    def clear(self) -> None:
        """Forget all accounts, users and webhook endpoints."""
        super().clear()
        self.all_known = False
        self._absent.clear()
        self.users.clear()
        self._urls.clear()

    def learn(self, records: Iterable[dict[str, Any]]) -> bool:
        """Add account records, and return whether one of them was unknown or has changed."""
        return self._learn(
            AccountName(record["id"], str(record.get("name", "")), record["currency"], _type_of(record))
            for record in records
            if isinstance(record.get("id"), str) and isinstance(record.get("currency"), str)
        )

    def lacks_partner(self, account_id: object) -> bool:
        """Return whether no account can take a transfer from this account; False if this is not known."""
        source = self.get(account_id)
        has_partner = source is not None and any(map(source.is_partner_of, self._by_id.values()))
        return self.all_known and source is not None and not has_partner

    def learn_users(self, records: Iterable[dict[str, Any]]) -> bool:
        """Add user records, and return whether one of them was unknown or has changed."""
        return self.users.learn(records)

    def user(self, user_id: object) -> str | None:
        """Return a user's name; None if the user is not known."""
        entry = self.users.get(user_id)
        return entry.name if entry else None

    def learn_endpoints(self, records: Iterable[Mapping[str, Any]]) -> None:
        """Add records of webhook endpoints."""
        self._urls.update(
            {record["id"]: record["url"] for record in records if isinstance(record.get("url"), str)}
        )

    def url_of(self, endpoint_id: object) -> str | None:
        """Return a webhook endpoint's URL; None if the endpoint is not known."""
        return self._urls.get(endpoint_id) if isinstance(endpoint_id, str) else None

    def mark_absent(self, account_id: str) -> None:
        """Note that the server does not know this account, so that `unknown` no longer returns its id."""
        self._absent.add(account_id)

    def currency(self, account_id: object) -> str | None:
        entry = self.get(account_id)
        return entry.currency if entry else None

    def name(self, account_id: str) -> str:
        """Return the account's name if it is known, else the id."""
        entry = self._by_id.get(account_id)
        return entry.name if entry else account_id

    def unknown(self, account_ids: Iterable[object]) -> list[str]:
        """Return the ids of the accounts to read from the server, each id once, in the given order."""
        ids = dict.fromkeys(id_ for id_ in account_ids if isinstance(id_, str))
        return [id_ for id_ in ids if id_ not in self._by_id and id_ not in self._absent]
