"""Parses the head of a request (its first line and headers), and refuses a head that could be read in two
ways.

The grammar is that of the library h11; `tests/ledger_engine/http/wire/test_head.py` compares this module with
h11. Where h11 is lenient about the end of a line, this module refuses the request.
"""

from __future__ import annotations

import re
from typing import NamedTuple

CHUNKED = -1  # stands for the length of a body that consists of chunks
TARGET_MAX = 8 * 1024  # bytes of path and query, even if the application would allow more
TOKEN = rb"[-!#$%&'*+.^_`|~0-9a-zA-Z]+"
VALUE = rb"[^\x00\n\v\f\r]*"  # matches a header's value with the spaces and tabs around it
_DIGITS_MAX = 4300  # digits of a Content-Length; Python converts no more digits to a number
# The quantifiers are possessive (`++`), so that refusing a text takes no longer than matching one.
_HEAD = re.compile(
    rb"(%b) ([\x21-\x7e]++) HTTP/([0-9]\.[0-9])\r\n((?:%b+:%b+\r\n)*+)\r\n" % (TOKEN, TOKEN, VALUE)
)
_REQUEST_LINE = re.compile(rb"%b [\x21-\x7e]+ HTTP/[0-9]\.[0-9]\r\n" % TOKEN)
_FOLD = re.compile(rb"\r\n[ \t]+")
_ABSOLUTE = re.compile(rb"https?://[^/?#]*", re.IGNORECASE)
_REQUEST_TARGET = re.compile(rb"\S* +(?:https?://[^/?#\s]*)?(/[\x21-\x7e]*)", re.IGNORECASE)

Headers = list[tuple[bytes, bytes]]


