"""The settings with which a server starts, and the default path of the database."""

from __future__ import annotations

import ipaddress
import re
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from ledger_engine.core.errors import StorageUnavailable

PORT = 8700
_ISSUER = re.compile(
    r"(?P<scheme>https?)://(?P<host>[A-Za-z0-9\-._]+|\[[0-9A-Fa-f:.]+\])(:(?P<port>[0-9]{1,5}))?/?"
)
_ORIGIN = re.compile(r"(?P<scheme>https?)://([a-z0-9\-._]+|\[[0-9a-f:]+\])(:(?P<port>[1-9][0-9]{0,4}))?")
_TEST_KEY = re.compile(r"sk_test_[A-Za-z0-9]{32}")
_LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
# See docs/decisions.md#webhooks-retries.
WEBHOOK_RETRIES_S = (5.0, 300.0, 1_800.0, 7_200.0, 18_000.0, 36_000.0, 36_000.0)
# A demo does not run for hours, so it retries its webhooks after shorter waits.
DEMO_WEBHOOK_RETRIES_S = (4.0, 8.0, 15.0, 30.0)


class BadSettings(ValueError):
    """An impossible setting, or two settings that exclude each other. The message says what to change."""


# The place of a ledger: a SQLite file, or the address of a PostgreSQL database.
Location: TypeAlias = Path | str
_POSTGRES = ("postgresql://", "postgres://")


def is_url(text: str) -> bool:
    """Return whether this is the address of a PostgreSQL database and not the path of a file."""
    return text.startswith(_POSTGRES)


def named(database: Location) -> str:
    """Return the place of the ledger for a message: a path, or an address without the password."""
    if isinstance(database, Path):
        return str(database)
    text = re.sub(r"//([^:@/]*):[^/]*@", r"//\1@", database, count=1)
    return re.sub(r"(?<=[?&])password=[^&]*&?", "", text).rstrip("?&")


@dataclass(frozen=True, slots=True)
class ServeSettings:
    """The settings of one server process.

    - `database` is None for a demo: the demo creates a file, and removes it at the end.
    - `trusted_proxies` is the number of proxies in front of the server. Each of these proxies must append the
      address of its client to `X-Forwarded-For`.
    - `issuer` is the address by which apps know the server. If `issuer` is None, the issuer is the address
      to which a request was sent.
    - `auth_per_minute` and `auth_per_second` limit each client address at the authentication endpoints.
    - `webhook_retries_s` are the seconds to wait before each further attempt to send a webhook.
    - `embedded` is true if a dashboard started this server for its own use.
    - `api_key` is a test key that the server creates in the first project.
    - `cors_origins` are the origins of web pages that may read the answers.
    - With `accept_loss` the server uses a PostgreSQL database even if acknowledged changes are missing there.
    - `metrics` is the address and port of the listener for metrics.
    - With `test_helpers`, a test key with the role owner can move the clock, break connections and empty its
      project.
    - `backup_to` is a folder: the server makes a backup there every `backup_every_s` seconds, and deletes all
      backups but the newest `backup_keep`.
    - `seed` is the name or file of a data set, which the server loads into an empty ledger. With `seed`, the
      server also creates an API key if the ledger has none.
    - `checkpoint_to` are folders for checkpoints of the log. `witnesses` are the URLs of the witnesses that
      sign the checkpoints, and `witness_keys` their keys in the same order.
    """

    database: Location | None
    host: str = "127.0.0.1"
    port: int = PORT
    certfile: Path | None = None
    keyfile: Path | None = None
    insecure: bool = False
    trusted_proxies: int = 0
    issuer: str | None = None
    auth_per_minute: int = 20
    auth_per_second: int = 5
    webhook_retries_s: tuple[float, ...] = WEBHOOK_RETRIES_S
    embedded: bool = False
    accept_loss: bool = False
    api_key: str | None = None
    cors_origins: tuple[str, ...] = ()
    metrics: tuple[str, int] | None = None
    log_format: str = "text"
    log_level: str = "warning"
    test_helpers: bool = False
    backup_to: Path | None = None
    backup_every_s: float = 3600.0
    backup_keep: int = 24
    seed: str | None = None
    checkpoint_to: tuple[Path, ...] = ()
    witnesses: tuple[str, ...] = ()
    witness_keys: tuple[str, ...] = ()

    def check(self) -> None:
        """Raise BadSettings for settings with which no server may start (docs/decisions.md#conventions)."""
        if (self.certfile is None) != (self.keyfile is None):
            raise BadSettings("--certfile and --keyfile go together: TLS needs both.")
        if self.certfile is None and not self.insecure and not _is_loopback(self.host):
            raise BadSettings(
                f"Other machines can reach {self.host}. Without TLS, keys and data would cross the network"
                " in clear. Give --certfile and --keyfile, or --insecure if you accept this."
            )
        if self.api_key is not None and _TEST_KEY.fullmatch(self.api_key) is None:
            # Leave the value out of the message: it may be a live key.
            is_live = self.api_key.startswith("sk_live_")
            raise BadSettings(
                "--api-key takes test keys only, because everybody who can read the settings knows it."
                if is_live
                else "--api-key must be sk_test_ followed by 32 ASCII letters or digits."
            )
        if self.metrics is not None and not self.insecure and not _is_loopback(self.metrics[0]):
            raise BadSettings(
                f"Other machines can reach --metrics {self.metrics[0]}, without a key and without TLS."
                " Give --insecure if you accept this."
            )
        if self.metrics is not None and self.port and self.metrics[1] == self.port:
            self._check_metrics(*self.metrics)
        for origin in self.cors_origins:
            _check_origin(origin)
        if self.accept_loss and not isinstance(self.database, str):
            raise BadSettings("--accept-loss is for PostgreSQL: a file has no failover.")
        if self.seed is not None and self.database is None:
            raise BadSettings("--demo loads a data set of its own; leave out --seed.")
        if self.backup_to is not None and self.database is None:
            raise BadSettings("--demo deletes its data at the end; leave out --backup-to.")
        if self.backup_to is not None and isinstance(self.database, str):
            raise BadSettings(
                "--backup-to is for a SQLite file; use pg_dump for PostgreSQL, and run `ledger-engine verify`"
                " on the restored database."
            )
        if self.test_helpers and isinstance(self.database, str):
            raise BadSettings("--test-helpers works on a SQLite file; leave it out with PostgreSQL.")
        if self.test_helpers and not self.insecure and not _is_loopback(self.host):
            raise BadSettings(
                f"Other machines can reach {self.host}. With --test-helpers everybody with a test key can"
                " move the clock and empty the ledger. Give --insecure if you accept this."
            )
        if self.issuer is not None:
            self._check_issuer(self.issuer)
        if len(self.witnesses) != len(self.witness_keys):
            raise BadSettings("--witness and --witness-key go together: one key for each witness.")

    def _check_metrics(self, host: str, port: int) -> None:
        """Raise BadSettings if the listener for metrics would use the server's address and port."""
        theirs, ours = _addresses(host), _addresses(self.host)
        if theirs & ours or any(address.is_unspecified for address in theirs | ours):
            raise BadSettings(
                f"--metrics {host}:{port} is the server's own address (--host {self.host} and --port {port})."
                " Give the metrics another port."
            )

    def _check_issuer(self, issuer: str) -> None:
        match = _ISSUER.fullmatch(issuer)
        if match is None or (match["port"] and not 1 <= int(match["port"]) <= 65535):
            raise BadSettings(f"--issuer {issuer!r} must be like https://ledger.example, without a path.")
        if match["scheme"] == "http" and match["host"] not in _LOOPBACK and not self.insecure:
            raise BadSettings(
                "--issuer must begin with https://: apps send codes and tokens there. Use --insecure if http"
                " is meant."
            )

    @property
    def log_name(self) -> str | None:
        """Return the host in `issuer`, or None. The origins of the server's logs begin with this host."""
        match = _ISSUER.fullmatch(self.issuer or "")
        return None if match is None else match["host"]

    @property
    def scheme(self) -> str:
        return "http" if self.certfile is None else "https"


