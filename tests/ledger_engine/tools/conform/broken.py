"""Servers in each of which one rule of the contract is broken: wrappers around the application.

Each breakage changes an answer on its way out. It is given the request's method, path, query and body.
"""

from __future__ import annotations

import json
from collections.abc import Callable, MutableMapping
from dataclasses import dataclass
from typing import Any

Asgi = Callable[..., Any]


@dataclass
class Reply:
    """An answer that is changed in place; `data` is its JSON."""

    method: str
    path: str
    query: str
    sent: Any
    status: int
    headers: dict[str, str]
    data: Any
    authorization: str

    def is_(self, method: str, path: str, status: int = 0) -> bool:
        """Whether this is an answer to the method and path; a path that ends in `*` is a beginning."""
        same = self.path.startswith(path[:-1]) if path.endswith("*") else self.path == path
        return self.method == method and same and status in (0, self.status)


Breakage = Callable[[Reply], None]


def wrapped(app: Asgi, breakage: Breakage) -> Asgi:
    """Return the application with its answers changed by the breakage."""

    async def serve(scope: MutableMapping[str, Any], receive: Asgi, send: Asgi) -> None:
        sent, messages = b"", []

        async def reading() -> Any:
            nonlocal sent
            message = await receive()
            sent += message.get("body", b"")
            return message

        async def keep(message: Any) -> None:
            messages.append(message)

        await app(scope, reading, keep)
        start = next(each for each in messages if each["type"] == "http.response.start")
        body = b"".join(each.get("body", b"") for each in messages)
        headers = {name.decode().lower(): value.decode() for name, value in start["headers"]}
        authorization = dict(scope["headers"]).get(b"authorization", b"").decode()
        found = (start["status"], headers, _json(body), authorization)
        reply = Reply(scope["method"], scope["path"], scope["query_string"].decode(), _json(sent), *found)
        before = json.dumps(reply.data)
        breakage(reply)
        if json.dumps(reply.data) != before:
            body = json.dumps(reply.data).encode()
            reply.headers["content-length"] = str(len(body))
        pairs = [(name.encode(), value.encode("latin-1")) for name, value in reply.headers.items()]
        await send({"type": "http.response.start", "status": reply.status, "headers": pairs})
        await send({"type": "http.response.body", "body": body})

    return serve


def _json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        return None


def status(method: str, path: str, found: int, given: int) -> Breakage:
    """Answer `given` where the server answers `found`."""

    def breakage(reply: Reply) -> None:
        if reply.is_(method, path, found):
            reply.status = given

    return breakage


def field(method: str, path: str, name: str, change: Callable[[Any], Any]) -> Breakage:
    """Change a field of each success."""

    def breakage(reply: Reply) -> None:
        if (
            reply.is_(method, path)
            and reply.status < 300
            and isinstance(reply.data, dict)
            and name in reply.data
        ):
            reply.data[name] = change(reply.data[name])

    return breakage


def listed(path: str, change: Callable[[list[Any]], list[Any]]) -> Breakage:
    """Change the items of a list."""
    return field("GET", path, "data", change)


def header(name: str, value: str | None, at: int = 0) -> Breakage:
    """Set a header of every answer (of this status), or remove it."""

    def breakage(reply: Reply) -> None:
        if at not in (0, reply.status):
            return
        reply.headers.pop(name, None)
        if value is not None:
            reply.headers[name] = value

    return breakage


def error(path: str, at: int, change: Callable[[dict[str, Any]], Any]) -> Breakage:
    """Change the body of an error."""

    def breakage(reply: Reply) -> None:
        if reply.path.startswith(path) and reply.status == at and isinstance(reply.data, dict):
            reply.data = change(reply.data)

    return breakage


def leak(reply: Reply) -> None:
    if reply.is_("POST", "/v1/accounts", 201):
        reply.headers["x-debug"] = reply.authorization


def ignored_type(reply: Reply) -> None:
    if "type=credit" in reply.query and reply.data["data"]:
        reply.data["data"] *= 2


def stuck_cursor(reply: Reply) -> None:
    if reply.is_("GET", "/v1/transactions") and reply.data and reply.data.get("has_more"):
        reply.data["next_cursor"] = reply.data["data"][0]["id"]


def deaf_patch(reply: Reply) -> None:
    if reply.is_("PATCH", "/v1/invoices/*", 200):
        reply.data["amount"] = 1


