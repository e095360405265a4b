"""The checks that change nothing, for `conform --read-only`."""

from __future__ import annotations

import re
from typing import Any

from ledger_engine.tools.conform.examiner import ExaminedExchange, Examiner, is_number

_TIME = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?(Z|\+00:00)")


def is_time(value: object) -> bool:
    """Return whether a value is a time in ISO 8601 and UTC."""
    return isinstance(value, str) and _TIME.fullmatch(value) is not None


def is_amount(value: object) -> bool:
    """Return whether a value is an integer; true and false are not integers."""
    return type(value) is int


async def health(examiner: Examiner) -> None:
    answer = await examiner.send("GET", "/api/health", anonymous=True)
    good = answer.status == 200 and answer.field("ok") is True
    examiner.expect("get-api-health", good, answer, "200 and ok true, without a credential")
    version = answer.field("version")
    examiner.expect("version-directory", isinstance(version, str) and version, answer, "a version, as text")


async def credentials(examiner: Examiner) -> None:
    key = examiner.key
    for rule, value in (
        ("auth-401", None),
        ("auth-401", "Bearer sk_test_" + "0" * 32),
        ("auth-bearer", f"Bearer  {key}"),
        ("auth-bearer", f'Bearer "{key}"'),
        ("auth-bearer", key),
    ):
        headers = {} if value is None else {"Authorization": value}
        answer = await examiner.send("GET", "/v1/accounts", headers=headers, anonymous=True)
        examiner.expect(rule, answer.status == 401, answer, "401")
        examiner.expect("errors-401", answer.status == 401, answer, "401")
    for path in ("/api/users", "/api/orders"):
        answer = await examiner.send("GET", path, anonymous=True)
        examiner.expect("auth-directory auth-401", answer.status == 401, answer, "401 without a credential")
    for path in ("/v1/transactions", "/v1/invoices/inv_none"):
        answer = await examiner.send("GET", path, anonymous=True)
        examiner.expect("auth-bearer auth-401", answer.status == 401, answer, "401 without a credential")


async def lists(examiner: Examiner) -> None:
    for path, by in (
        ("/v1/accounts", "get-accounts"),
        ("/v1/transactions", "get-transactions"),
    ):
        answer = await examiner.send("GET", path)
        examiner.expect(by, answer.status == 200, answer, "200")
        if path == "/v1/accounts":
            examiner.expect("auth-bearer", answer.status == 200, answer, "200 with the key")
            examiner.expect("service-v1 version-path", answer.status == 200, answer, "200 under /v1")
        envelope(examiner, answer)
        for item in answer.items:
            examiner.expect(
                "service-times", is_time(item.get("created", "2026-01-01T00:00:00Z")), answer, "UTC"
            )
        for limit in ("0", "101", "many"):
            answer = await examiner.send("GET", path, params={"limit": limit})
            few = answer.status == 400 or len(answer.items) <= 100
            examiner.expect("pages-limit", few, answer, "400, or at most 100 items")
    answer = await examiner.send("GET", "/v1/accounts", params={"starting_after": "no cursor"})
    examiner.expect("errors-400", answer.status == 400, answer, "400 for an invalid cursor")
    answer = await examiner.send("GET", "/v1/transactions", params={"type": "refund"})
    examiner.expect("errors-400", answer.status == 400, answer, "400 for an unknown type")


def envelope(examiner: Examiner, answer: ExaminedExchange) -> None:
    """Check the envelope of a ledger list."""
    body = answer.json if isinstance(answer.json, dict) else {}
    after = body.get("next_cursor")
    good = isinstance(body.get("data"), list) and isinstance(body.get("has_more"), bool)
    good = good and (
        isinstance(after, str) if body.get("has_more") else after is None or isinstance(after, str)
    )
    examiner.expect("list-fields", good, answer, "data, has_more and next_cursor")


async def directory(examiner: Examiner) -> None:
    answer = await examiner.send("GET", "/api/users", params={"page": "1", "per_page": "1"})
    examiner.expect("get-api-users", answer.status == 200, answer, "200")
    examiner.expect("service-api", answer.status == 200, answer, "200 under /api")
    examiner.expect("pages-users", len(answer.items) <= 1, answer, "at most as many as per_page")
    for status in ("open", "paid", "shipped"):
        answer = await examiner.send("GET", "/api/orders", params={"status": status})
        examiner.expect("get-api-orders", answer.status == 200, answer, "200")
        right = all(item.get("status") == status for item in answer.items)
        examiner.expect("order-status", right, answer, f"only orders that are {status}")


async def remaining_requests(examiner: Examiner) -> None:
    """Send two requests in the same minute. The second answer must show fewer remaining requests."""
    for _ in range(3):
        first = await examiner.send("GET", "/v1/accounts", params={"limit": "1"})
        second = await examiner.send("GET", "/v1/accounts", params={"limit": "1"})
        if first.headers.get("X-RateLimit-Reset") == second.headers.get("X-RateLimit-Reset"):
            left = [each.headers.get("X-RateLimit-Remaining", "") for each in (first, second)]
            fewer = all(map(is_number, left)) and int(left[1]) < int(left[0])
            examiner.expect("rates-per-key", fewer, second, "fewer requests left than before")
            return


async def missing_objects(examiner: Examiner) -> None:
    for path in (
        *("/v1/accounts/acc_none", "/v1/invoices/inv_none", "/v1/nothing"),
        *("/api/users/usr_none", "/api/nothing"),
    ):
        answer = await examiner.send("GET", path)
        examiner.expect("errors-404", answer.status == 404, answer, "404")


async def sizes(examiner: Examiner) -> None:
    answer = await examiner.send("GET", "/v1/accounts?x=" + "x" * 8200)
    examiner.expect("sizes-url errors-414", answer.status == 414, answer, "414 for a URL over 8 KB")
    many = {f"X-Filler-{number}": "x" * 1000 for number in range(17)}
    answer = await examiner.send("GET", "/v1/accounts", headers=many)
    is_refused = 400 <= answer.status < 500
    examiner.expect("sizes-headers", is_refused, answer, "a refusal of headers over 16 KB")


async def oauth(examiner: Examiner) -> None:
    answer = await examiner.send("GET", "/oauth/authorize", anonymous=True)
    is_refused = 400 <= answer.status < 500 and answer.status != 404
    examiner.expect(
        "oauth-authorize", is_refused, answer, "a refusal other than 404, for a request without parameters"
    )
    examiner.expect("service-oauth", is_refused, answer, "an authorization server")
    body: dict[str, Any] = {"code": "ac_none", "code_verifier": "v" * 43}
    answer = await examiner.send("POST", "/oauth/token", body, anonymous=True)
    is_refused = answer.status in (400, 401) and isinstance(answer.field("error"), str)
    examiner.expect("oauth-token", is_refused, answer, "400 with an error, for an unknown code")


READING = (
    health,
    credentials,
    lists,
    remaining_requests,
    directory,
    missing_objects,
    sizes,
    oauth,
)
