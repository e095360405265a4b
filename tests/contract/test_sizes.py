"""docs/interface.md#request-size; docs/decisions.md#conventions and #rate-limits."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ledger_engine.core.settings import Location
from ledger_engine.http.gate import request_body
from ledger_engine.http.gate.gate import AuthRateLimit
from tests.contract.clockwork import Clockwork
from tests.contract.conftest import Server
from tests.contract.raw import Wire, chunked
from tests.contract.rules import holds
from tests.ledger_engine.waiting import wait_until

MB = 1024 * 1024
TILL = b'{"name": "Till", "currency": "EUR"}'


def padded(size: int) -> bytes:
    """Return a valid body of exactly this size."""
    return TILL[:-1] + b" " * (size - len(TILL)) + b"}"


def files(*sizes: int) -> bytes:
    """Return a multipart body with files of these sizes."""
    disposition = b'Content-Disposition: form-data; name="file"; filename="a.bin"\r\n'
    parts = [
        b"--frontier\r\n" + disposition + b"\r\n" + b"\r\n--" * (size // 4) + b"x" * (size % 4) + b"\r\n"
        for size in sizes
    ]
    return b"".join(parts) + b"--frontier--\r\n"


MULTIPART = "Content-Type: multipart/form-data; boundary=frontier"


def code(answer_json: object) -> str:
    assert isinstance(answer_json, dict)
    return str(answer_json["error"]["code"])


@holds("sizes-json")
@pytest.mark.parametrize("in_chunks", [False, True])
def test_a_json_body_may_have_1_mb(wire: Wire, in_chunks: bool) -> None:
    if in_chunks:
        head = wire.head("POST", "/v1/accounts", "Transfer-Encoding: chunked")
        assert wire.ask(head, chunked(padded(MB))).status == 201
    else:
        assert wire.ask(wire.post("/v1/accounts", padded(MB))).status == 201


@holds("sizes-json", "errors-413", "error-codes")
@pytest.mark.parametrize("key", [None, ""], ids=["with a key", "without one"])
@pytest.mark.parametrize("size", [MB + 1, 8 * MB])
def test_a_larger_json_body_is_413(wire: Wire, size: int, key: str | None) -> None:
    answer = wire.ask(wire.post("/v1/accounts", padded(size), key=key))
    assert (answer.status, code(answer.json())) == (413, "payload_too_large")
    assert answer.headers["connection"] == "close"
    head = wire.head("POST", "/v1/accounts", "Transfer-Encoding: chunked", key=key)
    answer = wire.ask(head, chunked(padded(size)))
    # A body of unknown length is not read at all without a good credential.
    expected = (413, "payload_too_large") if key is None else (401, "missing_credential")
    assert (answer.status, code(answer.json())) == expected
    assert wire.ask(wire.head("GET", "/v1/accounts")).json()["data"] == []


@holds("sizes-json", "errors-413")
def test_a_body_said_to_be_too_large_is_refused_before_it_comes(wire: Wire) -> None:
    answer = wire.ask(wire.head("POST", "/v1/accounts", f"Content-Length: {2**60}"))
    assert answer.status == 413


@holds("sizes-file", "rate-limits-multipart", "error-codes")
@pytest.mark.parametrize("in_chunks", [False, True])
@pytest.mark.parametrize("sizes", [(24 * MB,), (25 * MB,), (20 * MB, 20 * MB)], ids=str)
def test_a_file_may_have_25_mb_and_is_no_json(wire: Wire, sizes: tuple[int, ...], in_chunks: bool) -> None:
    body = files(*sizes)
    framing = "Transfer-Encoding: chunked" if in_chunks else f"Content-Length: {len(body)}"
    head = wire.head("POST", "/v1/accounts", MULTIPART, framing)
    answer = wire.ask(head, chunked(body) if in_chunks else body)
    assert (answer.status, code(answer.json())) == (400, "unsupported_content_type")
    assert "connection" not in answer.headers


@holds("sizes-file", "errors-413")
@pytest.mark.parametrize("in_chunks", [False, True])
@pytest.mark.parametrize("sizes", [(25 * MB + 1,), (MB, 26 * MB)], ids=str)
def test_a_larger_file_is_413(wire: Wire, sizes: tuple[int, ...], in_chunks: bool) -> None:
    body = files(*sizes)
    framing = "Transfer-Encoding: chunked" if in_chunks else f"Content-Length: {len(body)}"
    head = wire.head("POST", "/v1/accounts", MULTIPART, framing)
    answer = wire.ask(head, chunked(body) if in_chunks else body)
    assert (answer.status, code(answer.json())) == (413, "payload_too_large")
    assert wire.ask(wire.head("GET", "/v1/accounts")).status == 200


@holds("sizes-file", "sizes-json")
def test_the_fields_of_a_form_together_have_1_mb(wire: Wire) -> None:
    field = b'--frontier\r\nContent-Disposition: form-data; name="f"\r\n\r\n' + b"v" * 400_000 + b"\r\n"
    for count, status in [(2, 400), (3, 413)]:
        body = field * count + b"--frontier--\r\n"
        answer = wire.ask(wire.head("POST", "/v1/accounts", MULTIPART, f"Content-Length: {len(body)}"), body)
        assert answer.status == status


@pytest.mark.parametrize(
    "body",
    [b"", b"no boundary at all", b"--frontier\r\n\r\nno disposition\r\n--frontier--\r\n", files(10)[:-20]],
)
@holds("rate-limits-multipart")
def test_a_broken_form_is_400(wire: Wire, body: bytes) -> None:
    head = wire.head("POST", "/v1/accounts", MULTIPART, f"Content-Length: {len(body)}")
    answer = wire.ask(head, body)
    assert (answer.status, code(answer.json())) == (400, "unsupported_content_type")


@pytest.fixture
def peak_kb(server: Server) -> Iterator[None]:
    """Fail when what the test sends makes the server's memory grow."""

    def resident() -> int:
        with open(f"/proc/{server.process.pid}/status", encoding="ascii") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))

    try:
        before = resident()
    except OSError:
        pytest.skip("needs /proc, as Linux has it")
    yield
    assert resident() - before < 40_000


