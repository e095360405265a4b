"""What a server is told at its start, and where a database is when nobody says."""

from __future__ import annotations

import ipaddress
import socket
from dataclasses import dataclass
from pathlib import Path

from ledger_engine.core.errors import StorageUnavailable

PORT = 8700
WEBHOOK_RETRIES_S = (5.0, 300.0, 1_800.0, 7_200.0, 18_000.0, 36_000.0, 36_000.0)  # decisions.md 12


class BadSettings(ValueError):
    """A setting that cannot be, or two that cannot be together; the text says what to do."""


@dataclass(frozen=True, slots=True)
class ServeSettings:
    """`database` is None for a demo, which makes and removes its own.

    `trusted_proxies` is the number of proxies in front, each of which appends to `X-Forwarded-For`.
    `auth_per_minute` and `auth_per_second` limit the authentication endpoints per client address.
    `webhook_retries_s` are the waits before each further attempt to send a webhook, in seconds.
    `embedded` is the mode in which a dashboard runs a server for itself.
    """

    database: Path | None
    host: str = "127.0.0.1"
    port: int = PORT
    certfile: Path | None = None
    keyfile: Path | None = None
    insecure: bool = False
    trusted_proxies: int = 0
    auth_per_minute: int = 20
    auth_per_second: int = 5
    webhook_retries_s: tuple[float, ...] = WEBHOOK_RETRIES_S
    embedded: bool = False

    def check(self) -> None:
        """Raise BadSettings for what must not be served like this (decisions.md 1)."""
        if (self.certfile is None) != (self.keyfile is None):
            raise BadSettings("--certfile and --keyfile go together: TLS needs both.")
        if self.certfile is None and not self.insecure and not _is_loopback(self.host):
            raise BadSettings(
                f"{self.host} can be reached from other machines, and without TLS keys and data would cross"
                " the network in clear. Give --certfile and --keyfile, or --insecure if that is meant."
            )

    @property
    def scheme(self) -> str:
        return "http" if self.certfile is None else "https"


def default_database() -> Path:
    """`ledger.db` in the user's data directory."""
    # Asked for only when nobody names a database.
    from platformdirs import user_data_path

    return user_data_path("ledger-engine", appauthor=False) / "ledger.db"


def make_folder(database: Path) -> None:
    """Make the folder of the default database, for the user alone; nobody else's: that would hide a slip.

    Raises StorageUnavailable when there is none.
    """
    if database == default_database():
        database.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    elif not database.parent.is_dir():
        raise StorageUnavailable(f"there is no folder {database.parent}")


def _is_loopback(host: str) -> bool:
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError as error:
        raise BadSettings(f"{host!r} is no address of this machine: {error.strerror}.") from error
    return all(ipaddress.ip_address(str(each[4][0]).partition("%")[0]).is_loopback for each in found)
