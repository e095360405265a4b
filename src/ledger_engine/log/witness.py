"""A witness of logs, as the specification tlog-witness of C2SP (c2sp.org) defines it.

A witness signs a new checkpoint of a log only if the log has merely grown since the last checkpoint that the
witness signed: all older entries must be unchanged. The witness stores its key and the last checkpoint of
each log in a folder, and answers requests to `add-checkpoint` over HTTP.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple

from ledger_engine.log import notes, tree
from ledger_engine.log.checkpoints import Checkpoint, parse_size
from ledger_engine.log.notes import BadNote, Note, SigningKey, VerifierKey
from ledger_engine.log.tree import BadProof
from ledger_engine.store.files import write_private

_BODY_MAX = notes.NOTE_MAX
_PATH_MAX = 63  # hashes in a proof
_SILENCE_S = 30  # after this many seconds without traffic, the server closes a connection
# The media types of the answers.
TEXT = "text/plain; charset=utf-8"
SIZE = "text/x.tlog.size"


class WitnessAnswer(NamedTuple):
    """The answer to a request: a status, and a text with its media type."""

    status: int
    text: str
    media_type: str = TEXT


class _Refusal(Exception):
    """The request is refused with this answer, whose status the standard defines."""

    def __init__(self, answer: WitnessAnswer) -> None:
        super().__init__(answer.text)
        self.answer = answer


class Witness:
    """The witness of some logs. `logs` maps the origin of each log to the log's public keys."""

    def __init__(
        self,
        folder: Path,
        logs: Mapping[str, Sequence[VerifierKey]],
        now_s: Callable[[], float] = time.time,
    ) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._folder = folder
        self._logs = logs
        self._now_s = now_s
        self._one_at_a_time = threading.Lock()
        self._key = _key_in(folder / "key")

    @property
    def verifier(self) -> VerifierKey:
        return self._key.verifier

    def add_checkpoint(self, body: bytes) -> WitnessAnswer:
        """Answer a request to sign a checkpoint."""
        try:
            old, path, checkpoint = _parse(body)
            with self._one_at_a_time:
                return self._sign(old, path, checkpoint)
        except _Refusal as refusal:
            return refusal.answer

    def last(self, origin_hash: str) -> WitnessAnswer:
        """Answer a request for a log's last checkpoint that this witness signed.

        `origin_hash` is the hash of the log's origin.
        """
        for origin in self._logs:
            if _hash(origin) == origin_hash and self._file(origin).exists():
                return WitnessAnswer(200, self._file(origin).read_text(encoding="utf-8"))
        return WitnessAnswer(404, "No such checkpoint.\n")

    def _sign(self, old: int, path: list[bytes], checkpoint: Checkpoint) -> WitnessAnswer:
        keys = self._logs.get(checkpoint.origin)
        if keys is None:
            return WitnessAnswer(404, "This witness does not watch the log.\n")
        try:
            signatures = [each for each in map(checkpoint.note.signature_of, keys) if each is not None]
        except BadNote as error:
            return WitnessAnswer(403, f"{error}.\n")
        if not signatures:
            return WitnessAnswer(
                403, "The checkpoint is not signed by a key that this witness knows for the log.\n"
            )
        if old > checkpoint.size:
            return WitnessAnswer(400, "The old size is larger than the size of the checkpoint.\n")
        before = self._before(checkpoint.origin)
        if old != before.size:
            return WitnessAnswer(409, f"{before.size}\n", SIZE)
        try:
            tree.check_consistency(before.size, before.root, checkpoint.size, checkpoint.root, path)
        except BadProof as error:
            return WitnessAnswer(422, f"{error}.\n")
        line = self._key.cosign(checkpoint.note.text, int(self._now_s()))
        # Store the checkpoint before anybody sees the signature: after a crash this witness must not sign a
        # tree that contradicts the signed tree.
        write_private(self._file(checkpoint.origin), str(Note(checkpoint.note.text, (*signatures, line))))
        return WitnessAnswer(200, line.line())

    def _before(self, origin: str) -> Checkpoint:
        file = self._file(origin)
        if file.exists():
            return Checkpoint.parse(file.read_bytes().decode())
        return Checkpoint(origin, 0, tree.EMPTY, Note(""))

    def _file(self, origin: str) -> Path:
        return self._folder / f"{_hash(origin)}.checkpoint"


def listen(witness: Witness, host: str, port: int) -> ThreadingHTTPServer:
    """Return an HTTP server that listens for requests to the witness. Raises OSError."""

    def add_checkpoint(body: bytes) -> WitnessAnswer:
        try:
            return witness.add_checkpoint(body)
        except OSError as error:
            return WitnessAnswer(500, f"This witness cannot store its signature: {error.strerror}.\n")

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = _SILENCE_S
        server_version = "ledger-engine"
        sys_version = ""

        def handle(self) -> None:
            with suppress(ConnectionError):  # the client has closed the connection
                super().handle()

        def do_POST(self) -> None:
            length = self.headers.get("Content-Length", "")
            if not (length.isascii() and length.isdecimal()) or int(length) > _BODY_MAX:
                self.close_connection = True
                self._answer(
                    WitnessAnswer(
                        413 if length.isdecimal() else 411, "The body has no length or is too long.\n"
                    )
                )
                return
            body = self.rfile.read(int(length))
            if self.path == "/add-checkpoint":
                self._answer(add_checkpoint(body))
            else:
                self._answer(WitnessAnswer(404, "No such path.\n"))

        def do_GET(self) -> None:
            origin_hash, _, rest = self.path.removeprefix("/").partition("/")
            is_checkpoint = rest == "checkpoint"
            self._answer(
                witness.last(origin_hash) if is_checkpoint else WitnessAnswer(404, "No such path.\n")
            )

        def log_message(self, *_: object) -> None:
            """Log nothing, because the witness's folder contains everything of interest."""

        def _answer(self, answer: WitnessAnswer) -> None:
            content = answer.text.encode()
            self.send_response(answer.status)
            self.send_header("Content-Type", answer.media_type)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    server = ThreadingHTTPServer((host, port), Handler)
    server.daemon_threads = True
    return server


def _parse(body: bytes) -> tuple[int, list[bytes], Checkpoint]:
    """Return the old size, the proof and the checkpoint in a request. Raises _Refusal."""
    try:
        head, between, rest = body.decode().partition("\n\n")
        first, *lines = head.split("\n")
        if not between or not first.startswith("old ") or len(lines) > _PATH_MAX:
            raise BadNote("a request is `old SIZE`, the lines of the proof, an empty line and the checkpoint")
        return parse_size(first[4:]), [notes.decode(line) for line in lines], Checkpoint.parse(rest)
    except (BadNote, UnicodeDecodeError) as error:
        raise _Refusal(WitnessAnswer(400, f"{error}.\n")) from None


def _key_in(file: Path) -> SigningKey:
    """Return the key in a file; at the first start, create the key and the file."""
    if not file.exists():
        write_private(file, f"witness-{secrets.token_hex(8)} {notes.encode(notes.new_private())}\n")
    name, _, private = file.read_text(encoding="utf-8").strip().partition(" ")
    return SigningKey(name, notes.WITNESS, notes.decode(private))


def _hash(origin: str) -> str:
    return sha256(origin.encode()).hexdigest()
