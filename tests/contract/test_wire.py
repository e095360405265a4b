"""What no client library would send. After each attack the next request must be unharmed."""

from __future__ import annotations

import gzip
import socket
import struct
from collections.abc import Iterator

import pytest

from ledger_engine.core.settings import Location
from ledger_engine.http.gate import request_body
from ledger_engine.http.wire import tcp
from tests.contract.clockwork import Clockwork
from tests.contract.raw import Wire, chunked
from tests.contract.rules import holds

TILL = b'{"name": "Till", "currency": "EUR"}'


@pytest.fixture(autouse=True)
def unharmed(wire: Wire) -> Iterator[None]:
    """Whatever a test did, the next request is answered as ever."""
    yield
    assert wire.ask(wire.head("GET", "/v1/accounts")).status == 200
    assert wire.ask(wire.post("/v1/accounts", TILL)).status == 201


def count(wire: Wire) -> int:
    return len(wire.ask(wire.head("GET", "/v1/accounts?limit=100")).json()["data"])


@holds("conventions-framing", "errors-400", "error-codes")
@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_content_length_with_transfer_encoding_closes_the_connection(
    wire: Wire, order: tuple[int, int]
) -> None:
    framing = ["Content-Length: 5", "Transfer-Encoding: chunked"]
    smuggled = wire.post("/v1/accounts", TILL)
    connection = wire.connect()
    head = wire.head("POST", "/v1/accounts", *[framing[index] for index in order])
    answer = connection.ask(head + b"0\r\n\r\n" + smuggled)
    assert (answer.status, answer.json()["error"]["code"]) == (400, "header_conflict")
    assert answer.headers["connection"] == "close"
    assert connection.is_closed()
    assert count(wire) == 0


GET = b"GET /v1/accounts HTTP/1.1\r\nHost: a\r\n"
POST = b"POST /v1/accounts HTTP/1.1\r\nHost: a\r\n"
CONFLICTING = [
    GET + b"Host: a\r\n\r\n",
    GET + b"host: b\r\n\r\n",
    POST + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n",
    POST + b"Content-Length: 1, 2\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\nIdempotency-Key: a\r\nIdempotency-Key: b\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\nAuthorization: a\r\nAuthorization: b\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
]
INVALID = [
    b"GET /v1/accounts HTTP/1.1\r\n\r\n",
    POST + b"Content-Length: -1\r\n\r\n",
    POST + b"Content-Length: +1\r\n\r\n",
    POST + b"Content-Length: 0x1\r\n\r\n",
    POST + b"Content-Length: 9x\r\n\r\n",
    POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n",
    POST + b"Transfer-Encoding: xchunked\r\n\r\n",
    GET + b"Bad Name: v\r\n\r\n",
    GET + b"Name : v\r\n\r\n",
    GET + b"no colon\r\n\r\n",
    GET + b"X: a\x00b\r\n\r\n",
    b"GET /v1/accounts HTTP/1.1\r\n folded: v\r\nHost: a\r\n\r\n",
    GET + b"X: a\r\n folded\r\n\r\n",
    b"GET /v1/accounts HTTP/1.1\r\nHost: a\nX: b\r\n\r\n",
    b"GET /v1/accounts HTTP/1.1\nHost: a\n\n",
    b"GET /v1/accounts HTTP/1.1\r\nHost: a b/..@c\r\n\r\n",
    b"GET /v1/accounts HTTP/1.1\r\nHost: u@a\r\n\r\n",
    b"GET /v1/accounts HTTP/1.1\r\nHost: a:80x\r\n\r\n",
    b"\r\rGET /v1/accounts HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET /v1/acc\xc3\xa9ounts HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET /v1/accounts\r\n\r\n",
    b"GET  /v1/accounts HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET /v1/accounts HTTP/2.0\r\nHost: a\r\n\r\n",
    b"GET /v1/accounts HTTP/0.9\r\nHost: a\r\n\r\n",
    b"GET /v1/accounts HTTP/1.1 \r\nHost: a\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET v1/accounts HTTP/1.1\r\nHost: a\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    b"\x00" * 50 + b"\r\n\r\n",
]