def default_database() -> Path:
    """Return the path of `ledger.db` in the user's data directory.

    Raises StorageUnavailable for a user without a home directory, such as systemd's `DynamicUser=`.
    """
    # Imported here, because few servers need it: most name their database.
    from platformdirs import user_data_path

    try:
        return user_data_path("ledger-engine", appauthor=False) / "ledger.db"
    except RuntimeError as error:
        raise StorageUnavailable("the user has no home directory; name the database") from error


def make_folder(database: Location) -> None:
    """Create the folder of `database` if it is the default database; only the user can read this folder.

    The folder of any other database must exist, because to create it would hide a mistyped path. Raises
    StorageUnavailable if that folder is missing, or if the default folder cannot be created.
    """
    if isinstance(database, str) or database.parent.is_dir():
        return
    if database != default_database():
        raise StorageUnavailable(f"there is no folder {database.parent}")
    try:
        database.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise StorageUnavailable(
            f"the folder {database.parent} for your ledger cannot be created ({error.strerror}); name another"
            " database with --database or LEDGER_DATABASE"
        ) from error


def _check_origin(origin: str) -> None:
    """Raise BadSettings unless a browser can send exactly this text in `Origin`."""
    match = _ORIGIN.fullmatch(origin)
    if match is None or (match["port"] and not 1 <= int(match["port"]) <= 65535):
        raise BadSettings(
            f"--cors-origin {origin!r} must be one origin as browsers send it, in small letters and without a"
            " path or a final slash, like https://app.example or http://localhost:3000."
        )
    if match["port"] == {"http": "80", "https": "443"}[match["scheme"]]:
        raise BadSettings(f"--cors-origin {origin!r} must leave out its port, as browsers do.")


def _is_loopback(host: str) -> bool:
    return all(address.is_loopback for address in _addresses(host))


def _addresses(host: str) -> set[ipaddress.IPv4Address | ipaddress.IPv6Address]:
    """Return the addresses of a host. Raises BadSettings if there are none."""
    try:
        entries = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not a host name"
        raise BadSettings(f"{host!r} is not an address of this machine: {reason}.") from error
    return {ipaddress.ip_address(str(entry[4][0]).partition("%")[0]) for entry in entries}