def lax_bearer(reply: Reply) -> None:
    if reply.status == 401 and "  " in reply.authorization:
        reply.status, reply.data = 200, {"data": [], "has_more": False, "next_cursor": None}


def posted_twice(reply: Reply) -> None:
    if reply.is_("GET", "/v1/accounts/*", 200) and reply.data["balance"] == 5:
        reply.data["balance"] = 10


def wrong_sign(reply: Reply) -> None:
    if reply.is_("GET", "/v1/accounts/*", 200) and reply.data["balance"] == 500:
        reply.data["balance"] = -500


def generic_limit(reply: Reply) -> None:
    if reply.is_("GET", "/api/orders", 200) and "limit=1" in reply.query:
        reply.data["data"] *= 3


def no_refresh(reply: Reply) -> None:
    if reply.is_("POST", T, 200) and reply.sent["grant_type"] == "refresh_token":
        reply.status = 201


def deaf_to_tokens(reply: Reply) -> None:
    if reply.is_("GET", "/v1/accounts", 200) and reply.authorization.startswith("Bearer at_"):
        reply.status = 401


def deactivated_by_members(reply: Reply) -> None:
    if reply.is_("GET", "/api/users/*", 200) and reply.data["status"] == "active":
        reply.data["deactivated_at"] = reply.path + str(id(reply))


def one_account(reply: Reply) -> None:
    if reply.is_("POST", "/v1/accounts", 201):
        reply.data["id"] = "acc_the_same"


def open_to_writers(reply: Reply) -> None:
    if reply.method != "GET" and reply.path.startswith("/api/") and not reply.authorization:
        reply.status = 404


def patched_open(reply: Reply) -> None:
    if reply.is_("PATCH", "/v1/invoices/*", 200):
        reply.data["status"] = "open"


def lost_customer(reply: Reply) -> None:
    if reply.is_("GET", "/v1/invoices/*", 200) and reply.data["status"] == "void":
        reply.data["customer"] = None


def float_balance(reply: Reply) -> None:
    if reply.is_("GET", "/v1/accounts/*", 200) and reply.data["balance"]:
        reply.data["balance"] = float(reply.data["balance"])