@holds("sizes-file")
@pytest.mark.usefixtures("peak_kb")
def test_files_take_no_memory(wire: Wire) -> None:
    body = files(*[25 * MB] * 4)
    head = wire.head("POST", "/v1/accounts", MULTIPART, f"Content-Length: {len(body)}")
    assert wire.ask(head, body).status == 400


@holds("sizes-url", "errors-414", "error-codes")
@pytest.mark.parametrize(
    ("target", "size", "status"),
    [
        *[("/v1/accounts?x=", size, 414) for size in (8193, 40_000, 300_000, 3_000_000)],
        ("/v1/accounts?x=", 8192, 400),
        ("/v1/accounts/", 8192, 404),
        ("/v1/accounts/", 8193, 414),
    ],
)
def test_a_url_may_have_8_kb(wire: Wire, target: str, size: int, status: int) -> None:
    answer = wire.ask(wire.head("GET", target + "x" * (size - len(target))))
    assert answer.status == status
    assert code(answer.json()) == {400: "unknown_field", 404: "not_found", 414: "uri_too_long"}[status]
    assert wire.ask(wire.head("GET", "/v1/accounts")).status == 200


@holds("sizes-url")
def test_a_question_mark_alone_counts_as_the_rest_of_a_url_does(wire: Wire) -> None:
    path = "/v1/accounts/".ljust(8191, "x")
    assert wire.ask(wire.head("GET", f"{path}?")).status == 404
    assert wire.ask(wire.head("GET", f"{path}x?")).status == 414


@holds("sizes-url", "errors-414")
def test_a_url_that_never_ends_is_414(wire: Wire) -> None:
    connection = wire.connect()
    connection.send(b"GET /", *[b"x" * 50_000] * 10)
    assert connection.receive().status == 414
    assert connection.is_closed()


@holds("sizes-headers", "conventions-large-headers", "error-codes")
@pytest.mark.parametrize(
    "lines",
    [
        [f"X-{number}: v" for number in range(2000)],
        ["X: " + "x" * 16_384],
        ["X: " + "x" * 250_000],
        ["X: " + "x" * 2_000_000],
        [f"X-{number}: {'v' * 1000}" for number in range(1000)],
    ],
    ids=["2,000 headers", "one of 16 KB", "one of 250 KB", "one of 2 MB", "1 MB of them"],
)
def test_headers_over_16_kb_are_431(wire: Wire, lines: list[str]) -> None:
    answer = wire.ask(wire.head("GET", "/v1/accounts", *lines))
    assert (answer.status, code(answer.json())) == (431, "headers_too_large")
    assert wire.ask(wire.head("GET", "/v1/accounts")).status == 200


