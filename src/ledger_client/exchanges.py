"""One attempt of a request as a log shows it, for the hook `on_exchange`. It needs no httpx."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SentRequest:
    """One attempt of a request and its answer; `status` is None when no answer came.

    It does not contain the credential, but `body` may contain other secrets.
    """

    method: str
    url: str
    body: str | None
    idempotency_key: str | None
    status: int | None = None
    duration_ms: float = 0.0
    request_id: str | None = None
    error: str = ""  # why there is no answer
    at: str = ""  # when it was sent, ISO 8601 in UTC
