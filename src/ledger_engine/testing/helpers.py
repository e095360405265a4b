"""The test helpers as Python objects."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from ledger_client import Ledger
from ledger_engine.testing.server import send_request

_ROOT = "/v1/test_helpers"


class Clock:
    """The server's clock. It applies to all projects of the server, and only goes forward."""

    def __init__(self, client: Ledger) -> None:
        self._client = client

    @property
    def now(self) -> datetime:
        """Return the ledger's time."""
        return datetime.fromisoformat(send_request(self._client, "GET", f"{_ROOT}/clock")["now"])

    def advance(self, by: timedelta | float) -> datetime:
        """Move the clock forward by a timedelta or seconds, do everything due, and return the time."""
        return self._set(advance=by.total_seconds() if isinstance(by, timedelta) else by)

    def move_to(self, moment: datetime) -> datetime:
        """Move the clock forward to a moment with a time zone, do everything due, and return the time."""
        if moment.tzinfo is None:
            raise ValueError("the moment needs a time zone")
        return self._set(now=moment.isoformat())

    def freeze(self) -> datetime:
        """Stop the clock and return its time."""
        return self._set(frozen=True)

    def unfreeze(self) -> datetime:
        """Let the clock continue and return its time."""
        return self._set(frozen=False)

    def _set(self, **body: Any) -> datetime:
        return datetime.fromisoformat(send_request(self._client, "POST", f"{_ROOT}/clock", body)["now"])


@dataclass
class Fault:
    """A fault that was set."""

    id: str
    _client: Ledger

    @property
    def hits(self) -> int:
        """Return how often the fault has happened."""
        faults = send_request(self._client, "GET", f"{_ROOT}/faults?limit=100")["data"]
        return next(int(fault["hits"]) for fault in faults if fault["id"] == self.id)

    def delete(self) -> None:
        """End the fault."""
        send_request(self._client, "DELETE", f"{_ROOT}/faults/{self.id}")


class Faults:
    """Makes requests and webhooks of the key's project fail.

    `match` selects requests by `method`, `path`, `key` and `header`, or webhooks by `endpoint` and `type`.
    `times` is the maximum number of failures, None for no maximum.
    """

    def __init__(self, client: Ledger) -> None:
        self._client = client

    def cut(self, where: str = "after_commit", *, times: int | None = 1, **match: str) -> Fault:
        """Cut the connection `before` the work, `after_commit`, or after `half` of the answer."""
        return self.set({"cut": where}, times=times, match=match)

    def status(self, status: int, code: str | None = None, *, times: int | None = 1, **match: str) -> Fault:
        """Answer with an error, without doing the work."""
        action = {"status": status} if code is None else {"status": status, "code": code}
        return self.set(action, times=times, match=match)

    def delay(self, delay_ms: int, jitter_ms: int = 0, *, times: int | None = None, **match: str) -> Fault:
        """Wait before the work."""
        return self.set({"delay_ms": delay_ms, "jitter_ms": jitter_ms}, times=times, match=match)

    def webhook(self, what: str, *, times: int | None = 1, **match: str) -> Fault:
        """Change a webhook: `drop`, `delay`, `duplicate` or `reorder` it, or `corrupt` its signature."""
        return self.set({"webhook": what}, times=times, match=match)

    def set(self, action: dict[str, Any], *, match: dict[str, str], **more: Any) -> Fault:
        """Set a fault with the fields of `POST /v1/test_helpers/faults`, such as `probability` or `seed`."""
        body = {"match": match, "action": action, **more}
        return Fault(send_request(self._client, "POST", f"{_ROOT}/faults", body)["id"], self._client)

    def clear(self) -> None:
        """End all faults of the project."""
        send_request(self._client, "DELETE", f"{_ROOT}/faults")


class Snapshots:
    """Takes and restores snapshots of the whole server, with its clock."""

    def __init__(self, client: Ledger) -> None:
        self._client = client
        self._names: list[str] = []

    def take(self, name: str) -> None:
        """Take a snapshot."""
        send_request(self._client, "POST", f"{_ROOT}/snapshots", {"name": name})
        self._names.append(name)

    def restore(self, name: str) -> None:
        """Return the server to its state at the snapshot; later changes are lost."""
        send_request(self._client, "POST", f"{_ROOT}/snapshots/{name}/restore")

    def delete_all(self) -> None:
        """Delete the snapshots that were taken with this object."""
        while self._names:
            send_request(self._client, "DELETE", f"{_ROOT}/snapshots/{self._names.pop()}")
