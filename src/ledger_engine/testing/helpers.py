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
        """Move the clock forward by a timedelta or by seconds; return the new time.

        The call returns when everything due has happened, such as the retries of webhooks.
        """
        return self._set(advance=by.total_seconds() if isinstance(by, timedelta) else by)

    def move_to(self, moment: datetime) -> datetime:
        """Move the clock forward to a moment with a time zone; return the new time.

        The call returns when everything due has happened, such as the retries of webhooks.
        """
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
    """A fault that was set with `Faults`."""

    id: str
    _client: Ledger

    @property
    def hits(self) -> int:
        """Return how often the fault has happened."""
        faults = send_request(self._client, "GET", f"{_ROOT}/faults?limit=100")["data"]
        return next(int(fault["hits"]) for fault in faults if fault["id"] == self.id)

    def delete(self) -> None:
        """Delete the fault, so that it no longer happens."""
        send_request(self._client, "DELETE", f"{_ROOT}/faults/{self.id}")


class Faults:
    """Makes requests and webhooks fail in the project of the client's key.

    `match` selects requests by `method`, `path`, `key` and `header`, or webhooks by `endpoint` and `type`.
    `times` is the maximum number of failures, None for no maximum.
    """

    def __init__(self, client: Ledger) -> None:
        self._client = client

    def cut(self, where: str = "after_commit", *, times: int | None = 1, **match: str) -> Fault:
        """Cut the connection of a matching request.

        `where` is `before` (the request has no effect), `after_commit` (the request takes effect, but gets no
        answer) or `half` (the request takes effect, and gets half of its answer).
        """
        return self.set({"cut": where}, times=times, match=match)

    def status(self, status: int, code: str | None = None, *, times: int | None = 1, **match: str) -> Fault:
        """Answer a matching request with this error; the request is not carried out."""
        action = {"status": status} if code is None else {"status": status, "code": code}
        return self.set(action, times=times, match=match)

    def delay(self, delay_ms: int, jitter_ms: int = 0, *, times: int | None = None, **match: str) -> Fault:
        """Delay a matching request by `delay_ms`, and by a random time of at most `jitter_ms`."""
        return self.set({"delay_ms": delay_ms, "jitter_ms": jitter_ms}, times=times, match=match)

    def webhook(self, what: str, *, times: int | None = 1, **match: str) -> Fault:
        """Make a matching webhook fail.

        `what` is `drop`, `delay`, `duplicate`, `reorder`, or `corrupt` for a wrong signature.
        """
        return self.set({"webhook": what}, times=times, match=match)

    def set(self, action: dict[str, Any], *, match: dict[str, str], **more: Any) -> Fault:
        """Set a fault with the fields of `POST /v1/test_helpers/faults`.

        `more` contains further fields, such as `probability` or `seed`.
        """
        body = {"match": match, "action": action, **more}
        return Fault(send_request(self._client, "POST", f"{_ROOT}/faults", body)["id"], self._client)

    def clear(self) -> None:
        """Delete all faults of the project."""
        send_request(self._client, "DELETE", f"{_ROOT}/faults")


class Snapshots:
    """Takes and restores snapshots of the whole server, with its clock."""

    def __init__(self, client: Ledger) -> None:
        self._client = client
        self._names: list[str] = []

    def take(self, name: str) -> None:
        """Copy the state of the whole server; `restore` with the same name returns to this state."""
        send_request(self._client, "POST", f"{_ROOT}/snapshots", {"name": name})
        self._names.append(name)

    def restore(self, name: str) -> None:
        """Return the server to its state at the snapshot; later changes are lost."""
        send_request(self._client, "POST", f"{_ROOT}/snapshots/{name}/restore")

    def delete_all(self) -> None:
        """Delete the snapshots that were taken with this object."""
        while self._names:
            send_request(self._client, "DELETE", f"{_ROOT}/snapshots/{self._names.pop()}")
