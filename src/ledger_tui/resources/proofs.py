"""The readable parts of proofs from the ledger's transparency log, in the formats of C2SP (docs/verify.md).

This module checks no signature: `ledger-engine check-proof` checks a proof with the log's key.
"""

from __future__ import annotations

import re
from base64 import b64decode
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from urllib.parse import quote

from ledger_tui.client.api import Api
from ledger_tui.formats.text import literal
from ledger_tui.formats.times import since

PART = "log"
NO_LOG = "This server has no transparency log."
_SIGNATURE = re.compile(r"— (\S+) ([A-Za-z0-9+/=]+)")
_COSIGNED_BYTES = 76  # a witness adds the id of its key (4 bytes), the time (8) and its signature (64)


@dataclass(frozen=True)
class CheckpointText:
    """A log's checkpoint: the size of the log, and the witnesses that have signed it, with the times."""

    size: int
    witnesses: tuple[tuple[str, datetime], ...] = ()

    def signed_by(self, now: datetime) -> str:
        """Return `witnessed by …` with the names of the witnesses and the ages of their signatures.

        Return "" if there is no witness.
        """
        names = ", ".join(f"{literal(name)} {since(now - at)}" for name, at in self.witnesses)
        return f"witnessed by {names}" if names else ""


@dataclass(frozen=True)
class LogProof:
    """The proof that an event is entry `index` of the log with this checkpoint.

    `text` is the proof as the server sent it.
    """

    index: int
    checkpoint: CheckpointText
    text: str


def parse_checkpoint(note: object) -> CheckpointText | None:
    """Return the size and the witnesses from a signed note; None if the value is no such note."""
    body, _, signatures = note.partition("\n\n") if isinstance(note, str) else ("", "", "")
    origin, _, rest = body.partition("\n")
    size = rest.partition("\n")[0]
    if not (size.isascii() and size.isdigit()):
        return None
    witnesses = []
    for name, text in _SIGNATURE.findall(signatures):
        signature = b64decode(text + "==")
        if name != origin and len(signature) == _COSIGNED_BYTES:
            seconds = int.from_bytes(signature[4:12], "big")
            time = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=min(seconds, 2**37))
            witnesses.append((name, time))
    return CheckpointText(int(size), tuple(witnesses))


def parse_proof(text: object) -> LogProof | None:
    """Return the content of a `tlog-proof`; None if the value is no such proof."""
    head, _, note = text.partition("\n\n") if isinstance(text, str) else ("", "", "")
    index, checkpoint = re.search(r"^index (\d{1,18})$", head, re.MULTILINE), parse_checkpoint(note)
    if index is None or checkpoint is None or not isinstance(text, str):
        return None
    return LogProof(int(index[1]), checkpoint, text)


async def read_proof(api: Api, kind: str, record_id: object) -> LogProof | None:
    """Return the proof of an object; `kind` is `transactions` or `events`. Raises LedgerError."""
    path = f"/v1/{kind}/{quote(str(record_id), safe='')}/proof"
    return parse_proof((await api.read(path, part=PART)).body)


def place_in_log(proof: LogProof, now: datetime) -> str:
    """Return a sentence with the place of an entry in the log, and with the log's witnesses if it has any."""
    by = proof.checkpoint.signed_by(now)
    return f"Entry {proof.index:,} in the log of {proof.checkpoint.size:,} events{by and ', '}{by}"
