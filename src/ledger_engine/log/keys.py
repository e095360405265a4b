"""The key that signs all logs of a ledger, and the former keys of the ledger."""

from __future__ import annotations

from dataclasses import dataclass

from ledger_engine.core.errors import Conflict
from ledger_engine.core.tenant import mode_name
from ledger_engine.events.webhooks.signing import Seal, WrongKey
from ledger_engine.log import notes
from ledger_engine.log.entries import LoggedBook
from ledger_engine.log.notes import BadNote, SigningKey, VerifierKey
from ledger_engine.store import Row, Unit

_CURRENT = (
    "SELECT id, name, secret, public_key, created FROM log_keys WHERE id = (SELECT max(id) FROM log_keys)"
)


class BrokenKey(WrongKey):
    """The stored private key does not belong to the stored public key: somebody has changed one of them."""


@dataclass(frozen=True, slots=True)
class LogKey:
    """The key that signs now. `secret` is the private key in its stored form (see `Seal`).

    The origin of each log begins with `name`.
    """

    id: int
    name: str
    secret: str
    public: str
    created: int

    def private(self, seal: Seal) -> bytes:
        """Return the private key.

        Raises WrongKey if `seal` cannot open the stored private key, and BrokenKey if the private key does
        not belong to the public key.
        """
        try:
            private = notes.decode(seal.open(self.secret))
            public = SigningKey(self.name, notes.LOG, private).verifier.public
        except (BadNote, ValueError):
            public = b""
        if notes.encode(public) != self.public:
            raise BrokenKey(
                "its secret in log_keys does not belong to its public key. Restore a backup, or make a new"
                " key with `ledger-engine log-key rotate`."
            )
        return private

    def of(self, book: LoggedBook, seal: Seal) -> SigningKey:
        """Return the signing key with the origin of a book's log as its name. Raises WrongKey."""
        return SigningKey(origin_of(self.name, book), notes.LOG, self.private(seal))


@dataclass(frozen=True, slots=True)
class PublicKey:
    """A current or former public key of a book's log.

    `retired_at` is the time at which another key replaced this key; None for the current key.
    """

    verifier: VerifierKey
    created: int
    retired_at: int | None


def origin_of(name: str, book: LoggedBook) -> str:
    return f"{name}/{book.project}/{mode_name(book.livemode)}"


def current(unit: Unit) -> LogKey | None:
    """Return the current key; None if no server has served the ledger yet."""
    row = unit.first(_CURRENT)
    if row is None:
        return None
    return LogKey(row["id"], row["name"], row["secret"], row["public_key"], row["created"])


def add(unit: Unit, name: str, private: bytes, seal: Seal) -> LogKey:
    """Store this key as the first key, unless another server was faster; return the current key."""
    key = current(unit)
    return key if key is not None else _insert(unit, 1, name, private, seal)


def rotate(unit: Unit, private: bytes, seal: Seal) -> LogKey:
    """Replace the current key by a new key, and destroy the secret of the former key."""
    before = require(unit)
    unit.execute(
        "UPDATE log_keys SET secret = NULL, retired_at = :now WHERE id = :id",
        {"now": unit.now, "id": before.id},
    )
    return _insert(unit, before.id + 1, before.name, private, seal)


def seal_secret(unit: Unit, seal: Seal) -> None:
    """Encrypt the secret of the log's key with the present key of `seal`.

    If the secret is already encrypted with this key, do nothing.
    """
    key = current(unit)
    if key is not None and (secret := seal.reseal(key.secret)) is not None:
        unit.execute("UPDATE log_keys SET secret = :secret WHERE id = :id", {"secret": secret, "id": key.id})


def require(unit: Unit) -> LogKey:
    """Return the current key. Raises Conflict if no server has served the ledger yet."""
    key = current(unit)
    if key is None:
        raise Conflict("not_sealed_yet", "The log has no key yet: the first `ledger-engine serve` makes it.")
    return key


def public(unit: Unit, book: LoggedBook) -> list[PublicKey]:
    """Return the public keys of a book's log, newest first."""
    rows: list[Row] = unit.execute(
        "SELECT name, public_key, created, retired_at FROM log_keys ORDER BY id DESC"
    )
    return [
        PublicKey(
            VerifierKey(origin_of(row["name"], book), notes.LOG, notes.decode(row["public_key"])),
            row["created"],
            row["retired_at"],
        )
        for row in rows
    ]


def _insert(unit: Unit, id: int, name: str, private: bytes, seal: Seal) -> LogKey:
    secret = seal.seal(notes.encode(private))
    public = notes.encode(SigningKey(name, notes.LOG, private).verifier.public)
    unit.execute(
        "INSERT INTO log_keys (id, name, public_key, secret, created)"
        " VALUES (:id, :name, :public_key, :secret, :now)",
        {
            "id": id,
            "name": name,
            "public_key": public,
            "secret": secret,
            "now": unit.now,
        },
    )
    return LogKey(id, name, secret, public, unit.now)
