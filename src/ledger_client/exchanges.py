"""The record of one attempt of a request. A client passes such a record to `on_exchange`, for a log."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SentRequest:
    """One attempt of a request: the sent data, and the status of the answer (None without an answer).

    The credential is left out, but `body` may contain other secrets.
    """

    method: str
    url: str
    body: str | None
    idempotency_key: str | None
    status: int | None = None
    duration_ms: float = 0.0
    request_id: str | None = None
    error: str = ""  # the reason if no answer came
    at: str = ""  # the time when the attempt was sent, ISO 8601 in UTC
