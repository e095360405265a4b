"""The examiner: sends requests to a server and notes, rule by rule, whether the answers are as they must be.

What holds for every answer, such as the rate limit's headers, is looked at in every answer.

The rules are those of docs/interface.md, each with the sentence it has there: the one catalogue of the
contract. Each has a test that names it; `tests/house/test_rules.py` compares them with the page.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import httpx

from ledger_client.answers import Client, Unread
from ledger_client.parsing import parsed

RULES: dict[str, str] = {
    "service-https": (
        "The server speaks JSON over HTTPS. Clients read and write accounts, transactions and invoices."
    ),
    "service-webhooks": "It sends webhook events, and signs each one.",
    "service-v1": "The ledger's address, `{base_url}`, ends in the path prefix `/v1`.",
    "service-api": "The directory (health, users, orders) has paths that start with `/api`.",
    "service-oauth": (
        "An OAuth 2.0 authorization server stands at `{auth_url}`. Tokens are issued at `/v1/auth/token`."
    ),
    "service-json": "Requests and responses are `application/json` wherever nothing else is said.",
    "service-times": "A time is written in ISO 8601 and is UTC.",
    "service-amounts": (
        "An amount of money is an integer in the currency's smallest unit, for example cents."
    ),
    "service-test-keys": (
        "A key that begins with `sk_test_` works in test mode. Nothing done in test mode changes a "
        "live balance."
    ),
    "service-live-keys": "A key that begins with `sk_live_` works in live mode.",
    "account-currency": "An account has one balance in one currency.",
    "account-id": "`id`; string; starts with `acc_`",
    "account-object": "`object`; string; is always `account`",
    "account-name": "`name`; string; what people call the account",
    "account-iso-4217": "`currency`; string; an ISO 4217 code",
    "account-balance": "`balance`; integer; in the smallest unit; 0 for a new account",
    "account-created": "`created`; string; when it was made, ISO 8601 in UTC",
    "account-metadata": "`metadata`; object; at most 20 pairs of strings; `{}` when none were given",
    "transaction-moves": "A transaction moves money between accounts.",
    "transaction-account": "`account`; string; yes; the id of the source account",
    "transaction-amount": "`amount`; integer; yes; positive, in the smallest unit",
    "transaction-type": "`type`; string; yes; `credit` or `debit`; it alone gives the direction",
    "transaction-description": "`description`; string; no; appears on statements",
    "invoice-states": ("An invoice asks a customer for a payment. It is `draft`, `open`, `paid` or `void`."),
    "token-access-token": "`access_token`; string; a bearer token that does not live long",
    "token-token-type": "`token_type`; string; `Bearer`",
    "token-expires-in": "`expires_in`; integer; seconds: 3600",
    "token-refresh-token": "`refresh_token`; string; can be used once",
    "user-body": "The body that creates a user has `name`, `email` and `role`.",
    "order-body": "The body that places an order has `user_id` and `items`, an array.",
    "order-status": "Orders can be listed by their status: `open`, `paid` or `shipped`.",
    "list-fields": (
        "A list of the ledger answers with `data`, an array with the objects of this page; "
        "`has_more`, a boolean that says whether there are further ones; and `next_cursor`, a string "
        "to continue from."
    ),
    "invoice-patch": (
        "`PATCH /invoices/{id}` changes the fields that are sent and no others. The invoice stays a draft."
    ),
    "invoice-patch-draft-only": "It is always possible for a draft, and for a draft alone.",
    "invoice-void": "`DELETE /invoices/{id}` makes an open invoice `void`.",
    "invoice-void-kept": "The void invoice is kept for audits.",
    "user-deactivate": "`DELETE /api/users/{id}` deactivates a user and needs the role `admin`.",
    "get-accounts": "`GET /accounts`; `limit`, `starting_after`; a list, newest first",
    "get-accounts-id": "`GET /accounts/{id}`; one account",
    "post-accounts": "`POST /accounts`; the body below; the new account",
    "get-transactions": (
        "`GET /transactions`; `account`, `type`, `created_after`, `limit`, `starting_after`; a list"
    ),
    "post-transactions": ("`POST /transactions`; `account`, `amount`, `type`, `description`; a transaction"),
    "get-invoices-id": "`GET /invoices/{id}`; one invoice",
    "post-invoices": "`POST /invoices`; a body that is decided; an invoice",
    "patch-invoices-id": "`PATCH /invoices/{id}`; the fields to change; the invoice",
    "delete-invoices-id": "`DELETE /invoices/{id}`; voids an open invoice",
    "post-accounts-name": "`name`; string; yes; what people call the account",
    "post-accounts-currency": "`currency`; string; yes; an ISO 4217 code",
    "post-accounts-metadata": "`metadata`; object; no; at most 20 pairs of strings",
    "create-idempotency": (
        "A request that creates something should have the header `Idempotency-Key`; then a retry "
        "cannot post twice."
    ),
    "create-duplicate": "A key that was used before is answered with 409.",
    "lists-cursors": "Lists are read page by page with a cursor (pagination).",
    "post-auth-token-api-key": (
        "`POST /v1/auth/token`; `grant_type` = `api_key`, `api_key`; a token response"
    ),
    "post-auth-token-refresh-token": (
        "`POST /v1/auth/token`; `grant_type` = `refresh_token`, `refresh_token`; a new pair"
    ),
    "post-auth-token-json": (
        "The body is JSON. Success is 200. A refresh answers with a new access token and a new refresh token."
    ),
    "oauth-authorize": (
        "To sign in, the user is redirected to `{auth_url}/oauth/authorize` with `client_id`, "
        "`redirect_uri`, `scope`, `state` and `code_challenge`."
    ),
    "oauth-token": "The app exchanges the one-time code and its `code_verifier` at `/oauth/token`.",
    "get-api-health": (
        "`GET /api/health`; no credential; says whether the server is up: `ok`, a boolean, is true"
    ),
    "get-api-users": "`GET /api/users`; `page`, `per_page`, `role`; lists users",
    "post-api-users": "`POST /api/users`; `name`, `email`, `role`; creates a user",
    "get-api-users-id": "`GET /api/users/{id}`; one user",
    "delete-api-users-id": "`DELETE /api/users/{id}`; the role `admin`; deactivates the user",
    "get-api-orders": "`GET /api/orders`; `status`: `open`, `paid` or `shipped`; lists orders",
    "post-api-orders": "`POST /api/orders`; `user_id`, `items` (array); places an order",
    "auth-bearer": (
        "Each ledger request has the header `Authorization: Bearer <API_KEY>`: one space exactly, and"
        " no quotes."
    ),
    "auth-leaked-key": (
        "A key belongs on a server and never into code that others can read: a browser, a mobile app,"
        " a public repository. A leaked key is revoked and replaced."
    ),
    "auth-one-project": (
        "API keys are long-lived and each belongs to a single project. They are created in the dashboard."
    ),
    "auth-access-token": (
        "`/v1/auth/token` gives a short-lived access token for an API key or a refresh token. It is "
        "sent as `Authorization: Bearer <ACCESS_TOKEN>`."
    ),
    "auth-access-token-expiry": "An access token expires 3600 seconds after it was issued.",
    "auth-refresh-once": (
        "A refresh token works once: each refresh answers with another one, and the one that was sent"
        " stops working. Clients should refresh some 5 minutes before the access token expires."
    ),
    "auth-oauth": (
        "To act for other users an app uses the OAuth 2.0 authorization code flow with PKCE. The user"
        " signs in on the authorization server and comes back to `redirect_uri` with a one-time code."
        " The app checks that `state` is the value it stored, exchanges the code together with "
        "`code_verifier`, and keeps the refresh token on its server only."
    ),
    "auth-directory": (
        "Every request to the directory needs an `Authorization` header, except to its public "
        "endpoint `GET /api/health`."
    ),
    "auth-401": "A credential that is missing, malformed or expired is 401.",
    "auth-403": "A valid credential without the scope or role that is needed is 403.",
    "auth-webhook-signature": (
        "Each webhook delivery has the header `Ledger-Signature`: the HMAC-SHA-256 of the raw request"
        " body (UTF-8), keyed with the signing secret, in lowercase hex. The receiver computes it "
        "again and compares in constant time."
    ),
    "scope-read-projects": "`read:projects`; to list and view projects",
    "scope-write-projects": "`write:projects`; to create, update and archive projects",
    "scope-read-users": "`read:users`; to view the profiles of the organization's members",
    "scope-admin-billing": "`admin:billing`; to view and change billing details; needs the role `owner`",
    "events-webhooks": ("An HTTPS endpoint that was registered as a webhook receives events as they happen."),
    "errors-json": "An error has a status outside 2xx and a JSON body.",
    "errors-ledger-body": (
        'On the ledger the body is `{"error": {"type", "code", "message", "param"}}`: a type such as '
        "`invalid_request`, a code such as `missing_field`, a text for people, and the name of the "
        "parameter at fault."
    ),
    "errors-missing-field": (
        "A required parameter that is absent, such as `currency`, is 400 with type `invalid_request`,"
        " code `missing_field` and its name in `param`."
    ),
    "errors-directory-body": "In the directory the body is an object with `error` and `message`.",
    "errors-rate-limit-body": (
        "Over the rate limit `error` is the string `rate_limited`, and `message` says how many "
        "seconds to wait."
    ),
    "errors-400": "400; the request is malformed, or the body or a value in it is not valid",
    "errors-401": "401; the API key or token is missing or not valid",
    "errors-403": "403; the credential may not do this, or not to this resource",
    "errors-404": "404; there is no such resource",
    "errors-409": "409; there is a conflict, such as an idempotency key used before",
    "errors-413": "413; the body is too large",
    "errors-414": "414; the URI is too long",
    "errors-429": "429; the rate limit is exceeded; wait as long as `Retry-After` says",
    "errors-500": "500; the server failed",
    "rates-per-key": "Requests are counted for each API key, in a fixed window of one minute.",
    "rates-free": "Free; 60; 10",
    "rates-pro": "Pro; 600; 50",
    "rates-enterprise": "Enterprise; 6,000; as agreed",
    "rates-headers": (
        "Every response has `X-RateLimit-Limit`, the requests that the window allows, and "
        "`X-RateLimit-Remaining`, those that are left."
    ),
    "rates-reset": (
        "Every response has `X-RateLimit-Reset`, the Unix time in seconds at which the window starts anew."
    ),
    "rates-retry-after": "`Retry-After`, the seconds to wait, comes with a 429 and with nothing else.",
    "rates-over": ("Over the limit the answer is 429 with `Retry-After`, and `X-RateLimit-Remaining` is 0."),
    "rates-auth": ("Authentication endpoints have a stricter limit than all others. The figure is decided."),
    "sizes-json": "a JSON body; 1 MB",
    "sizes-file": "an uploaded file; 25 MB each",
    "sizes-url": "the URL; 8 KB",
    "sizes-headers": "the headers; 16 KB",
    "pages-limit": "A ledger list takes `limit`, 1 to 100, 20 by default.",
    "pages-starting-after": (
        "`starting_after` takes the cursor of the last item of the page before. The answer has "
        "`has_more` and `next_cursor`."
    ),
    "pages-generic": (
        "The general form of a list takes `limit`, at most 100 and 20 by default, and `cursor`."
    ),
    "pages-users": "The directory's list of users takes `page` and `per_page`.",
    "quotas-stored": "stored objects per account; 10,000; 500,000",
    "quotas-webhooks": "webhook endpoints per account; 5; 50",
    "quotas-request-logs": "Request logs are kept for 7 days.",
    "quotas-recoverable": "What was deleted can be recovered for 30 days.",
    "quotas-enterprise": "An enterprise plan can have higher rate limits and quotas.",
    "version-path": "The ledger and the token endpoint have their major version in the path: `/v1`.",
    "version-directory": (
        "The directory gives its version as a string in its status block: `1.4.2` at present."
    ),
}

_BODY_SHOWN = 600  # characters of a body in a report
_WAITS_MAX = 90  # answers 429 in a row that are waited out, each as long as it says


class Unreachable(Exception):
    """The server cannot be examined; the text says why."""


class Unusable(Exception):
    """An answer that the rest of a check needs is not there; the rules that it broke are noted."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request and its answer. `sent` and `got` are their texts, without secrets."""

    status: int
    headers: httpx.Headers
    text: str
    sent: str
    got: str

    @property
    def json(self) -> Any:
        """The answer's JSON; None for an answer that is not JSON."""
        try:
            return parsed(self.text)
        except ValueError:
            return None

    def field(self, *names: str) -> Any:
        """Return a field of the answer, or a field of that; None where there is none."""
        found = self.json
        for name in names:
            found = found.get(name) if isinstance(found, dict) else None
        return found

    @property
    def items(self) -> list[dict[str, Any]]:
        """The objects of a list, with or without an envelope."""
        found = self.json
        found = found.get("data") if isinstance(found, dict) else found
        return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


