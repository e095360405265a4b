"""The server's socket, its URL, the settings of its connections, and its messages to systemd."""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
from pathlib import Path

from hypercorn.config import Config

from ledger_engine.core.settings import BadSettings, ServeSettings
from ledger_engine.http.wire.tcp import HEAD_BUFFER, UNSENT_MAX

# How many new connections the system queues while the server is busy; the system's own limit may be lower.
BACKLOG = 4096
# A connection is closed if, for this many seconds, the client sends no request or does not complete the
# headers of a request.
IDLE_S = 30


def configure(settings: ServeSettings) -> Config:
    """Return the settings for Hypercorn. Raises BadSettings for a certificate that cannot be used."""
    config = Config()
    config.loglevel = "WARNING"
    config.backlog = BACKLOG
    config.keep_alive_timeout = IDLE_S
    config.include_server_header = False
    if settings.certfile is not None:
        config.certfile = str(settings.certfile)
        config.keyfile = str(settings.keyfile)
        _read_pem("--certfile", config.certfile)
        if "ENCRYPTED" in _read_pem("--keyfile", config.keyfile):
            raise BadSettings(f"--keyfile {config.keyfile} is encrypted: give the key without a password.")
        try:
            config.create_ssl_context()
        except ssl.SSLError as error:
            raise BadSettings(_why_unusable(config.certfile, config.keyfile, error)) from error
    return config


def listen(host: str, port: int) -> socket.socket:
    """Return a bound socket. Raises OSError with a full sentence if the address cannot be bound."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except OSError as error:
        raise OSError(f"Cannot listen on {host}: {error.strerror}.") from error
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, HEAD_BUFFER)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, UNSENT_MAX)
        listener.bind(address)
    except OSError as error:
        listener.close()
        raise cannot_listen(host, port, error) from error
    return listener


def cannot_listen(host: str, port: int, error: OSError) -> OSError:
    """Return an OSError whose message is a full sentence with the address and the reason."""
    return OSError(
        f"Cannot listen on {host} port {port}: {error.strerror}."
        " Choose another port with --port; 0 means any free port."
    )


def url_of(settings: ServeSettings, listener: socket.socket) -> str:
    """Return the URL at which the server can be reached."""
    return f"{settings.scheme}://{in_url(settings.host)}:{listener.getsockname()[1]}"


def in_url(host: str) -> str:
    """Return a host in the form that a URL requires: an IPv6 address in brackets."""
    return f"[{host}]" if ":" in host else host


def _read_pem(option: str, file: str) -> str:
    """Return the text of a PEM file. Raises BadSettings if the file cannot be read."""
    try:
        return Path(file).read_text(encoding="latin-1")
    except OSError as error:
        raise BadSettings(f"{option} {file} cannot be read: {error.strerror}.") from error


def _why_unusable(certfile: str, keyfile: str, error: ssl.SSLError) -> str:
    """Return a sentence that names the file that OpenSSL cannot use, and gives the reason."""
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_verify_locations(certfile)
    except ssl.SSLError:
        return f"--certfile {certfile} contains no readable certificate; it must be a PEM file."
    if error.reason == "KEY_VALUES_MISMATCH":
        return f"--keyfile {keyfile} does not match the certificate in {certfile}."
    if "PEM" in str(error):
        return f"--keyfile {keyfile} contains no readable private key; it must be a PEM file."
    return f"--certfile {certfile} and --keyfile {keyfile} cannot be used: {error.reason or error}."


def tell_systemd(state: str) -> None:
    """Report a state such as `READY=1` to systemd (sd_notify(3)).

    Do nothing if NOTIFY_SOCKET is not set: systemd then expects no reports.
    """
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    if address.startswith("@"):  # an abstract socket, without a file
        address = f"\0{address[1:]}"
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.sendto(state.encode(), address)
