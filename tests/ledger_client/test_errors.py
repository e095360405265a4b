"""Every refusal of a server becomes an exception, whatever form its body has."""

import pytest
from httpx import Headers

from ledger_client.errors import (
    AlreadyDone,
    ApiError,
    AuthenticationError,
    Conflict,
    InvalidRequest,
    LedgerError,
    NotFound,
    PermissionDenied,
    RateLimited,
    error_of,
)


def ledger(code: str, message: str = "Why.", param: str | None = None) -> object:
    return {"error": {"type": "invalid_request", "code": code, "message": message, "param": param}}


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, InvalidRequest),
        (401, AuthenticationError),
        (403, PermissionDenied),
        (404, NotFound),
        (409, Conflict),
        (413, InvalidRequest),
        (414, InvalidRequest),
        (429, RateLimited),
        (500, ApiError),
        (503, ApiError),
    ],
)
def test_each_status_has_its_exception(status: int, kind: type[LedgerError]) -> None:
    assert type(error_of(status, Headers({}), ledger("some_code"))) is kind


@pytest.mark.parametrize(
    ("body", "code", "message", "param"),
    [
        (
            ledger("missing_field", "currency is needed.", "currency"),
            "missing_field",
            "currency is needed.",
            "currency",
        ),
        ({"error": "email_taken", "message": "Taken."}, "email_taken", "Taken.", None),
        ({"error": "invalid_scope", "error_description": "No."}, "invalid_scope", "No.", None),
        ({"error": "invalid_grant"}, "invalid_grant", "The server answered 400.", None),
        ({"error": {"message": 5, "param": ["x"]}}, "", "The server answered 400.", None),
        ({"error": "a\ud800", "message": "b\udfff"}, "a?", "b?", None),
        ({"error": None}, "", "The server answered 400.", None),
        (["x"], "", "The server answered 400.", None),
        (None, "", "The server answered 400.", None),
    ],
)
def test_every_shape_of_an_error_body_is_understood(
    body: object, code: str, message: str, param: str | None
) -> None:
    error = error_of(400, Headers({}), body)
    assert (error.code, error.message, error.param) == (code, message, param)


@pytest.mark.parametrize(
    ("header", "seconds"), [("12", 12.0), ("0", 1.0), ("", 1.0), ("soon", 1.0), ("-3", 1.0)]
)
def test_a_rate_limit_says_how_long_to_wait(header: str, seconds: float) -> None:
    error = error_of(
        429, Headers({"retry-after": header}), {"error": "rate_limited", "message": "Wait 12 seconds"}
    )
    assert isinstance(error, RateLimited)
    assert error.retry_after == seconds


def test_a_duplicate_key_names_the_first_object_by_its_header() -> None:
    error = error_of(409, Headers({"idempotency-original": "txn_0001"}), ledger("duplicate_idempotency_key"))
    assert isinstance(error, AlreadyDone)
    assert error.original == "txn_0001"


def test_a_duplicate_key_names_the_first_object_in_its_message_where_there_is_no_header() -> None:
    error = error_of(409, Headers({}), ledger("duplicate_idempotency_key", "It was used for txn_0002."))
    assert isinstance(error, AlreadyDone)
    assert error.original == "txn_0002"


def test_another_conflict_is_not_taken_for_a_duplicate() -> None:
    assert not isinstance(error_of(409, Headers({}), ledger("invoice_not_open")), AlreadyDone)