@dataclass(frozen=True, slots=True)
class Fault:
    """What breaks a rule: what was expected, the request, and the answer."""

    wanted: str
    request: str
    answer: str


_ID = re.compile(r"[A-Za-z0-9_.:~-]{1,200}")


def is_id(value: object) -> bool:
    """Return whether a value can be the id of an object, which is part of a path."""
    return isinstance(value, str) and _ID.fullmatch(value) is not None


def is_number(text: str) -> bool:
    """Return whether a header is a number without sign, of a sensible length."""
    return text.isascii() and text.isdigit() and len(text) < 16


class Examiner:
    """Asks one server with one key. `run` gives each request a mark, so that a retry is a new request."""

    def __init__(
        self,
        client: Client,
        key: str,
        mark: str,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self.key = key
        self.mark = mark
        self.passed: set[str] = set()
        self.faults: dict[str, Fault] = {}
        self.reasons: dict[str, str] = {}
        self._client = client
        self._sleep = sleep
        self._secrets = [key]

    def hide(self, secret: object) -> None:
        """Keep a value out of the report."""
        if isinstance(secret, str) and secret:
            self._secrets.append(secret)

    async def send(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        params: dict[str, str] | None = None,
        headers: dict[str, str] | None = None,
        anonymous: bool = False,
        content: bytes | None = None,
        patient: bool = True,
    ) -> Exchange:
        """Send a request with the key, unless it is `anonymous`, and return what came back.

        When it is `patient`, an answer 429 is waited out. Raises Unreachable.
        """
        sent = {} if anonymous else {"Authorization": f"Bearer {self.key}"}
        sent |= headers or {}
        if body is not None:
            content = json.dumps(body).encode()
            sent["Content-Type"] = "application/json"
        for _ in range(_WAITS_MAX):
            try:
                request = self._client.build_request(
                    method, path, params=params, headers=sent, content=content
                )
            except (httpx.InvalidURL, ValueError) as error:  # a token or cursor that the server has given
                raise Unreachable(f"{method} {path[:100]} cannot be sent: {error}") from error
            try:
                answer = await self._client.send(request)
            except Unread as error:
                raise Unreachable(f"{method} {path}: {error}") from error
            except httpx.HTTPError as error:
                why = str(error) or type(error).__name__
                raise Unreachable(f"No answer to {method} {request.url}: {why}") from error
            exchange = self._exchange(answer, sent, content)
            self._look(method, path, exchange)
            if exchange.status != 429 or not patient:
                return exchange
            after = exchange.headers.get("Retry-After", "1")
            await self._sleep(min(float(after) if is_number(after) else 1.0, 65.0))
        raise Unreachable(f"{method} {path} is still rate limited after several tries.")

    def expect(self, rule: str, holds: object, exchange: Exchange, wanted: str) -> bool:
        """Note whether the rule holds in this exchange; `wanted` says what must be so."""
        assert rule in RULES, rule
        if holds:
            self.passed.add(rule)
        else:
            self.faults.setdefault(rule, Fault(wanted, exchange.sent, exchange.got))
        return bool(holds)

    def require(self, rule: str, holds: object, exchange: Exchange, wanted: str) -> None:
        """Do the same, and raise Unusable when it does not hold."""
        if not self.expect(rule, holds, exchange, wanted):
            raise Unusable

    def skip(self, reason: str, *rules: str) -> None:
        """Note why these rules cannot be judged here."""
        for rule in rules:
            assert rule in RULES, rule
            self.reasons.setdefault(rule, reason)

    def _look(self, method: str, path: str, exchange: Exchange) -> None:
        """Look at what every answer must have."""
        headers, status = exchange.headers, exchange.status
        limit, remaining = headers.get("X-RateLimit-Limit", ""), headers.get("X-RateLimit-Remaining", "")
        self.expect(
            "rates-headers",
            is_number(limit) and is_number(remaining) and int(remaining) <= int(limit),
            exchange,
            "X-RateLimit-Limit and X-RateLimit-Remaining, numbers",
        )
        reset = headers.get("X-RateLimit-Reset", "")
        self.expect(
            "rates-reset",
            is_number(reset) and abs(int(reset) - time.time()) < 86_400,
            exchange,
            "X-RateLimit-Reset, a Unix time in seconds",
        )
        self.expect(
            "rates-retry-after",
            ("Retry-After" in headers) == (status == 429),
            exchange,
            "Retry-After with a 429 and with nothing else",
        )
        shown = exchange.text + str(headers)
        self.expect("auth-leaked-key", self.key not in shown, exchange, "no API key in an answer")
        if path.startswith("/oauth/authorize"):
            return
        media = headers.get("Content-Type", "").partition(";")[0].strip()
        self.expect("service-json", media == "application/json", exchange, "application/json")
        if status >= 400:
            self.expect("errors-json", isinstance(exchange.json, dict), exchange, "a JSON object")
            self._look_at_error(path, exchange)

    def _look_at_error(self, path: str, exchange: Exchange) -> None:
        error, message = exchange.field("error"), exchange.field("message")
        if exchange.status == 429:
            said = error == "rate_limited" and any(letter.isdigit() for letter in str(message))
            self.expect(
                "errors-rate-limit-body", said, exchange, "error rate_limited, and the seconds in message"
            )
        elif path.startswith("/api"):
            said = isinstance(error, str) and isinstance(message, str)
            self.expect("errors-directory-body", said, exchange, "the texts error and message")
        elif path.startswith("/v1"):
            fields = {"type", "code", "message", "param"}
            said = isinstance(error, dict) and fields <= error.keys() and isinstance(error["code"], str)
            self.expect("errors-ledger-body", said, exchange, "error with type, code, message and param")

    def _exchange(self, answer: httpx.Response, sent: dict[str, str], content: bytes | None) -> Exchange:
        request = [f"{answer.request.method} {answer.request.url}"[:300]]
        request += [f"{name}: {value}"[:200] for name, value in sent.items()]
        if content is not None:
            request += ["", content[:_BODY_SHOWN].decode("utf-8", "replace")]
        kept = ("content-type", "retry-after", "request-id")
        named = [
            f"{name}: {value}"
            for name, value in answer.headers.items()
            if name in kept or name.startswith("x-rate")
        ]
        got = [f"{answer.status_code} {answer.reason_phrase}", *named, "", answer.text[:_BODY_SHOWN]]
        return Exchange(
            answer.status_code,
            answer.headers,
            answer.text,
            self._masked("\n".join(request)),
            self._masked("\n".join(got)),
        )

    def _masked(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, f"{secret[:8]}…")
        return text
