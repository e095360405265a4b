"""Stores the latest requests and answers, with masked secrets, for the traffic log and for copy as curl."""

from __future__ import annotations

import re
import shlex
from collections import deque
from collections.abc import Iterator
from dataclasses import replace

from ledger_client.exchanges import SentRequest as SentRequest

KEPT = 500
OWN_PREFIX = "own_"  # the beginning of ids for requests that only this dashboard knows
IDS_KEPT = 20_000
_SECRET = re.compile(r"\b(sk_test|sk_live|at|rt|whsec)_[A-Za-z0-9]{4,}")


def masked(text: str) -> str:
    """Return the text with each key, token and signing secret cut to its prefix."""
    return _SECRET.sub(r"\1_••••", text)


class Traffic:
    """The latest requests with their results, oldest first, at most `KEPT`."""

    def __init__(self) -> None:
        self._exchanges: deque[SentRequest] = deque(maxlen=KEPT)
        self.count = 0
        self._ids: dict[str, None] = {}  # ids of the latest requests, to recognise them in the server's log

    def add(self, exchange: SentRequest) -> None:
        if exchange.body is not None:
            exchange = replace(exchange, body=masked(exchange.body))
        self._exchanges.append(exchange)
        self.count += 1
        if exchange.request_id is not None:
            self._ids[exchange.request_id] = None
            if len(self._ids) > IDS_KEPT:
                del self._ids[next(iter(self._ids))]

    def is_own(self, request_id: object) -> bool:
        """Return whether a request in the server's log was one of this dashboard's latest requests."""
        return request_id in self._ids

    def __iter__(self) -> Iterator[SentRequest]:
        return iter(self._exchanges)

    @property
    def last(self) -> SentRequest | None:
        return self._exchanges[-1] if self._exchanges else None


KEY_VARIABLE = "LEDGER_API_KEY"


def as_curl(exchange: SentRequest) -> str:
    """Return a curl command that sends the request again.

    The command takes the credential from the environment variable LEDGER_API_KEY.
    """
    parts = ["curl"]
    if exchange.method != "GET":
        parts += ["-X", exchange.method]
    parts += [shlex.quote(exchange.url), "-H", f'"Authorization: Bearer ${KEY_VARIABLE}"']
    if exchange.idempotency_key is not None:
        parts += ["-H", shlex.quote(f"Idempotency-Key: {exchange.idempotency_key}")]
    if exchange.body is not None:
        parts += ["-H", "'Content-Type: application/json'", "-d", shlex.quote(exchange.body)]
    return " ".join(parts)