@holds("sizes-headers")
def test_headers_may_have_16_kb(wire: Wire) -> None:
    lines = [f"X-{number}: {'v' * 1000}" for number in range(15)]
    assert wire.ask(wire.head("GET", "/v1/accounts", *lines)).status == 200


@pytest.fixture
def crowded(location: Location, monkeypatch: pytest.MonkeyPatch) -> Iterator[Clockwork]:
    """Run a server that reads two large bodies at a time for callers without a valid credential."""
    monkeypatch.setattr(request_body, "ANONYMOUS_BODIES_MAX", 2)
    unlimited = AuthRateLimit(per_minute=10**6, per_second=10**6)
    with Clockwork(location, auth_rate_limit=unlimited) as clockwork:
        yield clockwork


@holds("errors-401")
def test_a_body_is_not_waited_for_where_a_credential_is_needed_and_none_is_good(crowded: Clockwork) -> None:
    wire = crowded.wire(crowded.key(crowded.project()))
    unfinished = [
        ["Transfer-Encoding: chunked"],
        [f"Content-Length: {MB}"],
        [f"Content-Length: {len(TILL)}", "Expect: 100-continue"],
        ["Content-Length: 26000000", "Content-Type: multipart/form-data; boundary=b"],
    ]
    for number, lines in enumerate(unfinished * 2):
        key = "" if number % 2 else f"sk_test_{'A' * 32}"
        connection = wire.connect()
        answer = connection.ask(wire.head("POST", "/v1/accounts", *lines, key=key), b"5\r\n{")
        assert (answer.status, answer.headers["connection"]) == (401, "close")
        assert connection.is_closed()
    assert wire.ask(wire.post("/v1/accounts", padded(MB))).status == 201
    wire.close()


@holds("errors-429")
def test_a_body_is_not_waited_for_over_the_rate(crowded: Clockwork) -> None:
    wire = crowded.wire(crowded.key(crowded.project(rate=1, burst=1)))
    assert wire.ask(wire.post("/v1/accounts", TILL)).status == 201
    connection = wire.connect()
    answer = connection.ask(wire.head("POST", "/v1/accounts", f"Content-Length: {MB}"))
    assert (answer.status, answer.headers["connection"]) == (429, "close")
    assert connection.is_closed()
    wire.close()


def test_large_bodies_of_anonymous_clients_are_read_a_few_at_a_time(crowded: Clockwork) -> None:
    """Each could take a megabyte for as long as a body may take."""
    wire = crowded.wire(crowded.key(crowded.project()))
    semaphores = crowded.engine.shared_state.semaphores
    large = wire.post("/v1/auth/token", padded(MB), key="")
    head = wire.head("POST", "/v1/auth/token", "Transfer-Encoding: chunked", key="")
    slow = [wire.connect() for _ in range(2)]
    slow[0].send(large[:-1])
    slow[1].send(head, chunked(padded(MB))[:100_000])
    wait_until(lambda: semaphores.acquired("bodies") == 2)
    for more in ([large], [head, chunked(padded(MB))[:100_000]]):
        refused = wire.ask(*more)
        assert (refused.status, refused.headers["retry-after"]) == (429, "1")
        assert (refused.headers["x-ratelimit-remaining"], refused.headers["connection"]) == ("0", "close")
    # Small ones are not counted, however many there are and whether they end or not.
    for _ in range(3):
        wire.connect().send(head, b"2\r\n{")
    token = b'{"grant_type": "api_key", "api_key": "%s"}' % wire.key.encode()
    assert wire.ask(wire.post("/v1/auth/token", token, key="")).status == 200
    assert wire.ask(head, chunked(token, 10)).status == 200
    assert wire.ask(wire.post("/v1/accounts", padded(MB))).status == 201
    assert slow[0].ask(large[-1:]).status == 400
    wait_until(lambda: semaphores.acquired("bodies") == 1)
    assert wire.ask(large).status == 400
    wire.close()
