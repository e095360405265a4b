"""The sealer follows the events of each book, and signs a checkpoint of the book's log within a second."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import time
from functools import partial

from ledger_engine.core.errors import StorageUnavailable
from ledger_engine.core.tasks import cancel
from ledger_engine.events import outbox
from ledger_engine.events.webhooks.signing import Seal, WrongKey
from ledger_engine.log import checkpoints, entries, keys, notes, publishing, stored
from ledger_engine.log.entries import SALT
from ledger_engine.log.keys import LogKey
from ledger_engine.log.notes import BadNote, Note
from ledger_engine.log.publishing import CheckpointPlaces, Publisher
from ledger_engine.log.stored import BrokenLog, FullTile, StoredLog
from ledger_engine.log.tree import TILE_HEIGHT, Edge
from ledger_engine.store import LOG, BookWork
from ledger_engine.store.engine import Engine

EVERY_S = 0.5  # pause between two rounds; a checkpoint must follow an event within a second
# The longest wait for a commit that wakes the sealer. The commits of other processes do not wake the sealer.
POLL_INTERVAL_S = 1.0
READ_AT_ONCE = 512  # events; only a few, because requests wait while the interpreter hashes these events
SIGNED_AT_ONCE = 32 * READ_AT_ONCE  # events; once a log has grown by this many, it is signed
EDGES_MAX = 200  # logs whose right edge (`tree.Edge`) stays in memory
# The names of two messages in `Engine.notices`, which the health check shows: about a log that is not signed,
# and about an error in sealing.
NOTICE = "log"
FAILED = "sealing"
NOWHERE = CheckpointPlaces()

log = logging.getLogger("ledger_engine.log.sealer")


class Sealer:
    """Seals the logs from `start` until `stop`, and can start again. Of several servers, only one seals.

    To seal means to add events to a log and to sign a checkpoint. The origins of the logs begin with `name`,
    or with a random name if `name` is None. The name is stored with the ledger's first key and never changes.
    `outside` are the folders and witnesses outside the ledger to which the checkpoints are published.
    """

    def __init__(
        self, engine: Engine, seal: Seal, name: str | None = None, outside: CheckpointPlaces = NOWHERE
    ) -> None:
        self._engine = engine
        self._seal = seal
        self._name = name
        self._woken = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        # Maps the book's number to the size and the right edge of the book's log when it was last sealed.
        self._edges: dict[int, tuple[int, Edge]] = {}
        self._problems: dict[int, str] = {}  # the reason why a book's log is not signed, by the book's number
        self._key: LogKey | None = None
        self._can_read_key = False
        self._latest: dict[int, StoredLog] = {}
        self._outside = outside
        self._publisher = Publisher(engine, outside, self._latest)
        engine.listen(self._notice_commit)

    async def begin(self) -> None:
        """Make the ledger's first key if the ledger has no key.

        Make no key if one of the folders in `outside` contains checkpoints of an earlier log.

        A server makes the key first, and only then marks the ledger as served. So if a ledger is marked as
        served and has no key, somebody has removed the key and the log, and `verify` reports this.
        """
        if await self._engine.read(keys.current) is None and await self._may_begin():
            name = self._name or f"ledger-{secrets.token_hex(8)}"
            private = notes.new_private()
            await self._engine.write(partial(keys.add, name=name, private=private, seal=self._seal))

    def start(self) -> None:
        """Start sealing. This needs a running event loop."""
        self._edges.clear()
        self._problems.clear()
        self._latest.clear()
        self._key = None
        self._task = asyncio.create_task(self._seal_on())
        self._publisher.start()

    async def stop(self) -> None:
        """Stop sealing at once; the next sealer seals the remaining events. Also stop publishing."""
        await cancel(self._task)
        await self._publisher.stop()

    async def seal(self) -> None:
        """Seal all events that are stored now. Raises StorageUnavailable and WrongKey."""
        while await self._look():
            pass

    def _notice_commit(self, topics: frozenset[str]) -> None:
        if outbox.TOPIC in topics:
            self._woken.set()

    async def _seal_on(self) -> None:
        while True:
            began = time.monotonic()
            self._woken.clear()
            more = await self._try_to_look()
            # With very many books, a round takes long. The pause is at least ten times as long as the round,
            # so that sealing takes at most a tenth of the time.
            await asyncio.sleep(0 if more else max(EVERY_S, 10 * (time.monotonic() - began)))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0 if more else POLL_INTERVAL_S):
                    await self._woken.wait()

    async def _try_to_look(self) -> bool:
        """Seal some events of each book, and return whether more events wait. Log errors, raise no error."""
        try:
            # Every server checks its sealing key, not only the leader, which seals.
            if not self._can_read_key and (key := await self._engine.read(keys.current)) is not None:
                key.private(self._seal)
            self._can_read_key = True
            more = await self._engine.shared_state.leases.leads() and await self._look()
        except StorageUnavailable as error:
            log.warning("sealing is paused: %s", error.cause)
        except WrongKey as error:
            self._say(NOTICE, f"The key of the log cannot be read, so nothing is sealed: {error}")
        except Exception as error:  # any error: without this task nothing would be sealed
            log.exception("sealing failed")
            self._engine.notices[FAILED] = f"Sealing the log failed: {error or type(error).__name__}."
        else:
            self._engine.notices.pop(FAILED, None)
            return more
        return False

    def _say(self, about: str, message: str) -> None:
        if self._engine.notices.get(about) != message:
            self._engine.notices[about] = message
            log.error("%s", message)

    async def _look(self) -> bool:
        """Seal up to about SIGNED_AT_ONCE events of each book; return whether more events wait."""
        if not await self._follow_key():
            return False
        more = False
        for stored_log in await self._engine.read(stored.behind):
            if stored_log.book.number not in self._problems:
                more |= await self._seal_book(stored_log)
        return more

    async def _may_begin(self) -> bool:
        """Return whether `begin` may make the first key: no folder has checkpoints of an earlier log."""
        self._problems.clear()
        for stored_log in await self._engine.read(stored.books):
            try:
                await self._compare_outside(stored_log)
            except BrokenLog as error:
                self._problems[stored_log.book.number] = error.reason
        self._say_what_is_broken()
        return not self._problems

    async def _follow_key(self) -> bool:
        """Make the first key if there is none, and sign all logs again if the key has changed.

        Return False if the ledger has no key and must not get a first key (`_may_begin`).
        """
        key = await self._engine.read(keys.current)
        if key is None:
            await self.begin()
            key = await self._engine.read(keys.current)
        if key is None:
            return False
        if key == self._key:
            return True
        key.private(self._seal)
        await self._engine.write(partial(keys.seal_secret, seal=self._seal))
        for stored_log in await self._engine.read(stored.every):
            # Check each log now, and not only when its book has new events, so that a ledger that was rolled
            # back is reported even if nothing is posted.
            edge = await self._edge(stored_log)
            if edge is None:
                continue
            self._edges[stored_log.book.number] = stored_log.size, edge
            self._latest[stored_log.book.number] = stored_log
            checkpoint = stored_log.require()
            signer = key.of(stored_log.book, self._seal)
            if checkpoint.note.signature_of(signer.verifier) is None:
                text = checkpoint.note.text
                new_log = StoredLog(
                    stored_log.book, stored_log.size, stored_log.last, str(Note(text, (signer.sign(text),)))
                )
                await self._engine.write(
                    BookWork(partial(stored.store, log=stored_log, full=(), new_log=new_log), LOG)
                )
                self._latest[stored_log.book.number] = new_log
        for witness, book in await self._engine.read(stored.garbled_cosignatures):
            self._say(
                publishing.notice_name(witness, book),
                f"The stored signature of the witness {witness} for book {book} cannot be read, and is left"
                " out until the witness signs again.",
            )
        self._key = await self._engine.read(keys.current)
        self._say_what_is_broken()
        return True

    async def _seal_book(self, log: StoredLog) -> bool:
        """Seal some events of a book, and return whether more events may wait."""
        edge = await self._edge(log)
        if edge is None:
            return False
        last, full = log.last, list[FullTile]()
        while edge.size - log.size < SIGNED_AT_ONCE:
            began = time.monotonic()
            part = await self._engine.read(
                partial(entries.leaves, book=log.book, after=last, limit=READ_AT_ONCE)
            )
            full += _add(edge, part.ids, part.entries)
            last = part.ids[-1] if part.ids else last
            if part.uncommitted:
                salts = {id: secrets.token_bytes(SALT) for id in part.uncommitted}
                await self._engine.write(partial(entries.store_commitments, book=log.book, salts=salts))
            elif len(part.ids) < READ_AT_ONCE:
                break
            # Pause for as long as these events took, because requests come first.
            await asyncio.sleep(time.monotonic() - began)
        if edge.size == log.size:
            return False
        assert self._key is not None
        signer = self._key.of(log.book, self._seal)
        text = checkpoints.text_of(signer.verifier.name, edge.size, edge.root())
        new_log = StoredLog(log.book, edge.size, last, str(Note(text, (signer.sign(text),))))
        # Store the signed checkpoint before anybody sees it. Store it only if no other server has signed this
        # log since this server read the log.
        storing = partial(stored.store, log=log, full=full, new_log=new_log)
        if await self._engine.write(BookWork(storing, LOG)):
            self._edges[log.book.number] = edge.size, edge
            self._latest[log.book.number] = new_log
        return edge.size - log.size >= SIGNED_AT_ONCE

    def _say_what_is_broken(self) -> None:
        why = "; ".join(self._problems.values())
        if not why:
            self._engine.notices.pop(NOTICE, None)
        else:
            self._say(NOTICE, f"The log is not signed any more: {why}.")

    async def _edge(self, log: StoredLog) -> Edge | None:
        """Return the right edge of a log, or None if the log is broken.

        This method removes the edge from `_edges`, because the caller changes the edge. The caller puts the
        edge back when it fits the stored log again.
        """
        size, edge = self._edges.pop(log.book.number, (-1, None))
        if len(self._edges) >= EDGES_MAX:
            self._edges.pop(next(iter(self._edges)))
        if edge is not None and size == log.size:
            return edge
        try:
            await self._compare_outside(log)
            return await self._engine.read(partial(stored.edge, log=log))
        except BrokenLog as error:
            self._problems[log.book.number] = error.reason
            self._latest.pop(log.book.number, None)
            self._say_what_is_broken()
            return None

    async def _compare_outside(self, stored_log: StoredLog) -> None:
        """Raise BrokenLog if a checkpoint of this book in one of the folders does not fit `stored_log`."""
        key = await self._engine.read(keys.current)
        origin = None if key is None else keys.origin_of(key.name, stored_log.book)
        for folder in self._outside.folders:
            try:
                kept_checkpoints = await asyncio.to_thread(publishing.newest, folder, stored_log.book)
            except (OSError, BadNote) as error:
                log.warning("the checkpoints in %s cannot be read: %s", folder, error)
                continue
            for checkpoint in kept_checkpoints:
                if checkpoint.origin != origin:
                    log_name = "no log" if origin is None else f"the log {origin}"
                    raise BrokenLog(
                        f"{folder} has a checkpoint of {checkpoint.origin} with {checkpoint.size} entries,"
                        f" and this ledger has {log_name}: the log was removed, or this is a fork. To begin a"
                        " new log, move the checkpoints of the old log away, or name another folder with"
                        " --checkpoint-to"
                    )
                await self._engine.read(
                    partial(stored.require_begins_with, log=stored_log, checkpoint=checkpoint)
                )


def _add(edge: Edge, ids: list[str], leaves: list[bytes]) -> list[FullTile]:
    """Add leaves to the edge, and return the tiles that became full."""
    before = edge.size
    numbers: dict[int, int] = {}
    full = []
    for level, hash in edge.add(leaves):
        number = numbers.setdefault(level, before >> TILE_HEIGHT * level)
        numbers[level] += 1
        end = (number + 1) << TILE_HEIGHT * level
        full.append(FullTile(level, number, hash, ids[end - before - 1]))
    return full
