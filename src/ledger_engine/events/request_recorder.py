"""The recorder: queues each request for the log and writes the queue in batches.

What a request adds to the queue is cheap; the entry is made from it later. A queued request holds only what
may be stored, as thousands may wait while the storage is unavailable. When the queue is full, requests are
dropped and counted: logging never makes a request wait.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections import deque
from functools import lru_cache, partial
from itertools import islice
from typing import NamedTuple

from ledger_engine.access.credentials import Credential
from ledger_engine.core.errors import StorageUnavailable
from ledger_engine.core.masking import MASK, masked, may_hold_secrets
from ledger_engine.events import request_log
from ledger_engine.events.request_log import Entry
from ledger_engine.store import Value
from ledger_engine.store.engine import Engine

BODY_KEPT_MAX = 4096  # bytes (docs/decisions.md#request-log-entries)
WAITING_MAX = 10_000
BATCH_MAX = 200
EVERY_S = 0.1
RETRY_AFTER_S = 1.0
PATH_MAX = 2048  # characters; a longer path is a mistake, and its start shows which
KEY_MAX = 255  # characters of an idempotency key; a longer one was refused
# The log itself, and the paths that passwords and authorization codes are sent to.
_NOT_NOTED = ("/v1/requests", "/oauth/")

log = logging.getLogger("ledger_engine.http")


class Note(NamedTuple):
    """A request as the gate saw it. `created` is in milliseconds; `authorization` and `idempotency_key` are
    the values of these headers."""

    request: str
    created: int
    duration_s: float
    caller: Credential
    method: str
    path: str
    query: bytes
    address: str
    authorization: bytes
    idempotency_key: bytes
    body: bytes
    status: int
    answer: bytes
    error_code: str | None = None  # of an operation's error; any other is short, and read from the answer


class RequestRecorder:
    """Writes the queued requests to the log, from `start` to `stop`."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._waiting: deque[Note] = deque()
        self._noted = asyncio.Event()
        self._stopping = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._doubtful = 0  # of those waiting, the first that may be stored, as a commit's outcome is unknown
        self._too_many = 0
        self.dropped = 0

    def note(self, note: Note) -> None:
        """Queue a request, unless too many are waiting. Requests to some paths are never logged."""
        if not note.status or note.path.startswith(_NOT_NOTED):
            return
        if len(self._waiting) < WAITING_MAX:
            if not self._waiting:
                self._noted.set()
            self._waiting.append(_cut(note))
        else:
            self.dropped += 1
            self._too_many += 1

    def start(self) -> None:
        """Start writing, also again after `stop`; needs a running event loop."""
        self._stopping.clear()
        self._task = asyncio.create_task(self._write_until_stopped())

    async def stop(self) -> None:
        """Write what is queued, then stop."""
        self._stopping.set()
        self._noted.set()
        if self._task is not None:
            await self._task

    async def _write_until_stopped(self) -> None:
        while not self._stopping.is_set() or self._waiting:
            if not self._waiting:
                await self._noted.wait()
                self._noted.clear()
                await self._pause(EVERY_S)
                continue
            if not await self._write_batch():
                if self._stopping.is_set():
                    log.warning(
                        "%d requests were not logged: the storage is not available", len(self._waiting)
                    )
                    self.dropped += len(self._waiting)
                    self._waiting.clear()
                    self._doubtful = 0
                await self._pause(RETRY_AFTER_S)
            elif len(self._waiting) < BATCH_MAX:
                await self._pause(EVERY_S)
            self._log_too_many()

    async def _write_batch(self) -> bool:
        batch = list(islice(self._waiting, BATCH_MAX))
        try:
            # Plain tuples, which a worker pickles in a third of the time.
            entries: list[tuple[Value, ...]] = [tuple(_entry(note)) for note in batch]
            add = partial(request_log.add, entries=entries, doubtful=self._doubtful)
            await self._engine.write(add)
        except StorageUnavailable:
            self._doubtful = len(batch)
            return False
        except Exception:
            # One entry that fails for whatever reason must not stop the entries after it.
            log.exception("%d requests could not be logged", len(batch))
            self.dropped += len(batch)
        for _ in batch:
            self._waiting.popleft()
        self._doubtful = 0
        return True

    async def _pause(self, seconds: float) -> None:
        if not self._stopping.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._stopping.wait()

    def _log_too_many(self) -> None:
        if self._too_many:
            log.warning("%d requests were not logged: too many at once", self._too_many)
            self._too_many = 0


def _cut(note: Note) -> Note:
    if (
        len(note.body) <= BODY_KEPT_MAX
        and len(note.answer) <= BODY_KEPT_MAX
        and len(note.path) + len(note.query) <= PATH_MAX
        and len(note.idempotency_key) <= KEY_MAX
    ):
        return note
    return note._replace(
        body=note.body[:BODY_KEPT_MAX],
        answer=note.answer[:BODY_KEPT_MAX],
        path=note.path[:PATH_MAX],
        query=note.query[:PATH_MAX],
        idempotency_key=note.idempotency_key[:KEY_MAX],
    )


def _entry(note: Note) -> Entry:
    caller, answer, key = note.caller, note.answer, note.idempotency_key
    path, query = note.path, note.query.decode("latin-1")
    request_body = response_body = ""
    if not caller.livemode:
        request_body, response_body = _text(note.body), _text(answer)
    if may_hold_secrets(f"{path} {query} {request_body} {response_body}"):
        path, query, request_body, response_body = map(masked, (path, query, request_body, response_body))
    return Entry(
        caller.project,
        caller.livemode,
        note.request,
        note.method,
        path,
        query,
        note.status,
        int(note.duration_s * 1_000_000),
        caller.id,
        _masked_credential(note.authorization),
        note.address,
        (note.error_code or _error_code(answer)) if note.status >= 400 else None,
        masked(key.decode("latin-1")) if key else None,
        request_body or None,
        response_body or None,
        note.created,
    )


@lru_cache(maxsize=256)
def _masked_credential(header: bytes) -> str:
    """Return the kind and the last four characters: `sk_test_••••abcd`."""
    value = header.decode("latin-1").partition(" ")[2]
    return f"{value.rpartition('_')[0]}_{MASK}{value[-4:]}"


def _error_code(answer: bytes) -> str | None:
    try:
        error = json.loads(answer)["error"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    code = error.get("code") if isinstance(error, dict) else error
    return code if isinstance(code, str) else None


def _text(body: bytes) -> str:
    return body.decode("utf-8", "replace").replace("\x00", "\ufffd")
