"""The test helpers as Python objects."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from ledger_client import Ledger
from ledger_engine.testing.server import asked

_ROOT = "/v1/test_helpers"


class Clock:
    """The server's clock. It concerns all projects of the server, and only goes forward."""

    def __init__(self, client: Ledger) -> None:
        self._client = client

    @property
    def now(self) -> datetime:
        """The ledger's time."""
        return datetime.fromisoformat(asked(self._client, "GET", f"{_ROOT}/clock")["now"])

    def advance(self, by: timedelta | float) -> datetime:
        """Go forward by a time, or this many seconds, with everything that is due until then; return the
        time.
        """
        return self._set(advance=by.total_seconds() if isinstance(by, timedelta) else by)

    def move_to(self, moment: datetime) -> datetime:
        """Go forward to a moment, which needs a time zone, with all that is due until then."""
        if moment.tzinfo is None:
            raise ValueError("the moment needs a time zone")
        return self._set(now=moment.isoformat())

    def freeze(self) -> datetime:
        """Stand still; return the time."""
        return self._set(frozen=True)

    def unfreeze(self) -> datetime:
        """Go on from where the clock stands."""
        return self._set(frozen=False)

    def _set(self, **body: Any) -> datetime:
        return datetime.fromisoformat(asked(self._client, "POST", f"{_ROOT}/clock", body)["now"])


@dataclass
class Fault:
    """A fault that was set."""

    id: str
    _client: Ledger

    @property
    def hits(self) -> int:
        """How often it has happened."""
        faults = asked(self._client, "GET", f"{_ROOT}/faults?limit=100")["data"]
        return next(int(each["hits"]) for each in faults if each["id"] == self.id)

    def delete(self) -> None:
        """End it."""
        asked(self._client, "DELETE", f"{_ROOT}/faults/{self.id}")


class Faults:
    """Lets requests and webhooks of the key's project fail.

    `match` is `method`, `path`, `key` and `header` of a request, or `endpoint` and `type` of a webhook;
    `times` is how often at most, None for always.
    """

    def __init__(self, client: Ledger) -> None:
        self._client = client

    def cut(self, where: str = "after_commit", *, times: int | None = 1, **match: str) -> Fault:
        """Cut the connection `before` the work, `after_commit`, or in `half` of the answer."""
        return self.set({"cut": where}, times=times, match=match)

    def status(self, status: int, code: str | None = None, *, times: int | None = 1, **match: str) -> Fault:
        """Answer with an error, without doing the work."""
        action = {"status": status} if code is None else {"status": status, "code": code}
        return self.set(action, times=times, match=match)

    def delay(self, delay_ms: int, jitter_ms: int = 0, *, times: int | None = None, **match: str) -> Fault:
        """Wait before the work."""
        return self.set({"delay_ms": delay_ms, "jitter_ms": jitter_ms}, times=times, match=match)

    def webhook(self, what: str, *, times: int | None = 1, **match: str) -> Fault:
        """`drop`, `delay`, `duplicate` or `reorder` a webhook, or `corrupt` its signature."""
        return self.set({"webhook": what}, times=times, match=match)

    def set(self, action: dict[str, Any], *, match: dict[str, str], **more: Any) -> Fault:
        """Set a fault as `POST /v1/test_helpers/faults` takes it, for instance with `probability`, `seed`."""
        body = {"match": match, "action": action, **more}
        return Fault(asked(self._client, "POST", f"{_ROOT}/faults", body)["id"], self._client)

    def clear(self) -> None:
        """End all faults of the project."""
        asked(self._client, "DELETE", f"{_ROOT}/faults")


class Snapshots:
    """Takes and restores snapshots of the whole server, with its clock."""

    def __init__(self, client: Ledger) -> None:
        self._client = client
        self._names: list[str] = []

    def take(self, name: str) -> None:
        """Take a snapshot."""
        asked(self._client, "POST", f"{_ROOT}/snapshots", {"name": name})
        self._names.append(name)

    def restore(self, name: str) -> None:
        """Return the server to its state at the snapshot; later changes are gone."""
        asked(self._client, "POST", f"{_ROOT}/snapshots/{name}/restore")

    def delete_all(self) -> None:
        """Delete the snapshots that were taken with this object."""
        while self._names:
            asked(self._client, "DELETE", f"{_ROOT}/snapshots/{self._names.pop()}")
