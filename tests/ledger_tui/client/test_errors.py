import pytest

from ledger_tui.client.errors import (
    AlreadyDone,
    Forbidden,
    Invalid,
    NotFound,
    RateLimited,
    Refusal,
    ServerError,
    Unauthorized,
    refusal,
)


def ledger(code: str, message: str = "Why.", param: str | None = None) -> object:
    return {"error": {"type": "invalid_request", "code": code, "message": message, "param": param}}


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, Invalid),
        (401, Unauthorized),
        (403, Forbidden),
        (404, NotFound),
        (409, Invalid),
        (413, Invalid),
        (414, Invalid),
        (429, RateLimited),
        (500, ServerError),
        (503, ServerError),
    ],
)
def test_each_status_has_its_exception(status: int, kind: type[Refusal]) -> None:
    assert type(refusal(status, ledger("some_code"), {})) is kind


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
        ({"error": {"message": 5, "param": ["x"]}}, "", "5", None),
        ({"error": None}, "", "The server answered 400.", None),
        (["x"], "", "The server answered 400.", None),
        (None, "", "The server answered 400.", None),
    ],
)
def test_every_shape_of_an_error_body_is_understood(
    body: object, code: str, message: str, param: str | None
) -> None:
    error = refusal(400, body, {})
    assert (error.code, error.message, error.param) == (code, message, param)


@pytest.mark.parametrize(
    ("header", "seconds"), [("12", 12.0), ("0", 1.0), ("", 1.0), ("soon", 1.0), ("-3", 1.0)]
)
def test_a_rate_limit_says_how_long_to_wait(header: str, seconds: float) -> None:
    error = refusal(429, {"error": "rate_limited", "message": "Wait 12 seconds"}, {"retry-after": header})
    assert isinstance(error, RateLimited)
    assert error.retry_after == seconds


def test_a_duplicate_key_names_the_first_object_by_its_header() -> None:
    error = refusal(409, ledger("duplicate_idempotency_key"), {"idempotency-original": "txn_0001"})
    assert isinstance(error, AlreadyDone)
    assert error.original == "txn_0001"


def test_a_duplicate_key_names_the_first_object_in_its_message_where_there_is_no_header() -> None:
    error = refusal(409, ledger("duplicate_idempotency_key", "It was used for txn_0002."), {})
    assert isinstance(error, AlreadyDone)
    assert error.original == "txn_0002"


def test_another_conflict_is_not_taken_for_a_duplicate() -> None:
    assert not isinstance(refusal(409, ledger("invoice_not_open"), {}), AlreadyDone)
