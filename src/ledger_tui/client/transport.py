"""The layer over httpx: checks addresses and keys, and turns httpx's exceptions into ClientErrors.

Importing httpx takes a tenth of a second, so it is imported where a request is made, after the first paint.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from math import isfinite
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from ledger_client.parsing import parsed
from ledger_tui.client.errors import CannotSend, Unreachable, Unreadable

if TYPE_CHECKING:
    from ledger_client.answers import Client

_UNFIT = re.compile(r"[\s\x00-\x1f\x7f-\x9f?#\\]")
_SURROGATE = re.compile(rb"\\u[dD]|\xed[\xa0-\xbf]")
_PLAIN_NAME = re.compile(r"(?!xn--)[a-z0-9_.-]*[a-z]")
ANSWER_SECONDS_MAX = 60.0
ANSWER_BYTES_MAX = 16_000_000  # a list's page; more would be parsed for so long that keys wait
_NUMBER_LENGTH_MAX = 24  # the longest form of a float, such as -1.2345678901234567e-308
_FLOAT_MAX = 1e24
_LOOPBACK = ("127.0.0.1", "::1", "localhost")


def is_address(url: str) -> bool:
    """Return whether this is the http(s) address of a server that a request can be sent to."""
    try:
        parts = urlsplit(url)
        sound = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
        return bool(sound) and not _UNFIT.search(url) and "@" not in parts.netloc and _is_host(url)
    except ValueError:
        return False


def _is_host(url: str) -> bool:
    """Return whether httpx accepts the host of this URL; it is imported only for unusual ones."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if "[" not in parts.netloc and _PLAIN_NAME.fullmatch(host):
        return True
    import ipaddress

    try:
        ipaddress.ip_address(host)
        return True
    except ValueError:
        pass
    import httpx

    try:
        return bool(httpx.URL(url).host)  # reading the host decodes an internationalised name
    except (httpx.InvalidURL, ValueError):
        return False


def is_confidential(url: str) -> bool:
    """Return whether nobody can read the traffic: it is https, or stays on this machine."""
    parts = urlsplit(url)
    return parts.scheme == "https" or parts.hostname in _LOOPBACK


def is_key(text: str) -> bool:
    """Return whether this could be a bearer value: one word of printable ASCII."""
    return bool(text) and text.isascii() and text.isprintable() and " " not in text


def make_client(*, bytes_max: int | None = None, **settings: Any) -> Client:
    """Return a new client, which reads at most ANSWER_BYTES_MAX of an answer by default. Raises CannotSend.

    It reads the environment: proxies, which are not used for this machine's own addresses, and the
    certificates to trust.
    """
    import httpx

    from ledger_client.answers import Client

    direct = {f"all://{f'[{host}]' if ':' in host else host}": None for host in _LOOPBACK}
    try:
        return Client(
            bytes_max=bytes_max or ANSWER_BYTES_MAX, seconds_max=ANSWER_SECONDS_MAX, mounts=direct, **settings
        )
    except (httpx.InvalidURL, ValueError, OSError, ImportError) as error:
        raise CannotSend(f"Cannot connect: {error}") from error


@contextmanager
def transport_errors() -> Iterator[None]:
    """Raise Unreachable when no answer arrives, and CannotSend when no request can be made."""
    import httpx

    from ledger_client.answers import Unread

    try:
        yield
    except Unread as error:
        raise Unreadable(str(error)) from error
    except (httpx.HTTPError, httpx.StreamError) as error:
        raise Unreachable(_reason(error)) from error
    except (httpx.InvalidURL, ValueError) as error:  # among them UnicodeError and idna's errors
        raise CannotSend(f"The request cannot be sent: {error}") from error


def decoded(text: bytes | str) -> Any:
    """Return the value of a JSON text; None when it is not JSON, not UTF-8, nested too deeply or too large.

    Lone surrogates are replaced: no id or text that has them could be sent back, shown or stored.
    """
    try:
        found = parsed(text, number=_number) if text else None
        if _SURROGATE.search(text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")):
            plain = json.dumps(found, ensure_ascii=False).encode("utf-8", "surrogatepass")
            return parsed(plain.decode("utf-8", "replace"))
        return found
    except ValueError:
        return None


def _number(text: str) -> int | float | str:
    """Return a number of JSON, as text when it has too many digits for arithmetic with floats."""
    if len(text) > _NUMBER_LENGTH_MAX:
        return text
    try:
        return int(text)
    except ValueError:
        value = float(text)
        return value if isfinite(value) and abs(value) < _FLOAT_MAX else text


def _reason(error: BaseException) -> str:
    """Return in a few words why there was no answer."""
    import socket
    import ssl

    import httpx

    from ledger_client.event_stream import NotEvents

    if isinstance(error, httpx.TimeoutException):
        return "no answer in time"
    if isinstance(error, httpx.UnsupportedProtocol):
        return "not an http(s) address"
    if isinstance(error, NotEvents):
        return str(error)
    causes = list(_causes(error))
    for kind, words in (
        (ConnectionRefusedError, "connection refused"),
        (socket.gaierror, "no such host"),
        (ssl.SSLError, "no trusted TLS connection"),
    ):
        if any(isinstance(cause, kind) for cause in causes):
            return words
    return "cannot connect" if isinstance(error, httpx.ConnectError) else "connection lost"


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an exception and its causes; connecting tries several addresses and raises a group."""
    while error is not None:
        yield error
        if isinstance(error, BaseExceptionGroup):
            for inner in error.exceptions:
                yield from _causes(inner)
        error = error.__cause__ or error.__context__
