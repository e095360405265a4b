"""One attempt of a request as a log shows it, for the hook `on_exchange`. It needs no httpx."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SentRequest:
    """One attempt of a request and its answer; `status` is None when no answer came.

    The credential is not in it, but `body` may contain secrets.
    """

    method: str
    url: str
    body: str | None
    idempotency_key: str | None
    status: int | None = None
    duration_ms: float = 0.0
    request_id: str | None = None
    error: str = ""  # the reason, when no answer came
    at: str = ""  # when it was sent, ISO 8601 in UTC
