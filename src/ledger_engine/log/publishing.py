"""Publishes checkpoints outside the ledger: as files in other folders, and to witnesses that sign them.

An attacker who can change the ledger and its key cannot change these copies. So the copies reveal a ledger
that was rolled back.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ledger_engine.core.clock import iso
from ledger_engine.core.errors import StorageUnavailable
from ledger_engine.core.tasks import cancel
from ledger_engine.core.tenant import mode_name
from ledger_engine.log import checkpoints, notes, stored, tree
from ledger_engine.log.checkpoints import Checkpoint
from ledger_engine.log.entries import LoggedBook
from ledger_engine.log.notes import BadNote, VerifierKey
from ledger_engine.log.stored import StoredLog
from ledger_engine.store import LOG, BookWork, Unit
from ledger_engine.store.engine import Engine
from ledger_engine.store.files import write_private

if TYPE_CHECKING:
    from ledger_client.answers import BoundedClient

EVERY_S = 1.0  # pause between two rounds
KEPT_EVERY_MS = 60_000  # the shortest time between two files of one log in one folder
RETRY_AFTER_S = 30.0  # pause until a witness that did not sign is asked again
_ANSWER_S = 10.0  # for the whole answer of a witness
_ANSWER_MAX = 100_000  # bytes
_SUFFIX = ".checkpoint"

log = logging.getLogger("ledger_engine.log.publishing")


@dataclass(frozen=True, slots=True)
class WitnessAddress:
    """The address of a witness, and the public key of its signatures."""

    url: str
    key: VerifierKey


@dataclass(frozen=True, slots=True)
class CheckpointPlaces:
    """The folders and witnesses outside the ledger that store checkpoints."""

    folders: Sequence[Path] = ()
    witnesses: Sequence[WitnessAddress] = ()


def newest(folder: Path, book: LoggedBook) -> list[Checkpoint]:
    """Return the newest checkpoint in a folder for each log that the book ever had.

    A checkpoint belongs to the book if its origin ends with the book's project and mode. This function
    ignores the beginning of the origin. A ledger that lost its log gives the new log another origin, and this
    function must still find the checkpoints of the old log. Raises OSError and BadNote.
    """
    if not folder.is_dir():
        return []
    checkpoints = []
    for place in sorted(folder.iterdir()):
        if place.name.endswith(f"_{book.project}_{mode_name(book.livemode)}"):
            files = sorted(place.glob(f"*{_SUFFIX}"))
            checkpoints += [_read(file) for file in files[-1:]]
    return checkpoints


def _read(file: Path) -> Checkpoint:
    try:
        return Checkpoint.parse(file.read_bytes().decode())
    except UnicodeDecodeError:
        raise BadNote(f"{file.name} is not UTF-8") from None


def notice_name(witness: str, book: int) -> str:
    """Return the name of a notice: the message that a witness does not sign the log of a book.

    `Engine.notices` stores the notice under this name, and the health check shows it until the witness signs.
    """
    return f"witness {witness} {book}"


class Publisher:
    """From `start` to `stop`, publishes the last checkpoint of each book.

    `latest` maps the book's number to the log with this checkpoint. The sealer fills `latest`. If several
    servers share the ledger, only one of them seals, and only the sealing server publishes. While a folder
    or a witness fails, the health check shows a notice about this failure.
    """

    def __init__(self, engine: Engine, outside: CheckpointPlaces, latest: dict[int, StoredLog]) -> None:
        self._engine = engine
        self._outside = outside
        self._latest = latest
        # For each folder and book, the size of the log in the last file, and when this file was written.
        self._sizes_by_place: dict[tuple[Path, int], tuple[int, int]] = {}
        # For each witness and book, the size of the log that the witness has signed.
        self._sizes_by_witness: dict[tuple[str, int], int] = {}
        # For each witness and book, the earliest time of the next request, if the witness did not sign.
        self._retry_at: dict[tuple[str, int], float] = {}
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start publishing. This needs a running event loop."""
        self._sizes_by_witness.clear()
        self._retry_at.clear()
        if self._outside.folders or self._outside.witnesses:
            self._task = asyncio.create_task(self._publish_on())

    async def stop(self) -> None:
        """Stop publishing, and then write the last checkpoint of each book to each folder."""
        if self._task is not None:
            await cancel(self._task)
            for folder in self._outside.folders:
                for stored_log in list(self._latest.values()):
                    await self._keep(folder, stored_log, at_once=True)

    async def publish(self) -> None:
        """Publish every checkpoint that is due, once."""
        for stored_log in list(self._latest.values()):
            for folder in self._outside.folders:
                await self._keep(folder, stored_log)
        if self._outside.witnesses:
            # Imported here, because few servers use witnesses.
            from ledger_client.answers import BoundedClient

            async with BoundedClient(
                bytes_max=_ANSWER_MAX, seconds_max=_ANSWER_S, follow_redirects=False
            ) as client:
                await asyncio.gather(*(self._ask(client, witness) for witness in self._outside.witnesses))

    async def _publish_on(self) -> None:
        while True:
            try:
                await self.publish()
            except StorageUnavailable as error:
                log.warning("publishing checkpoints is paused: %s", error.cause)
            except Exception:  # any error: without this task nothing would be published
                log.exception("publishing checkpoints failed")
            await asyncio.sleep(EVERY_S)

    async def _keep(self, folder: Path, stored_log: StoredLog, *, at_once: bool = False) -> None:
        """Write a checkpoint to a file in a folder, unless the folder's last file already contains it.

        Without `at_once`, write at most one file a minute.
        """
        now = self._engine.clock.now()
        size, at = self._sizes_by_place.get((folder, stored_log.book.number), (-1, 0))
        if size == stored_log.size or (now - at < KEPT_EVERY_MS and not at_once):
            return
        checkpoint = stored_log.require()
        place = f"folder {folder}"
        try:
            await asyncio.to_thread(_write, folder, checkpoint, iso(now))
        except OSError as error:
            self._say(place, f"Checkpoints cannot be written to {folder}: {error.strerror}.")
        else:
            self._say(place, None)
            self._sizes_by_place[folder, stored_log.book.number] = stored_log.size, now

    async def _ask(self, client: BoundedClient, witness: WitnessAddress) -> None:
        """Ask a witness to sign the last checkpoint of each book.

        Skip a checkpoint that the witness has signed. If the witness did not sign for a book, skip the book
        for RETRY_AFTER_S.
        """
        for stored_log in list(self._latest.values()):
            place = (witness.key.name, stored_log.book.number)
            now = asyncio.get_running_loop().time()
            if self._sizes_by_witness.get(place) == stored_log.size or now < self._retry_at.get(place, 0):
                continue
            refusal = await self._sign(client, witness, stored_log)
            self._say(notice_name(witness.key.name, stored_log.book.number), refusal)
            if refusal is not None:
                self._retry_at[place] = now + RETRY_AFTER_S

    async def _sign(
        self, client: BoundedClient, witness: WitnessAddress, stored_log: StoredLog
    ) -> str | None:
        """Ask a witness to sign a checkpoint.

        Return None if the witness signs. Otherwise return the reason, as a sentence for a notice.
        """
        import httpx

        checkpoint = stored_log.require()
        name, origin = witness.key.name, checkpoint.origin
        old = await self._engine.read(partial(_signed_size, book=stored_log.book.number, witness=name))
        for _ in range(2):
            ranges = tree.consistency(old, stored_log.size)
            path = await self._engine.read(partial(stored.hashes, log=stored_log, ranges=ranges))
            lines = "".join(f"{notes.encode(hash)}\n" for hash in path)
            body = f"old {old}\n{lines}\n{checkpoint.note}".encode()
            try:
                answer = await client.post(f"{witness.url.rstrip('/')}/add-checkpoint", content=body)
            except httpx.HTTPError as error:
                return f"The witness {name} cannot be reached: {error or type(error).__name__}."
            if answer.status_code == 409:
                with contextlib.suppress(BadNote):
                    old = checkpoints.parse_size(answer.text.removesuffix("\n"))
                    if old > stored_log.size:
                        return (
                            f"The witness {name} has signed {old} entries of {origin}, and this ledger has"
                            f" {stored_log.size}: this ledger was rolled back, or is a fork."
                        )
                    continue
            if answer.status_code == 422:
                return (
                    f"The witness {name} has signed another history of {origin}, in its first {old} entries:"
                    " this ledger was rolled back, or is a fork."
                )
            if answer.status_code != 200:
                return f"The witness {name} refuses {origin} with status {answer.status_code}."
            return await self._keep_signature(witness, stored_log, answer.text)
        return (
            f"The witness {name} refused {origin} twice (status 409), although the second request used the"
            " size that the witness had named."
        )

    async def _keep_signature(self, witness: WitnessAddress, stored_log: StoredLog, text: str) -> str | None:
        key = witness.key
        try:
            note = notes.Note(stored_log.require().note.text, notes.parse_signatures(text))
            line = note.signature_of(key)
        except BadNote:
            line = None
        if line is None:
            return f"The witness {key.name} answered without a signature that its key made."
        storing = partial(_store, log=stored_log, witness=key.name, line=line.line())
        await self._engine.write(BookWork(storing, LOG))
        self._sizes_by_witness[key.name, stored_log.book.number] = stored_log.size
        return None

    def _say(self, about: str, message: str | None) -> None:
        notices = self._engine.notices
        if message is None:
            notices.pop(about, None)
        elif notices.get(about) != message:
            notices[about] = message
            log.error("%s", message)