@holds("errors-400", "error-codes")
@pytest.mark.parametrize(
    ("head", "code"),
    [*((head, "header_conflict") for head in CONFLICTING), *((head, "invalid_value") for head in INVALID)],
)
def test_malformed_http_is_400_and_ends_the_connection(wire: Wire, head: bytes, code: str) -> None:
    connection = wire.connect()
    answer = connection.ask(head, wire.post("/v1/accounts", TILL))
    assert (answer.status, answer.json()["error"]["code"]) == (400, code)
    assert answer.headers["connection"] == "close"
    assert connection.is_closed()
    assert count(wire) == 0


@holds("errors-directory-body", "errors-400")
@pytest.mark.parametrize("in_pieces", [False, True])
@pytest.mark.parametrize("before", ["", "/v1/accounts"])
@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("/api/users", {"error", "message"}),
        ("http://ledger/api/users", {"error", "message"}),
        ("/oauth/token", {"error", "error_description"}),
        ("/v1/accounts", {"error"}),
    ],
)
def test_malformed_http_is_answered_in_the_shape_of_its_path(
    wire: Wire, path: str, fields: set[str], before: str, in_pieces: bool
) -> None:
    connection = wire.connect()
    connection.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if before:
        connection.send(wire.head("GET", before) * 2)
    head = wire.head("GET", path, "Host: other")
    parts = [head[at : at + 9] for at in range(0, len(head), 9)] if in_pieces else [head]
    connection.send(*parts)
    if before:
        assert [connection.receive().status for _ in range(2)] == [200, 200]
    answer = connection.receive()
    assert (answer.status, set(answer.json())) == (400, fields)
    assert connection.is_closed()


@holds("get-accounts")
def test_empty_lines_before_a_request_are_passed_over(wire: Wire) -> None:
    connection = wire.connect()
    connection.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    head = wire.head("GET", "/v1/accounts")
    for before in ([b"\r\n"], [b"\r", b"\n"], [b"\r\n\r\n\r", b"\n"], [b"\r\n" * 1000], []):
        assert connection.ask(*before, head).status == 200
    connection.send(wire.post("/v1/accounts", TILL) + b"\r\n" + head)
    assert [connection.receive().status for _ in range(2)] == [201, 200]


@holds("post-accounts", "errors-413")
def test_leading_zeros_do_not_make_a_length_larger(wire: Wire) -> None:
    for zeros, length, status in [(1, len(TILL), 201), (40, len(TILL), 201), (40, 10**30, 413)]:
        head = wire.head("POST", "/v1/accounts", f"Content-Length: {'0' * zeros}{length}")
        assert wire.ask(head, TILL).status == status


