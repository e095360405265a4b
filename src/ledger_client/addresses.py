"""Checks addresses and keys before a request. httpx is imported only to check an unusual host name."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

_UNFIT = re.compile(r"[\s\x00-\x1f\x7f-\x9f?#\\]")
_PLAIN_NAME = re.compile(r"(?!xn--)[a-z0-9_.-]*[a-z]")
LOOPBACK = ("127.0.0.1", "::1", "localhost")


def root_of(url: str) -> str:
    """Return a server's URL without a final `/v1`, because each path of a request begins with `/v1`."""
    return url.rstrip("/").removesuffix("/v1").rstrip("/")


def is_address(url: str) -> bool:
    """Return whether this text is an http or https address to which httpx can send a request."""
    try:
        parts = urlsplit(url)
        sound = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
        return bool(sound) and not _UNFIT.search(url) and "@" not in parts.netloc and _is_host(url)
    except ValueError:
        return False


def _is_host(url: str) -> bool:
    """Return whether httpx accepts the host of this URL."""
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
        # `host` decodes an internationalised name, and raises InvalidURL for a wrong one
        return bool(httpx.URL(url).host)
    except (httpx.InvalidURL, ValueError):
        return False


def is_confidential(url: str) -> bool:
    """Return whether nobody on the network can read the traffic: the URL is https or names this machine."""
    parts = urlsplit(url)
    return parts.scheme == "https" or parts.hostname in LOOPBACK


def is_key(text: str) -> bool:
    """Return whether this text can be sent as a key: printable ASCII without spaces."""
    return bool(text) and text.isascii() and text.isprintable() and " " not in text