T = "/v1/auth/token"
BROKEN: dict[str, tuple[str, Breakage]] = {
    "health is not ok": ("get-api-health", field("GET", "/api/health", "ok", lambda _: "yes")),
    "the version is a number": ("version-directory", field("GET", "/api/health", "version", lambda _: 1.4)),
    "no limit header": ("rates-headers", header("x-ratelimit-limit", None)),
    "no remaining header": ("rates-headers", header("x-ratelimit-remaining", None)),
    "nothing is counted": ("rates-per-key", header("x-ratelimit-remaining", "7")),
    "the reset is a duration": ("rates-reset", header("x-ratelimit-reset", "30")),
    "Retry-After on a success": ("rates-retry-after", header("retry-after", "1", at=200)),
    "429 without Retry-After": ("rates-retry-after", header("retry-after", None, at=429)),
    "requests left when over the limit": ("rates-over", header("x-ratelimit-remaining", "3", at=429)),
    "a 429 of another shape": ("errors-rate-limit-body", error("/v1", 429, lambda _: {"error": "slow"})),
    "the token endpoint is as generous": (
        "rates-auth",
        lambda reply: reply.headers.update({"x-ratelimit-limit": "1000000"}),
    ),
    "text/html": ("service-json", header("content-type", "text/html", at=201)),
    "a key in a header": ("auth-leaked-key", leak),
    "an error is a text": ("errors-json", error("/v1", 404, lambda body: "not found")),
    "a ledger error without param": (
        "errors-ledger-body",
        error("/v1", 404, lambda body: {"error": {"type": "x", "code": "y", "message": "z"}}),
    ),
    "a directory error like the ledger's": (
        "errors-directory-body",
        error("/api", 404, lambda body: {"error": {"code": "x"}}),
    ),
    "a missing field without its name": (
        "errors-missing-field",
        error("/v1/accounts", 400, lambda body: {"error": {**body["error"], "param": None}}),
    ),
    "an account is 200": ("post-accounts", status("POST", "/v1/accounts", 201, 200)),
    "an id without prefix": ("account-id", field("POST", "/v1/accounts", "id", lambda id: id[4:])),
    "another object": ("account-object", field("POST", "/v1/accounts", "object", lambda _: "accounts")),
    "another name": ("account-name", field("POST", "/v1/accounts", "name", str.upper)),
    "a currency in lower case": ("account-iso-4217", field("POST", "/v1/accounts", "currency", str.lower)),
    "float money": ("account-balance", field("POST", "/v1/accounts", "balance", float)),
    "money as text": ("service-amounts", field("POST", "/v1/transactions", "amount", str)),
    "a time without zone": ("account-created", field("POST", "/v1/accounts", "created", lambda t: t[:-1])),
    "a Unix time": ("service-times", field("POST", "/v1/accounts", "created", lambda _: 1_790_000_000)),
    "no metadata": ("account-metadata", field("POST", "/v1/accounts", "metadata", lambda _: None)),
    "any currency goes": ("post-accounts-currency", status("POST", "/v1/accounts", 400, 201)),
    "an account that reads differently": (
        "get-accounts-id",
        field("GET", "/v1/accounts/*", "name", str.title),
    ),
    "accounts oldest first": ("get-accounts", listed("/v1/accounts", lambda items: items[::-1])),
    "nothing is missing": ("errors-404", status("GET", "/v1/accounts/acc_none", 404, 400)),
    "a second use is 200": ("create-duplicate", status("POST", "/v1/transactions", 409, 200)),
    "a second use is 400": ("errors-409", status("POST", "/v1/transactions", 409, 400)),
    "a retry posts twice": ("create-idempotency", posted_twice),
    "a posting is 202": ("post-transactions", status("POST", "/v1/transactions", 201, 202)),
    "a debit adds": ("transaction-type", wrong_sign),
    "an amount of nothing": ("transaction-amount", status("POST", "/v1/transactions", 400, 201)),
    "no description": (
        "transaction-description",
        field("POST", "/v1/transactions", "description", lambda _: ""),
    ),
    "transactions oldest first": ("get-transactions", listed("/v1/transactions", lambda items: items[::-1])),
    "the type filter repeats": ("get-transactions", ignored_type),
    "a page of 10": ("pages-limit", listed("/v1/transactions", lambda items: items[:10])),
    "a cursor of the first item": ("pages-starting-after", stuck_cursor),
    "a page without its last item": ("lists-cursors", listed("/v1/transactions", lambda items: items[:7])),
    "has_more as text": ("list-fields", field("GET", "/v1/transactions", "has_more", str)),
    "an invoice is open at once": (
        "invoice-states",
        field("POST", "/v1/invoices", "status", lambda _: "open"),
    ),
    "an invoice cannot be read": ("get-invoices-id", status("GET", "/v1/invoices/*", 200, 404)),
    "PATCH changes other fields": ("invoice-patch", deaf_patch),
    "an open invoice can be changed": (
        "invoice-patch-draft-only",
        status("PATCH", "/v1/invoices/*", 409, 200),
    ),
    "a void invoice is paid": ("invoice-void", field("GET", "/v1/invoices/*", "status", lambda _: "paid")),
    "a void invoice is gone": ("invoice-void-kept", status("GET", "/v1/invoices/*", 200, 404)),
    "a token is 201": ("post-auth-token-api-key", status("POST", T, 200, 201)),
    "a token of another type": ("token-token-type", field("POST", T, "token_type", lambda _: "bearer")),
    "a token that lives long": ("token-expires-in", field("POST", T, "expires_in", lambda _: 86_400)),
    "no refresh token": ("token-refresh-token", field("POST", T, "refresh_token", lambda _: None)),
    "a refresh token works twice": ("auth-refresh-once", status("POST", T, 401, 200)),
    "a key that is none is 403": ("auth-401", status("GET", "/v1/accounts", 401, 403)),
    "two spaces": ("auth-bearer", lax_bearer),
    "a directory for everybody": ("auth-directory", status("GET", "/api/users", 401, 200)),
    "a user is 200": ("post-api-users", status("POST", "/api/users", 201, 200)),
    "a user without the role": ("user-body", field("POST", "/api/users", "role", lambda _: "admin")),
    "a user cannot be read": ("get-api-users-id", status("GET", "/api/users/*", 200, 404)),
    "members may deactivate": ("delete-api-users-id", status("DELETE", "/api/users/*", 403, 200)),
    "no right is 401": ("auth-403", status("DELETE", "/api/users/*", 403, 401)),
    "per_page is ignored": ("pages-users", listed("/api/users", lambda items: items * 2)),
    "an order without its items": ("order-body", field("POST", "/api/orders", "items", lambda _: [])),
    "orders of any status": (
        "order-status",
        listed("/api/orders", lambda items: [{**item, "status": "lost"} for item in items]),
    ),
    "limit is ignored": ("pages-generic", generic_limit),
    "a long URL is 400": ("sizes-url", status("GET", "/v1/accounts", 414, 400)),
    "a large body is 400": ("sizes-json", status("POST", "/v1/accounts", 413, 400)),
    "no authorization server": ("oauth-token", status("POST", "/oauth/token", 400, 404)),
    "the ledger is elsewhere": ("service-v1", status("GET", "/v1/accounts", 200, 404)),
    "the ledger has no version": ("version-path", status("GET", "/v1/accounts", 200, 404)),
    "the directory is elsewhere": ("service-api", status("GET", "/api/users", 200, 404)),
    "users cannot be listed": ("get-api-users", status("GET", "/api/users", 200, 403)),
    "orders cannot be listed": ("get-api-orders", status("GET", "/api/orders", 200, 403)),
    "nobody can sign in": ("service-oauth", status("GET", "/oauth/authorize", 400, 404)),
    "a sign-in without parameters is good": ("oauth-authorize", status("GET", "/oauth/authorize", 400, 200)),
    "another currency": ("account-currency", field("POST", "/v1/accounts", "currency", lambda _: "USD")),
    "accounts without a name": ("post-accounts-name", status("POST", "/v1/accounts", 400, 201)),
    "any metadata goes": ("post-accounts-metadata", status("POST", "/v1/accounts", 400, 201)),
    "accounts are listed in short": (
        "get-accounts",
        listed("/v1/accounts", lambda items: [{**item, "metadata": None} for item in items]),
    ),
    "a request without a key is a retry": ("create-idempotency", one_account),
    "a posting moves nothing": ("transaction-moves", field("GET", "/v1/accounts/*", "balance", lambda _: 0)),
    "a balance with a point": ("service-amounts", float_balance),
    "another account's posting": (
        "transaction-account",
        field("POST", "/v1/transactions", "account", lambda _: "acc_other"),
    ),
    "an invoice is 200": ("post-invoices", status("POST", "/v1/invoices", 201, 200)),
    "a change is 202": ("patch-invoices-id", status("PATCH", "/v1/invoices/*", 200, 202)),
    "a change opens the draft": ("invoice-patch", patched_open),
    "nothing can be voided": ("delete-invoices-id", status("DELETE", "/v1/invoices/*", 200, 500)),
    "a void invoice without its customer": ("invoice-void-kept", lost_customer),
    "no access token": ("token-access-token", field("POST", T, "access_token", lambda _: None)),
    "an access token for a day": (
        "auth-access-token-expiry",
        field("POST", T, "expires_in", lambda _: 86_400),
    ),
    "access tokens are refused": ("auth-access-token", deaf_to_tokens),
    "a refresh is 201": ("post-auth-token-refresh-token", no_refresh),
    "a refresh changes nothing": (
        "post-auth-token-json",
        field("POST", T, "access_token", lambda _: "at_same"),
    ),
    "a user without an email": ("user-body", status("POST", "/api/users", 400, 201)),
    "a directory that anybody may write": ("auth-directory", open_to_writers),
    "a refusal that changes the user": ("user-deactivate", deactivated_by_members),
    "an order of a deactivated user": ("user-deactivate", status("POST", "/api/orders", 409, 201)),
    "an order is 200": ("post-api-orders", status("POST", "/api/orders", 201, 200)),
    "an unknown cursor is the first page": ("errors-400", status("GET", "/v1/accounts", 400, 200)),
    "half a body is an error of the server": ("errors-400", status("POST", "/api/users", 400, 500)),
    "an unknown key is 403": ("errors-401", status("GET", "/v1/accounts", 401, 403)),
    "no right is 404": ("errors-403", status("DELETE", "/api/users/*", 403, 404)),
    "a path that is none is 400": ("errors-404", status("GET", "/api/nothing", 404, 400)),
    "a large body is 411": ("errors-413", status("POST", "/api/users", 413, 411)),
    "a large body in the ledger's shape": (
        "errors-directory-body",
        error("/api", 413, lambda body: {"error": {"code": "payload_too_large"}}),
    ),
    "a long URL is 404": ("errors-414", status("GET", "/v1/accounts", 414, 404)),
    "nobody says how long to wait": ("errors-429", header("retry-after", None, at=429)),
    "headers of any size": ("sizes-headers", status("GET", "/v1/accounts", 431, 200)),
}
# The rules that `conform` proves: it has been seen to tell a server by them.
PROVEN = {rule for rule, _ in BROKEN.values()}
