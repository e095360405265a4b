"""A cache of one credential's latest answers, so that a server need not send an unchanged answer again."""

from __future__ import annotations

from collections.abc import Hashable, Mapping

import httpx

from ledger_client.calls import Answer, ApiCall

ANSWERS_MAX = 32
BYTES_MAX = 16_000_000  # the limit for all stored answers together
# In a 304 these headers describe the empty body of the 304, so the values of the stored answer stay.
_ABOUT_ITS_OWN_BODY = frozenset({"content-length", "content-type"})


class AnswerCache:
    """The answers to the latest GETs, if they carry an ETag: at most 32 answers and 16 MB."""

    def __init__(self) -> None:
        self._answers: dict[Hashable, Answer] = {}
        self._bytes = 0

    def find(self, key: Hashable) -> Answer | None:
        """Return the stored answer to the request with this key; None if the cache stores no answer."""
        return self._answers.get(key)

    def store(self, key: Hashable, answer: Answer) -> None:
        """Store the latest answer to a request, and drop the oldest answers beyond the limits."""
        self._drop(key)
        self._answers[key] = answer
        self._bytes += len(answer.content)
        while len(self._answers) > ANSWERS_MAX or self._bytes > BYTES_MAX:
            self._drop(next(iter(self._answers)))

    def _drop(self, key: Hashable) -> None:
        answer = self._answers.pop(key, None)
        if answer is not None:
            self._bytes -= len(answer.content)


def key_of(call: ApiCall[object]) -> Hashable | None:
    """Return the key of a request in the cache; None for a request whose answer is not cached."""
    if call.method != "GET" or "if-none-match" in call.headers:
        return None
    query = str(httpx.QueryParams(call.query))
    return call.path, query, frozenset(call.headers.items()), call.is_anonymous


def with_newer_headers(answer: Answer, headers: Mapping[str, str]) -> Answer:
    """Return the stored answer, with the headers of the 304 that confirmed this answer."""
    merged_headers = httpx.Headers(dict(answer.headers))
    newer = headers.items()
    merged_headers.update({name: value for name, value in newer if name.lower() not in _ABOUT_ITS_OWN_BODY})
    return Answer(answer.status, merged_headers, answer.content)