@holds("service-json")
@pytest.mark.parametrize(
    "host", ["", "ledger", "ledger:", "a_b.example.:80", "127.0.0.1:1", "[::1]:80", "%C3%A9"]
)
def test_a_host_may_be_a_name_or_an_address_with_a_port(wire: Wire, host: str) -> None:
    assert wire.ask(f"GET /api/health HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()).status == 200


@holds("errors-400", "error-codes")
@pytest.mark.parametrize(
    "body",
    [
        b"zz\r\n",
        b"-1\r\n",
        b"11111111111111111\r\n",
        b"5\r\nabcdefgh\r\n0\r\n\r\n",
        b"5;" + b"x" * 300_000,
        b"0x5\r\nabcde\r\n",
        b"23;a\rb\r\n" + TILL + b"\r\n0\r\n\r\n",
        b"23;a\nb\r\n" + TILL + b"\r\n0\r\n\r\n",
        b"0\r\nbad trailer\r\n\r\n",
    ],
)
def test_a_body_in_bad_chunks_is_400(wire: Wire, body: bytes) -> None:
    connection = wire.connect()
    answer = connection.ask(wire.head("POST", "/v1/accounts", "Transfer-Encoding: chunked"), body)
    assert (answer.status, answer.json()["error"]["code"]) == (400, "invalid_value")
    assert connection.is_closed()
    assert count(wire) == 0


@holds("errors-400")
def test_a_body_in_bad_chunks_is_400_though_the_client_has_ended_its_side(wire: Wire) -> None:
    connection = wire.connect()
    connection.send(wire.head("POST", "/v1/accounts", "Transfer-Encoding: chunked"), b"zz\r\n")
    connection.socket.shutdown(socket.SHUT_WR)
    answer = connection.receive()
    assert (answer.status, answer.json()["error"]["code"]) == (400, "invalid_value")
    assert connection.is_closed()


@holds("errors-400")
def test_a_body_in_too_many_chunks_is_400(wire: Wire) -> None:
    body = TILL[:-1] + b" " * 150_000 + b"}"
    head = wire.head("POST", "/v1/accounts", "Transfer-Encoding: chunked")
    assert wire.ask(head, chunked(body, 2)).status == 201
    connection = wire.connect()
    answer = connection.ask(head, chunked(body, 1))
    assert (answer.status, answer.json()["error"]["code"]) == (400, "invalid_value")
    assert connection.is_closed()
    assert count(wire) == 1


@holds("conventions-wrong-method", "error-codes")
@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND", "X", "POSTX"])
def test_another_method_is_405_with_allow(wire: Wire, method: str) -> None:
    for path, allowed in [("/v1/accounts", "GET, HEAD, POST"), ("/api/health", "GET, HEAD")]:
        answer = wire.ask(wire.head(method, path))
        assert (answer.status, answer.headers["allow"]) == (405, allowed)
        error = answer.json()["error"]
        assert (error if isinstance(error, str) else error["code"]) == "method_not_allowed"


@holds("conventions-wrong-method")
@pytest.mark.parametrize(
    ("method", "target", "allowed"),
    [
        ("CONNECT", "127.0.0.1:22", "DELETE, GET, HEAD, PATCH, POST"),
        ("get", "/v1/accounts", "GET, HEAD, POST"),
        ("patch", "/v1/invoices/inv_none", "DELETE, GET, HEAD, PATCH"),
        ("post", "/docs", "GET, HEAD"),
        ("1", "/", "GET, HEAD"),
    ],
)
def test_an_unknown_method_ends_the_connection(wire: Wire, method: str, target: str, allowed: str) -> None:
    connection = wire.connect()
    answer = connection.ask(wire.head(method, target))
    assert (answer.status, answer.headers["allow"]) == (405, allowed)
    assert connection.is_closed()


def test_a_status_line_has_a_reason_phrase(wire: Wire) -> None:
    for path, first in (("/v1/accounts", b"HTTP/1.1 200 OK\r\n"), ("/none", b"HTTP/1.1 404 Not Found\r\n")):
        connection = wire.connect()
        connection.send(wire.head("GET", path))
        assert connection.socket.recv(len(first), socket.MSG_WAITALL) == first


@holds("conventions-content-type", "conventions-strict")
@pytest.mark.parametrize(
    ("body", "headers", "code", "cause"),
    [
        (TILL, ("Content-Encoding: gzip",), "unsupported_content_type", "Content-Encoding"),
        (
            gzip.compress(TILL, mtime=0),
            ("Content-Encoding: gzip",),
            "unsupported_content_type",
            "Content-Encoding",
        ),
        (gzip.compress(TILL, mtime=0), (), "invalid_json", "compressed"),
        (b"\xef\xbb\xbf" + TILL, (), "invalid_json", "byte order mark"),
    ],
    ids=["encoding named", "gzip named", "gzip", "byte order mark"],
)
def test_a_body_that_is_no_plain_json_is_400_with_the_cause(
    wire: Wire, body: bytes, headers: tuple[str, ...], code: str, cause: str
) -> None:
    head = wire.head("POST", "/v1/accounts", f"Content-Length: {len(body)}", *headers)
    error = wire.ask(head, body).json()["error"]
    assert (error["code"], cause in error["message"]) == (code, True)
    head = wire.head("POST", "/v1/accounts", f"Content-Length: {len(TILL)}", "Content-Encoding: identity")
    assert wire.ask(head, TILL).status == 201


@holds("get-accounts")
def test_head_is_get_without_the_body(wire: Wire) -> None:
    connection = wire.connect()
    full = connection.ask(wire.head("GET", "/v1/accounts"))
    bare = connection.ask(wire.head("HEAD", "/v1/accounts"), of="HEAD")
    assert bare.status == 200
    assert bare.headers["content-length"] == full.headers["content-length"] == str(len(full.body))
    assert connection.ask(wire.head("HEAD", "/v1/accounts/acc_none"), of="HEAD").status == 404
    assert connection.ask(wire.head("GET", "/v1/accounts")).body == full.body


@holds("service-json")
def test_http_1_0_is_answered_and_closed(wire: Wire) -> None:
    connection = wire.connect()
    answer = connection.ask(wire.head("GET", "/v1/accounts").replace(b"HTTP/1.1", b"HTTP/1.0"))
    assert (answer.status, answer.headers["connection"]) == (200, "close")
    assert connection.is_closed()


@holds("get-accounts")
@pytest.mark.parametrize(
    "target",
    [
        "http://ledger/v1/accounts",
        "HTTPS://u@other:1/v1/accounts?limit=1",
        "/v1/%61ccounts",
        "/%76%31/accounts",
        "/v1/accounts?",
    ],
)
def test_another_spelling_of_a_path_is_the_same_path(wire: Wire, target: str) -> None:
    assert wire.ask(wire.head("GET", target)).json()["data"] == []


@holds("errors-404")
@pytest.mark.parametrize(
    "target",
    [
        "/v1/accounts/",
        "//v1/accounts",
        "/v1//accounts",
        "/v1/./accounts",
        "/v1/x/../accounts",
        "/v1/Accounts",
        "/v1/accounts%00",
        "/v1/accounts%2F",
        "/v1/accounts/%00",
        "/v1/accounts/%FF%FE",
        "/v1/accounts/..%2f..%2fetc%2fpasswd",
        "/v1/accounts/%252e%252e",
        "/v1/accounts/" + "a" * 8000,
        "/docs/../openapi.json",
        "/docs/%2e%2e/documentation.py",
    ],
)
def test_an_unknown_path_is_404(wire: Wire, target: str) -> None:
    answer = wire.ask(wire.head("GET", target))
    assert (answer.status, answer.json()["error"]["code"]) == (404, "not_found")


@pytest.mark.parametrize("target", ["/", "http://ledger", "http://ledger?x"])
def test_the_root_leads_to_the_documentation(wire: Wire, target: str) -> None:
    answer = wire.ask(f"GET {target} HTTP/1.1\r\nHost: ledger\r\n\r\n".encode())
    assert (answer.status, answer.headers["location"]) == (303, "/docs")
    assert answer.headers["request-id"].startswith("req_")
    assert answer.headers["x-ratelimit-limit"] == "60"


@holds("service-json")
@pytest.mark.parametrize(
    "upgrade",
    [
        [
            "Connection: Upgrade",
            "Upgrade: websocket",
            "Sec-WebSocket-Version: 13",
            "Sec-WebSocket-Key: x3JJHMbDL1EzLkh9GBhXDw==",
        ],
        ["Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA"],
        ["Connection: Upgrade", "Upgrade: TLS/1.0"],
    ],
)
def test_an_upgrade_is_not_taken_up(wire: Wire, upgrade: list[str]) -> None:
    connection = wire.connect()
    for _ in range(2):
        answer = connection.ask(wire.head("GET", "/v1/accounts", *upgrade))
        assert (answer.status, answer.json()["data"]) == (200, [])


@holds("post-accounts")
def test_a_client_may_wait_for_100_continue(wire: Wire) -> None:
    connection = wire.connect()
    connection.send(wire.head("POST", "/v1/accounts", "Expect: 100-continue", f"Content-Length: {len(TILL)}"))
    assert connection.socket.recv(12) == b"HTTP/1.1 100"
    while b"\r\n\r\n" not in connection.socket.recv(64):
        pass
    assert connection.ask(TILL).status == 201


@holds("sizes-json", "errors-413")
def test_a_client_that_waits_with_a_body_too_large_is_refused_at_once(wire: Wire) -> None:
    connection = wire.connect()
    length = 1024 * 1024 + 1
    connection.send(wire.head("POST", "/v1/accounts", "Expect: 100-continue", f"Content-Length: {length}"))
    assert connection.socket.recv(12, socket.MSG_PEEK) == b"HTTP/1.1 413"
    answer = connection.receive()
    assert answer.json()["error"]["code"] == "payload_too_large"
    assert connection.is_closed()


@holds("errors-404", "error-codes")
@pytest.mark.parametrize("path", ["/v1/nowhere", "/nowhere"])
def test_a_client_that_waits_with_a_body_for_an_unknown_path_is_refused_at_once(
    wire: Wire, path: str
) -> None:
    connection = wire.connect()
    connection.send(wire.head("POST", path, "Expect: 100-continue", "Content-Length: 5000"))
    assert connection.socket.recv(12, socket.MSG_PEEK) == b"HTTP/1.1 404"
    assert connection.receive().json()["error"]["code"] == "not_found"
    assert connection.is_closed()


def test_a_trailer_has_bounds_too(wire: Wire) -> None:
    head = wire.head("POST", "/v1/accounts", "Content-Type: application/json", "Transfer-Encoding: chunked")
    body = chunked(TILL, 10).removesuffix(b"\r\n")
    assert wire.connect().ask(head, body, b"Checksum: 1\r\n\r\n").status == 201
    answer = wire.connect().ask(head, body, b"Checksum: " + b"1" * 20_000 + b"\r\n\r\n")
    assert (answer.status, answer.json()["error"]["code"]) == (400, "invalid_value")


def test_the_head_of_a_stream_ends(wire: Wire) -> None:
    connection = wire.connect()
    answer = connection.ask(wire.head("HEAD", "/v1/events/stream"), of="HEAD")
    assert (answer.status, answer.headers["content-type"]) == (200, "text/event-stream")
    assert connection.ask(wire.head("GET", "/v1/accounts")).status == 200


def test_pipelined_requests_are_answered_in_their_order(wire: Wire) -> None:
    connection = wire.connect()
    head = wire.head("GET", "/v1/accounts?limit=1")
    connection.send(
        wire.post("/v1/accounts", TILL)
        + head
        + wire.head("GET", "/none")
        + wire.post("/v1/accounts", TILL)
        + head
    )
    created, listed = connection.receive(), connection.receive()
    assert listed.json()["data"] == [created.json()]
    assert connection.receive().status == 404
    created, listed = connection.receive(), connection.receive()
    assert listed.json()["data"] == [created.json()]


def test_pipelined_requests_are_all_answered_though_the_client_has_ended_its_side(wire: Wire) -> None:
    connection = wire.connect()
    connection.send(wire.post("/v1/accounts", TILL) * 3)
    connection.socket.shutdown(socket.SHUT_WR)
    made = [connection.receive().json()["id"] for _ in range(3)]
    assert connection.is_closed()
    listed = wire.connect().ask(wire.head("GET", "/v1/accounts?limit=3")).json()["data"]
    assert [item["id"] for item in reversed(listed)] == made


@pytest.mark.parametrize("framing", ["Content-Length: 5", "Transfer-Encoding: chunked"])
def test_a_boundary_of_other_letters_is_a_boundary(wire: Wire, framing: str) -> None:
    kind = "Content-Type: multipart/form-data; boundary*=UTF-8''%E2%82%AC"
    body = b"12345" if framing.startswith("Content") else chunked(b"12345", 5)
    answer = wire.connect().ask(wire.head("POST", "/v1/accounts", kind, framing), body)
    assert (answer.status, answer.json()["error"]["type"]) == (400, "invalid_request")


@holds("post-accounts")
def test_a_body_may_come_byte_by_byte(wire: Wire) -> None:
    connection = wire.connect()
    connection.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    request = wire.post("/v1/accounts", TILL)
    assert connection.ask(*[bytes([byte]) for byte in request]).status == 201
    assert (
        connection.ask(
            wire.head("POST", "/v1/accounts", "Transfer-Encoding: chunked"), chunked(TILL, 1)
        ).status
        == 201
    )


@holds("errors-401", "errors-404", "errors-400")
@pytest.mark.parametrize(
    ("target", "key", "status"),
    [
        ("/v1/accounts", "", 401),
        ("/none", None, 404),
        ("/v1/whoami", None, 405),
        ("/v1/accounts?x=1", None, 400),
    ],
)
def test_an_early_answer_does_not_poison_its_connection(
    wire: Wire, target: str, key: str | None, status: int
) -> None:
    connection = wire.connect()
    connection.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for _ in range(3):
        request = wire.post(target, TILL, key=key)
        answer = connection.ask(request[:-10], request[-10:])
        assert answer.status == status
        assert "connection" not in answer.headers
    assert connection.ask(wire.post("/v1/accounts", TILL)).status == 201


@holds("conventions-strict")
@pytest.mark.parametrize(
    "path", ["/v1/transactions/txn_none/reverse", "/v1/invoices/inv_none/pay", "/api/orders/ord_none/pay"]
)
def test_a_body_where_none_is_due_must_be_empty(wire: Wire, path: str) -> None:
    for body, status in [(b"", 404), (b"{}", 404), (b'{"amount": 5}', 400), (b"[]", 400), (b"{", 400)]:
        assert wire.ask(wire.post(path, body)).status == status


@holds("get-accounts-id", "conventions-strict")
def test_a_get_may_have_a_body_without_members(wire: Wire) -> None:
    for body, status in [(b"{}", 200), (b'{"x": 1}', 400)]:
        head = wire.head("GET", "/v1/accounts", f"Content-Length: {len(body)}")
        assert wire.ask(head, body).status == status


@holds("errors-400")
def test_a_truncated_request_writes_nothing(wire: Wire) -> None:
    whole = b'{"name": "Till", "currency": "EUR"}   '
    request = wire.post("/v1/accounts", whole)
    for cut in (3, 20, len(request) - 60):
        connection = wire.connect()
        connection.send(request[:-cut])
        connection.socket.shutdown(socket.SHUT_WR)
        while connection.socket.recv(4096):
            pass
    assert count(wire) == 0


@holds("post-accounts")
def test_a_client_that_ends_its_side_still_gets_its_answer(wire: Wire) -> None:
    connection = wire.connect()
    connection.send(wire.post("/v1/accounts", TILL))
    connection.socket.shutdown(socket.SHUT_WR)
    assert connection.receive().status == 201
    assert connection.is_closed()


@holds("post-accounts")
def test_a_request_taken_from_a_client_that_left_is_written(wire: Wire) -> None:
    for number in range(20):
        connection = wire.connect()
        linger_no_more = struct.pack("ii", 1, 0)
        connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger_no_more)
        connection.send(wire.post("/v1/accounts", TILL, f"Idempotency-Key: gone-{number}"))
        connection.close()
    # Each request was taken whole or not at all: with its key, no second one is made.
    statuses = {
        wire.ask(wire.post("/v1/accounts", TILL, f"Idempotency-Key: gone-{number}")).status
        for number in range(20)
    }
    assert statuses <= {201, 409}
    assert count(wire) == 20


