"""Decides which URLs can be registered for webhooks, and to which hosts a webhook may be sent.

See docs/decisions.md#webhooks-urls.

Live mode sends only over https and only to the public internet. Test mode also sends to this machine, over
http or https. When a URL is registered, the URL and the addresses of its host are checked. The addresses are
checked again for each connection, because a name can resolve to another address later.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from ledger_engine.core.errors import InvalidRequest

URL_MAX = 2048
_PORTS = {"http": 80, "https": 443}
_LABEL = r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
_NAME_PATTERN = rf"{_LABEL}(?:\.{_LABEL})*\.?"
_NAME = re.compile(_NAME_PATTERN)
# A pattern for JSON Schema that matches every URL that `parse_url` accepts.
URL_PATTERN = (
    rf"^[Hh][Tt][Tt][Pp][Ss]?://({_NAME_PATTERN}|\[[0-9A-Fa-f:.]+\])(:[0-9]*)?([/?][!$-;=?-\[\]_a-z~]*)?$"
)
# Hosts that resolvers read as a number although they do not look like an address: 2130706433, 0x7f.1, 127.1.
_NUMBER = re.compile(r"(?:[0-9]+|0[xX][0-9a-fA-F]*)")

_PUBLIC_V6 = ipaddress.IPv6Network("2000::/3")
# IANA's special-purpose registries (RFC 6890 and its updates), except loopback.
_RESERVED_V4 = [
    ipaddress.IPv4Network(network)
    for network in (
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.31.196.0/24",
        "192.52.193.0/24",
        "192.88.99.0/24",
        "192.168.0.0/16",
        "192.175.48.0/24",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/4",
        "240.0.0.0/4",
    )
]
# Reserved ranges within 2000::/3; every address outside of 2000::/3 is refused. An address that contains an
# IPv4 address could lead to a private network. Such addresses are 6to4 (2002::/16) and Teredo (in 2001::/23),
# and outside of 2000::/3 also IPv4-mapped addresses and NAT64 (64:ff9b::/96).
_RESERVED_V6 = [
    ipaddress.IPv6Network(network) for network in ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")
]


@dataclass(frozen=True, slots=True)
class ParsedUrl:
    """A URL split into the parts that a connection needs. `path` includes the query."""

    host: str
    port: int
    tls: bool
    path: str

    @property
    def host_header(self) -> str:
        """Return the value of the Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.tls else 80) else f"{host}:{self.port}"


def parse_url(url: str, *, livemode: bool) -> ParsedUrl:
    """Return the parts of a URL that may be registered. Raises InvalidRequest.

    A numeric host is refused unless it is an IP address in its usual form, so that the server connects to the
    address that a person reads in the URL. Host names are not resolved here.
    """
    if (
        not 1 <= len(url) <= URL_MAX
        or not url.isascii()
        or any(c <= " " or c in '\\"<>^`{|}\x7f' for c in url)
    ):
        raise _invalid_url(f"must be an http(s) address of at most {URL_MAX} printable ASCII characters")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise _invalid_url("is not an address that can be connected to") from error
    scheme = parts.scheme.lower()
    if scheme not in _PORTS:
        raise _invalid_url("must begin with https:// (in test mode also http:// on this machine)")
    if scheme == "http" and livemode:
        raise _invalid_url("must begin with https:// in live mode")
    if "@" in parts.netloc or "#" in url:
        raise _invalid_url("must not contain a user name, password or fragment")
    if port == 0:
        raise _invalid_url("must not use port 0")
    host = (parts.hostname or "").lower()
    _check_host(host, parts.netloc.startswith("["), tls=scheme == "https", livemode=livemode)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return ParsedUrl(host, port or _PORTS[scheme], scheme == "https", path)


def check_resolved(addresses: list[str], target: ParsedUrl, *, livemode: bool) -> None:
    """Raise InvalidRequest if one of `addresses`, the addresses of a host name, must not receive webhooks.

    A name without an address is accepted for https, because the name is resolved again for each connection.
    """
    if not addresses and not target.tls:
        raise _invalid_url("may begin with http:// only for a name of this machine, such as localhost")
    for address in addresses:
        reason = refusal(address, tls=target.tls, livemode=livemode)
        if reason is not None:
            raise _invalid_url(f"leads to {address}: {reason}")


def refusal(address: str, *, tls: bool, livemode: bool) -> str | None:
    """Return the reason why nothing may be sent to this IP address; None if sending is allowed."""
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        return "it is not an IP address"
    if ip.is_loopback and not (isinstance(ip, ipaddress.IPv6Address) and ip.ipv4_mapped is not None):
        return "this machine itself is allowed in test mode only" if livemode else None
    if isinstance(ip, ipaddress.IPv6Address):
        public = ip in _PUBLIC_V6 and not any(ip in network for network in _RESERVED_V6)
    else:
        public = not any(ip in network for network in _RESERVED_V4)
    if not public:
        return "it is not a public address"
    return None if tls else "plain http goes to this machine only"


def is_address(host: str) -> bool:
    """Return whether the host of a URL is an IP address rather than a name."""
    return ":" in host or _NUMBER.fullmatch(host.rstrip(".").rpartition(".")[2]) is not None


def _check_host(host: str, in_brackets: bool, *, tls: bool, livemode: bool) -> None:
    if not in_brackets and not _NAME.fullmatch(host):
        raise _invalid_url("has no valid host name (write an international one as xn--…)")
    if not in_brackets and not is_address(host):
        return
    if "%" in host:
        raise _invalid_url("must not name a network interface")
    try:
        is_usual_form = str(ipaddress.ip_address(host)) == host or in_brackets
    except ValueError:
        is_usual_form = False
    if not is_usual_form:
        raise _invalid_url("must write an address as four decimal numbers or as IPv6 in brackets")
    reason = refusal(host, tls=tls, livemode=livemode)
    if reason is not None:
        raise _invalid_url(f"leads to {host}: {reason}")


def _invalid_url(reason: str) -> InvalidRequest:
    return InvalidRequest("invalid_value", f"url {reason}.", "url")
