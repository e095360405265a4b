"""What a refusal looks like on the wire (docs/interface.md#errors; docs/decisions.md#errors)."""

from __future__ import annotations

import json

import httpx
import pytest

from ledger_engine.core import errors
from ledger_engine.core.errors import (
    AuthenticationError,
    Conflict,
    DuplicateIdempotencyKey,
    InvalidRequest,
    LedgerError,
    NotFound,
    PermissionDenied,
    StorageUnavailable,
)
from ledger_engine.http.errors import (
    InternalError,
    RateLimited,
    UnsupportedMethod,
    body_of,
    render,
    status_of,
)

REFUSALS: list[tuple[LedgerError, int, str]] = [
    (InvalidRequest("missing_field", "currency is required.", "currency"), 400, "invalid_request"),
    (AuthenticationError("missing_credential", "Send your key."), 401, "authentication_error"),
    (PermissionDenied("missing_role", "This needs the role admin."), 403, "permission_error"),
    (NotFound("account", "acc_1", "account"), 404, "not_found"),
    (UnsupportedMethod(["GET", "POST"]), 405, "invalid_request"),
    (Conflict("invoice_not_draft", "It is open."), 409, "conflict"),
    (DuplicateIdempotencyKey("acc_1"), 409, "conflict"),
    (InvalidRequest("payload_too_large", "The body is larger than 1 MB."), 413, "invalid_request"),
    (InvalidRequest("uri_too_long", "The URL is too long."), 414, "invalid_request"),
    (InvalidRequest("headers_too_large", "The headers are too large."), 431, "invalid_request"),
    (InternalError("req_1"), 500, "api_error"),
    (StorageUnavailable("the disk is full"), 503, "api_error"),
]


@pytest.mark.parametrize(("error", "status", "type"), REFUSALS, ids=lambda value: str(value)[:40])
def test_a_refusal_has_the_form_of_its_surface(error: LedgerError, status: int, type: str) -> None:
    of_ledger = {"type": type, "code": error.code, "message": error.message, "param": error.param}
    for path, expected in (
        ("/v1/accounts", {"error": of_ledger}),
        ("/api/users", {"error": error.code, "message": error.message}),
    ):
        answered, headers, body = render(error, path)
        assert (answered, json.loads(body)) == (status, expected)
        assert (b"content-type", b"application/json") in headers
    answered, _, body = render(error, "/oauth/token")  # in the form of RFC 6749
    assert (answered, set(json.loads(body))) == (status, {"error", "error_description"})


@pytest.mark.parametrize(
    ("path", "directory"),
    [("/api", True), ("/api/users", True), ("/apis", False), ("/v1/api", False), ("/", False), ("", False)],
)
def test_the_path_says_which_surface_it_is(path: str, directory: bool) -> None:
    assert ("message" in body_of(NotFound("path", path), path)) == directory


@pytest.mark.parametrize(
    ("error", "header"),
    [
        (UnsupportedMethod(["GET", "POST"]), (b"allow", b"GET, POST")),
        (DuplicateIdempotencyKey("acc_1"), (b"idempotency-original", b"acc_1")),
        (AuthenticationError("missing_credential", "Send your key."), (b"www-authenticate", b"Bearer")),
    ],
    ids=["the methods of the path", "the first object of a key", "how to come in"],
)
def test_a_header_tells_what_helps(error: LedgerError, header: tuple[bytes, bytes]) -> None:
    assert render(error, "/v1/accounts")[1][1:] == [header]


@pytest.mark.parametrize(("wait", "words"), [(1, "1 second."), (37, "37 seconds.")])
def test_a_refusal_for_the_rate_says_how_long_to_wait(wait: int, words: str) -> None:
    status, headers, text = render(RateLimited(wait), "/v1/accounts")
    assert (status, headers[1:]) == (429, [(b"retry-after", b"%d" % wait)])
    body = json.loads(text)
    assert body["error"] == "rate_limited"
    assert body["message"].endswith(words)
    assert set(body) == {"error", "message"}


def test_an_id_of_any_length_is_cut_in_the_message() -> None:
    assert len(NotFound("account", "x" * 100_000).message) < 200


def with_any_code(kind: type[LedgerError]) -> LedgerError:
    error = kind.__new__(kind)
    error.code = "any"
    return error


def test_every_kind_of_error_has_a_status() -> None:
    kinds = [
        kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, LedgerError)
    ]
    assert len(kinds) >= 8
    statuses = {kind: status_of(with_any_code(kind)) for kind in kinds}
    assert {kind for kind, status in statuses.items() if status == 500} == {LedgerError}


@pytest.mark.parametrize(
    ("method", "path", "without", "status"),
    [
        *[("GET", path, 404, 404) for path in ["/v2", "/v1x", "/apis/users", "/oauth/nothing", "/nothing"]],
        ("POST", "/api/health", 405, 405),
        ("GET", "/v1/auth/token", 405, 405),
        ("GET", "/api/nothing", 401, 404),
        ("PUT", "/api/users", 401, 405),
        ("GET", "/api/users/usr_none/nothing", 401, 404),
        ("GET", "/api", 401, 404),
        ("GET", "/v1/nothing", 401, 404),
        ("PUT", "/v1/accounts", 401, 405),
        ("DELETE", "/v1/accounts/acc_none", 401, 405),
        ("GET", "/v1/auth/token/nothing", 401, 404),
        ("GET", "/v1", 401, 404),
    ],
)
async def test_a_credential_is_asked_for_first_where_only_some_paths_are_public(
    anyone: httpx.AsyncClient, api: httpx.AsyncClient, method: str, path: str, without: int, status: int
) -> None:
    """docs/interface.md#auth-bearer, #auth-directory: every other request needs one."""
    bad = {"Authorization": "Bearer sk_test_" + "0" * 32}
    for headers in ({}, bad):
        assert (await anyone.request(method, path, headers=headers)).status_code == without
    assert (await api.request(method, path)).status_code == status