@holds("errors-400", "error-codes")
def test_a_body_that_does_not_come_is_408(location: Location, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_body, "BODY_TIMEOUT_S", 0.2)
    with Clockwork(location) as clockwork:
        wire = clockwork.wire(clockwork.key(clockwork.project()))
        connection = wire.connect()
        answer = connection.ask(wire.post("/v1/accounts", TILL)[:-1])
        assert (answer.status, answer.json()["error"]["code"]) == (408, "invalid_value")
        assert answer.headers["x-ratelimit-limit"] == "6000"
        assert connection.is_closed()
        assert wire.ask(wire.post("/v1/accounts", TILL)).status == 201
        wire.close()


@holds("errors-400")
@pytest.mark.parametrize("start", [b"", b"GET /v1/accounts HTTP/1.1\r\nHost: a\r\nX: "])
def test_a_head_that_does_not_come_is_not_waited_for(location: Location, start: bytes) -> None:
    with Clockwork(location, idle_s=0.2) as clockwork:
        wire = clockwork.wire()
        connection = wire.connect()
        connection.send(start)
        assert connection.is_closed()
        wire.close()


@holds("get-transactions")
def test_a_client_that_takes_no_answer_is_let_go(location: Location, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tcp, "SEND_TIMEOUT_S", 0.2)
    with Clockwork(location) as clockwork:
        key = clockwork.key(clockwork.project())
        api = clockwork.client(key)
        account = api.post("/v1/accounts", content=TILL).json()["id"]
        posting = {"account": account, "amount": 1, "type": "credit", "description": "d" * 500}
        api.post("/v1/transactions/batch", json={"transactions": [posting] * 100})
        wire = clockwork.wire(key)
        connection = wire.connect()
        # More answers than both sides' buffers hold, and none of them read.
        head = wire.head("GET", "/v1/transactions?limit=100")
        with pytest.raises((ConnectionResetError, BrokenPipeError)):
            connection.socket.sendall(head * 100_000)
        assert api.get("/v1/accounts").status_code == 200
        wire.close()


@holds("sizes-json")
def test_an_answer_is_read_though_more_was_sent_than_is_taken(wire: Wire) -> None:
    connection = wire.connect()
    connection.send(wire.head("POST", "/v1/accounts", f"Content-Length: {30 * 2**20}"), b" " * (30 * 2**20))
    assert connection.receive().status == 413