class BadRequest(Exception):
    """The request is not valid HTTP/1.1, or two readers could understand it differently."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class HeaderConflict(BadRequest):
    """A header occurs twice, but only one of its values can be right."""


class UnknownMethod(BadRequest):
    """The method is CONNECT, or is not in capital letters."""


class BodyTooLarge(BadRequest):
    """The Content-Length has too many digits, so the body would be too large."""


class TargetTooLong(BadRequest):
    """The request target is longer than the limit."""


class HeadTooLarge(BadRequest):
    """The head is longer than the limit."""


class AuthorizationTooLong(HeadTooLarge):
    """The head is longer than the limit, and the limit is reached within the Authorization header."""


class Head(NamedTuple):
    """The head of a request.

    `path` includes the query, the names of `headers` are in lower case, and `body` is the length of the body
    in bytes, or CHUNKED. If `refusal` is not None, the server refuses the request with this error.
    """

    method: str
    path: bytes
    version: str
    headers: Headers
    body: int
    keeps_open: bool  # whether another request may follow on the connection
    expects_continue: bool  # whether the client waits for 100 Continue before it sends the body
    refusal: BadRequest | None


def read_head(text: bytes) -> Head:
    """Return the head in `text`; `text` includes the empty line after the headers. Raises BadRequest."""
    match = _HEAD.fullmatch(text)
    refusal: BadRequest | None = None
    if match is None:
        # Some readers accept a bare LF and folded lines, and others do not (RFC 9112, 2.2 and 5.2). So the
        # server refuses a head that contains a bare LF or a folded line. This function still parses the head,
        # because the form of the answer depends on the path in the head.
        first, _, rest = text.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n").partition(b"\r\n")
        match = _HEAD.fullmatch(first + b"\r\n" + _FOLD.sub(b" ", rest))
        if match is None:
            raise invalid("illegal header line" if _REQUEST_LINE.match(text) else "illegal request line")
        refusal = BadRequest("Each line of a head must end in CRLF, and no line may be folded.")
    method, path, version, lines = match.groups()
    headers: Headers = []
    for line in lines.split(b"\r\n")[:-1]:
        name, _, value = line.partition(b":")
        headers.append((name.lower(), value.strip(b" \t")))
    by_name = dict(headers)
    if len(by_name) != len(headers):
        by_name = _join_values(headers)
    body, headers = _framing(by_name, headers)
    if version == b"1.1" and b"host" not in by_name:
        raise invalid("missing Host header")
    path = _path_of(path)
    may_go_on = version >= b"1.1"
    return Head(
        method.decode(),
        path,
        version.decode(),
        headers,
        body,
        may_go_on and b"close" not in _tokens(by_name.get(b"connection")),
        may_go_on and b"100-continue" in _tokens(by_name.get(b"expect")),
        refusal or _refusal(method, path, version),
    )


def guess_path(text: bytes) -> bytes:
    """Return the path in an unreadable head, or `/` if the head contains no path.

    The application needs the path, because the form of its error answers depends on the path.
    """
    target = _REQUEST_TARGET.match(text)
    return target[1] if target is not None else b"/"


def too_large(text: bytes) -> BadRequest:
    """Return the error for a head that exceeds the limit; `text` is the head up to the limit.

    The error names the part of the head in which the limit was reached.
    """
    earlier, _, last = text.rpartition(b"\n")
    if not earlier:
        return TargetTooLong("The URL is far too long.")
    if last[:14].lower() == b"authorization:":
        return AuthorizationTooLong("The Authorization header is far too large.")
    return HeadTooLarge("The headers are far too large.")


def invalid(reason: str, kind: type[BadRequest] = BadRequest) -> BadRequest:
    """Return the error for a request that breaks the grammar."""
    return kind(f"This is not valid HTTP/1.1: {reason}.")


def _join_values(headers: Headers) -> dict[bytes, bytes]:
    """Return the values by the name of the header; the values of a repeated header are joined by commas.

    Raises BadRequest for a header that must not be repeated.
    """
    by_name: dict[bytes, bytes] = {}
    for name, value in headers:
        if name in by_name:
            if name == b"host":
                raise invalid("multiple Host headers", HeaderConflict)
            if name == b"transfer-encoding":
                raise invalid("multiple Transfer-Encoding headers", HeaderConflict)
            value = by_name[name] + b"," + value
        by_name[name] = value
    return by_name


def _framing(by_name: dict[bytes, bytes], headers: Headers) -> tuple[int, Headers]:
    """Return the length of the body, or CHUNKED, and the headers with only one Content-Length."""
    body = 0
    value = by_name.get(b"content-length")
    if value is not None:
        length = value if value.isdigit() and len(value) <= _DIGITS_MAX else _one_length(value)
        if length is not value or len(by_name) != len(headers):
            place = [name for name, _ in headers].index(b"content-length")
            headers = [header for header in headers if header[0] != b"content-length"]
            headers.insert(place, (b"content-length", length))
        body = int(length)
    value = by_name.get(b"transfer-encoding")
    if value is not None:
        if value.lower() != b"chunked":
            raise invalid("only Transfer-Encoding: chunked is supported")
        headers = [
            (name, b"chunked") if name == b"transfer-encoding" else (name, value) for name, value in headers
        ]
        body = CHUNKED
    return body, headers


def _one_length(value: bytes) -> bytes:
    """Return the length in a Content-Length that is sent repeatedly or has more digits than _DIGITS_MAX.

    The result has no leading zeros. Raises BadRequest if the repeated lengths differ, if the length is not a
    number, or if it has too many digits even without leading zeros.
    """
    lengths = {length.strip() for length in value.split(b",")}
    if len(lengths) > 1:
        raise invalid("conflicting Content-Length headers", HeaderConflict)
    length = lengths.pop()
    if not length.isdigit():
        raise invalid("bad Content-Length")
    length = length.lstrip(b"0") or b"0"
    if len(length) > _DIGITS_MAX:
        raise BodyTooLarge("The Content-Length has too many digits.")
    return length


def _tokens(value: bytes | None) -> list[bytes]:
    return [] if value is None else [token.strip() for token in value.lower().split(b",")]


def _path_of(target: bytes) -> bytes:
    if not target.startswith(b"/") and _ABSOLUTE.match(target):
        target = _ABSOLUTE.sub(b"", target, count=1)
        return target if target.startswith(b"/") else b"/" + target
    return target


def _refusal(method: bytes, path: bytes, version: bytes) -> BadRequest | None:
    """Return the error for a request that can be read but must be refused; None for an acceptable request."""
    if version not in (b"1.1", b"1.0"):
        return BadRequest("This server speaks HTTP/1.1.")
    if method == b"CONNECT" or not method.isupper():
        # Methods are case-sensitive (RFC 9110, 9.1), but many frameworks would treat `get` as `GET`.
        return UnknownMethod("The method must be in capital letters. CONNECT is not supported.")
    if path[:1] != b"/":
        return BadRequest("The request must be for a path, like /v1/accounts.")
    if len(path) > TARGET_MAX:
        return TargetTooLong(f"The URL is longer than {TARGET_MAX} bytes.")
    return None
