"""Signed notes, in the form that C2SP (c2sp.org) defines.

A note is a text with signatures under it, each in a separate line. Logs and witnesses sign with Ed25519. A
witness also signs the time.
"""

from __future__ import annotations

import base64
import binascii
import re
import secrets
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256

LOG = 0x01
WITNESS = 0x04
NOTE_MAX = 1_000_000  # bytes; each signature in a note takes about a hundred bytes
_SIGNATURE = 64  # bytes
_TIME = 8  # bytes
_LINE = re.compile(r"— ([^\s+]+) (\S+)")
_KEY = re.compile(r"([^\s+]+)\+([0-9a-f]{8})\+(\S+)", re.ASCII)
_CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f]")


class BadNote(Exception):
    """A note, a key or a signature has a wrong form, or a signature does not match."""


def decode(text: str) -> bytes:
    """Return the bytes that a text encodes in base64.

    Raises BadNote unless the text is exactly the text that `encode` returns for these bytes.
    """
    try:
        decoded = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise BadNote(f"{text[:100]!r} is not base64") from None
    if encode(decoded) != text:
        raise BadNote(f"{text[:100]!r} is not base64 in its standard form")
    return decoded


def encode(value: bytes) -> str:
    return base64.b64encode(value).decode()


@dataclass(frozen=True, slots=True)
class Signature:
    """A line under a note: the name of the signer, the id of its key, and the signature in `value`.

    The `value` of a witness begins with the time of the signature.
    """

    name: str
    key_id: bytes
    value: bytes

    def line(self) -> str:
        return f"— {self.name} {encode(self.key_id + self.value)}\n"

    @property
    def time(self) -> int:
        """Return the Unix time of a witness's signature. Do not call this for the signature of a log."""
        return int.from_bytes(self.value[:_TIME], "big")


@dataclass(frozen=True)
class VerifierKey:
    """The public key of a log or a witness, with the owner's name; `kind` is LOG or WITNESS."""

    name: str
    kind: int
    public: bytes

    @staticmethod
    def parse(text: str) -> VerifierKey:
        """Return the key in a text of the form `name+id+base64`. Raises BadNote."""
        match = _KEY.fullmatch(text) if text.isprintable() else None
        if match is None:
            raise BadNote(f"{text[:200]!r} is not a verifier key: NAME+ID+KEY")
        material = decode(match[3])
        key = VerifierKey(match[1], material[0] if material else 0, material[1:])
        if key.kind not in (LOG, WITNESS) or len(key.public) != 32:
            raise BadNote(f"the verifier key of {key.name} is not an Ed25519 key of a log or witness")
        if key.id.hex() != match[2]:
            raise BadNote(f"the verifier key of {key.name} has an id that does not belong to it")
        return key

    @cached_property
    def id(self) -> bytes:
        return sha256(b"%s\n%c%s" % (self.name.encode(), self.kind, self.public)).digest()[:4]

    def __str__(self) -> str:
        return f"{self.name}+{self.id.hex()}+{encode(bytes([self.kind]) + self.public)}"

    def accepts(self, text: str, signature: Signature) -> bool:
        """Return whether `signature` is a signature of the text by this key."""
        value = signature.value
        message = text.encode()
        if self.kind == WITNESS:
            message, value = _text_to_cosign(text, signature.time), value[_TIME:]
        if len(signature.value) != _SIGNATURE + (_TIME if self.kind == WITNESS else 0):
            return False
        # Imported here and in SigningKey, because a server must start quickly, and needs this library only
        # later.
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

        try:
            Ed25519PublicKey.from_public_bytes(self.public).verify(value, message)
        except (InvalidSignature, ValueError):
            return False
        return True


class SigningKey:
    """A private key; `verifier` is its public key."""

    def __init__(self, name: str, kind: int, private: bytes) -> None:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        self._key = Ed25519PrivateKey.from_private_bytes(private)
        self.verifier = VerifierKey(name, kind, self._key.public_key().public_bytes_raw())

    def sign(self, text: str) -> Signature:
        """Return a log's signature under a note's text."""
        return Signature(self.verifier.name, self.verifier.id, self._key.sign(text.encode()))

    def cosign(self, text: str, seconds: int) -> Signature:
        """Return a witness's signature under a checkpoint's text and the Unix time `seconds`."""
        value = seconds.to_bytes(_TIME, "big") + self._key.sign(_text_to_cosign(text, seconds))
        return Signature(self.verifier.name, self.verifier.id, value)


def new_private() -> bytes:
    """Return a new private key. For Ed25519 any 32 bytes are a key."""
    return secrets.token_bytes(32)


@dataclass(frozen=True, slots=True)
class Note:
    """A text and the signatures under it."""

    text: str
    signatures: tuple[Signature, ...] = ()

    def __str__(self) -> str:
        return f"{self.text}\n{''.join(each.line() for each in self.signatures)}"

    def signature_of(self, key: VerifierKey) -> Signature | None:
        """Return the note's first signature by this key; None if the note has none.

        Raises BadNote if a signature with the name and the id of this key does not match the text.
        """
        signatures = [each for each in self.signatures if (each.name, each.key_id) == (key.name, key.id)]
        if not all(key.accepts(self.text, each) for each in signatures):
            raise BadNote(f"a signature of {key.name} does not match the text")
        return signatures[0] if signatures else None


def parse(text: str) -> Note:
    """Return the note that a text contains. Raises BadNote."""
    if len(text) > NOTE_MAX or _CONTROL.search(text):
        raise BadNote("a note is text without control characters, of at most a megabyte")
    body, between, lines = text.rpartition("\n\n")
    if not between or not lines:
        raise BadNote("a note is a text, an empty line and signatures")
    return Note(f"{body}\n", parse_signatures(lines))


def parse_signatures(lines: str) -> tuple[Signature, ...]:
    """Return the signatures in lines that each end with a newline. Raises BadNote."""
    *head, last = lines.split("\n")
    if last or not head:
        raise BadNote("each line of a signature ends with a newline")
    return tuple(map(_parse_signature, head))


def _parse_signature(line: str) -> Signature:
    match = _LINE.fullmatch(line)
    if match is None:
        raise BadNote(f"{line[:200]!r} is not the line of a signature")
    value = decode(match[2])
    if len(value) < 5:
        raise BadNote(f"the signature of {match[1]} is too short")
    return Signature(match[1], value[:4], value[4:])


def _text_to_cosign(text: str, seconds: int) -> bytes:
    return f"cosignature/v1\ntime {seconds}\n{text}".encode()
