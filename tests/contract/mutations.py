"""Requests with random faults, from the start line to the last byte of the body."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from typing import Any

TARGETS = [
    ("GET", "/v1/accounts"),
    ("POST", "/v1/accounts"),
    ("GET", "/v1/accounts/acc_none"),
    ("GET", "/v1/accounts/acc_none/statement"),
    ("GET", "/v1/transactions"),
    ("POST", "/v1/transactions"),
    ("POST", "/v1/transactions/batch"),
    ("POST", "/v1/invoices"),
    ("PATCH", "/v1/invoices/inv_none"),
    ("DELETE", "/v1/invoices/inv_none"),
    ("GET", "/v1/requests"),
    ("GET", "/v1/none"),
    ("POST", "/v1/auth/token"),
    ("GET", "/api/health"),
    ("GET", "/api/users"),
    ("POST", "/api/users"),
    ("GET", "/api/orders"),
    ("POST", "/api/orders"),
    ("POST", "/oauth/token"),
    ("GET", "/oauth/authorize"),
]
METHODS = ["HEAD", "PUT", "OPTIONS", "TRACE", "CONNECT", "get", "PRI", "", "G\0T", "G" * 300]
VERSIONS = [
    "HTTP/1.0",
    "HTTP/0.9",
    "HTTP/2.0",
    "HTTP/1.10",
    "http/1.1",
    "HTTP/1.1 ",
    "",
    "HTTP/\u00b9.1",
    "ICY",
]
PATHS = [
    "//v1",
    "/..",
    "/%2e%2e/",
    "/%00",
    "/%",
    "/%ff",
    "/v1/accounts/",
    "/v1;x",
    "*",
    "http://a/v1/x",
    "/#a",
    "/a b",
]
VALUES = [
    "",
    "0",
    "-1",
    "05",
    "1e3",
    "\u0661",
    "101",
    "99999999999999999999",
    "a" * 9000,
    "%00",
    "%zz",
    "%F0%9F%98%80",
    "a&limit=1",
]
PARAMETERS = [
    "limit",
    "starting_after",
    "ending_before",
    "type",
    "created_after",
    "cursor",
    "page",
    "per_page",
    "x",
    "",
]
HEADERS = [
    *[
        "Content-Length: 0",
        "Content-Length: 5",
        "Content-Length: +5",
        "Content-Length: 5, 5",
        "Content-Length: ",
    ],
    *[
        "Content-Length: 99999999999999999999999",
        "Content-Length: -0",
        "Content-Length: 1_0",
        "Content-Length : 5",
    ],
    *["Transfer-Encoding: chunked", "Transfer-Encoding: identity", "Transfer-Encoding: chunked, chunked"],
    *[
        "Transfer-Encoding:\x0bchunked",
        "Transfer-Encoding: gzip",
        "TE: trailers",
        "Trailer: X",
        "Expect: 100-continue",
    ],
    *[
        "Expect: x",
        "Connection: close",
        "Connection: keep-alive, upgrade",
        "Upgrade: h2c",
        "HTTP2-Settings: AA",
    ],
    *[
        "Upgrade: websocket",
        "Host: b",
        "Host: ",
        "Host: a/b",
        "Host: a@b",
        "Host: [::1",
        "Authorization: Basic YTpi",
    ],
    *[
        "Authorization: Bearer",
        "Authorization: bearer x",
        "Authorization: Bearer sk_test_" + "A" * 32,
        "Authorization: ",
    ],
    *[
        "Authorization: Bearer at_" + "\u00e9" * 32,
        "Content-Type: text/plain",
        "Content-Type: application/json;;=",
        "Content-Type: ",
    ],
    *["Content-Type: multipart/form-data; boundary=b", "Content-Type: multipart/form-data; boundary*=x''%zz"],
    *[
        "Content-Type: application/x-www-form-urlencoded",
        "Content-Encoding: gzip",
        "Idempotency-Key: ",
        "Idempotency-Key: \u00e9",
    ],
    *[
        "Idempotency-Key: " + "k" * 256,
        "Accept: text/csv",
        "Accept: text/html",
        "Accept: ;;",
        "X-Forwarded-For: a, b",
        "Range: bytes=0-",
    ],
    *[
        ": x",
        "X",
        "X : y",
        " folded",
        "X: \x00",
        "X: \x7f",
        "X: " + "x" * 17000,
        "Cookie: a=b",
        "X-HTTP-Method-Override: DELETE",
    ],
]
JSON = [
    None,
    True,
    0,
    -1,
    1.5,
    2**53,
    10**400,
    "",
    "\ud800",
    "\0",
    "x" * 300,
    [],
    [[]],
    {},
    {"a": {"b": []}},
    [None] * 1001,
]
BODIES = [
    b"",
    b"{",
    b"[]",
    b"null",
    b"{}{}",
    b"\xef\xbb\xbf{}",
    b'{"a":1,"a":1}',
    b"[" * 5000,
    b'{"a":NaN}',
    b'{"a":1e999}',
    b'{"\\ud800":1}',
]
CHUNKS = [
    b"0\r\n\r\n",
    b"5\r\nhello\r\n0\r\n\r\n",
    b"g\r\n",
    b"-1\r\n\r\n",
    b"5;a=\rb\r\nhello\r\n0\r\n\r\n",
    b"2\r\n{}\n0\r\n\r\n",
    b"ffffffffffffffffffff1\r\n",
    b"2\r\n{}\r\n0\r\nX: y\r\n\r\n",
]
BYTES = [
    b"\r",
    b"\n",
    b"\r\n",
    b"\0",
    b"\t",
    b" ",
    b":",
    b"%",
    b"\x80",
    b"\xff",
    b",",
    b";",
    b'"',
    b"{",
    b"0",
    b"/",
]


@dataclass(frozen=True)
class Mutant:
    """A request in pieces; `path` is the requested one, None when that is not certain any more."""

    pieces: list[bytes]
    path: str | None
    may_be_head: bool


class Mutations:
    """A sequence of requests made from a seed."""

    def __init__(self, seed: int, key: str) -> None:
        self._random = random.Random(seed)
        self._key = key

    def next(self) -> Mutant:
        chance = self._random
        count = chance.choice([1, 1, 1, 1, 2, 3])
        requests = [self._request() for _ in range(count)]
        data = b"".join(request for request, _ in requests)
        path = requests[0][1] if count == 1 else None
        if chance.random() < 0.3:
            data, path = self._bytes(data), None
        cuts = sorted(chance.randrange(len(data) + 1) for _ in range(chance.choice([0, 0, 1, 3])))
        pieces = [data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]
        return Mutant([piece for piece in pieces if piece], path, b"HEAD" in data)

    def _request(self) -> tuple[bytes, str | None]:
        chance = self._random
        method, path = chance.choice(TARGETS)
        known: str | None = path
        version = "HTTP/1.1"
        headers = ["Host: ledger", f"Authorization: Bearer {self._key}", "Content-Type: application/json"]
        body = self._body(path) if method in ("POST", "PATCH") else b""
        is_chunked = chance.random() < 0.2 and bool(body)
        if is_chunked:
            headers.append("Transfer-Encoding: chunked")
            body = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
        elif body:
            headers.append(f"Content-Length: {len(body)}")
        for _ in range(chance.choice([0, 1, 1, 2])):
            match chance.randrange(9):
                case 0:
                    method = chance.choice(METHODS)
                    # Data that starts with a space is refused at once, when the path may not have come yet.
                    known = known if method.strip() else None
                case 1:
                    version = chance.choice(VERSIONS)
                case 2:
                    path, known = (
                        path + chance.choice(PATHS) if chance.random() < 0.5 else chance.choice(PATHS),
                        None,
                    )
                case 3 | 4:
                    path += f"?{chance.choice(PARAMETERS)}={chance.choice(VALUES)}"
                case 5:
                    headers.insert(chance.randrange(len(headers) + 1), chance.choice(HEADERS))
                case 6:
                    headers[chance.randrange(len(headers))] = chance.choice(HEADERS)
                case 7:
                    del headers[chance.randrange(len(headers))]
                    headers = headers or ["X: y"]
                case _:
                    body = chance.choice(CHUNKS) if is_chunked else body[: chance.randrange(len(body) + 1)]
        head = "\r\n".join([f"{method} {path} {version}", *headers, "", ""])
        return head.encode("latin-1", "replace") + body, known

    def _body(self, path: str) -> bytes:
        chance = self._random
        if chance.random() < 0.2:
            return chance.choice(BODIES)
        body: dict[str, Any] = {
            "name": "Till", "currency": "EUR", "email": "a@b.example", "account": "acc_none", "amount": 1,
            "type": "credit", "customer": "C", "user_id": "usr_none", "items": [{}], "transactions": [],
            "grant_type": "api_key", "api_key": self._key, "metadata": {}, "lines": [], "due_date": "2026",
        }  # fmt: skip
        body = {name: body[name] for name in chance.sample(sorted(body), chance.randrange(1, 6))}
        if path == "/v1/accounts":
            body = {"name": "Till", "currency": "EUR", **({} if chance.random() < 0.5 else body)}
        if chance.random() < 0.7:
            body[chance.choice(sorted(body))] = chance.choice(JSON)
        return json.dumps(body).encode()

    def _bytes(self, data: bytes) -> bytes:
        chance = self._random
        for _ in range(chance.choice([1, 1, 2, 5])):
            offset = chance.randrange(len(data) + 1)
            match chance.randrange(4):
                case 0:
                    data = data[:offset] + chance.choice(BYTES) + data[offset:]
                case 1:
                    data = data[:offset] + chance.choice(BYTES) + data[offset + 1 :]
                case 2:
                    data = data[:offset] + data[offset + chance.randrange(1, 9) :]
                case _:
                    data = data[:offset] + data[max(0, offset - chance.randrange(1, 99)) :]
        return data