def _folder_of(folder: Path, origin: str) -> Path:
    return folder / origin.replace("/", "_").replace(":", "_").lstrip(".")


def _write(folder: Path, checkpoint: Checkpoint, at: str) -> None:
    place = _folder_of(folder, checkpoint.origin)
    place.mkdir(parents=True, exist_ok=True)
    # The file's name begins with the size of the log. So the file with the largest log is the last file in
    # the order of the names, even if the clock was set back.
    name = f"{checkpoint.size:015}-{at[:16].replace(':', '')}Z{_SUFFIX}"
    write_private(place / name, str(checkpoint.note))


def _signed_size(unit: Unit, book: int, witness: str) -> int:
    row = unit.first(
        "SELECT size FROM log_cosignatures WHERE book = :book AND witness = :witness",
        {"book": book, "witness": witness},
    )
    return 0 if row is None else int(row["size"])


def _store(unit: Unit, log: StoredLog, witness: str, line: str) -> None:
    unit.execute(
        "INSERT INTO log_cosignatures (book, witness, size, checkpoint, line)"
        " VALUES (:book, :witness, :size, :checkpoint, :line) ON CONFLICT (book, witness) DO UPDATE"
        " SET size = excluded.size, checkpoint = excluded.checkpoint, line = excluded.line",
        {
            "book": log.book.number,
            "witness": witness,
            "size": log.size,
            "checkpoint": log.checkpoint,
            "line": line,
        },
    )
