"""The checks that write. They create the accounts, invoices and other objects that they need."""

from __future__ import annotations

from typing import Any

from ledger_engine.tools.conform.examiner import ExaminedExchange, Examiner, is_id, is_number
from ledger_engine.tools.conform.reading import envelope, is_amount, is_time

_MANY = 21  # one more than a page contains by default
_OPTIONAL = "this check needs an operation beyond the contract, and the server does not offer it"


async def accounts(examiner: Examiner) -> None:
    account = await _account(examiner, metadata={"purpose": "conform"})
    id = account.field("id")
    examiner.expect("account-object", account.field("object") == "account", account, "object: account")
    rules = "account-name post-accounts-name"
    examiner.expect(rules, account.field("name") == _name(examiner), account, "the name that was sent")
    rules = "account-iso-4217 account-currency post-accounts-currency"
    examiner.expect(rules, account.field("currency") == "EUR", account, "currency: EUR")
    balance = account.field("balance")
    examiner.expect("account-balance", is_amount(balance) and balance == 0, account, "the integer 0")
    examiner.expect("service-amounts", is_amount(balance), account, "an integer")
    examiner.expect(
        "account-created service-times", is_time(account.field("created")), account, "ISO 8601 in UTC"
    )
    same = account.field("metadata") == {"purpose": "conform"}
    examiner.expect("account-metadata post-accounts-metadata", same, account, "the metadata that was sent")
    read = await examiner.send("GET", f"/v1/accounts/{id}")
    same = read.status == 200 and read.json == account.json
    examiner.expect("get-accounts-id", same, read, "200 and the account as it was made")
    bare = await _account(examiner)
    examiner.expect("account-metadata", bare.field("metadata") == {}, bare, "metadata: {}")
    listing = await examiner.send("GET", "/v1/accounts", params={"limit": "2"})
    newest = [item.get("id") for item in listing.items] == [bare.field("id"), id]
    examiner.expect("get-accounts", newest, listing, "the newest account first")
    whole = listing.items == [bare.json, account.json]
    examiner.expect("get-accounts", whole, listing, "the accounts as they were made")
    two = bare.field("id") != id
    examiner.expect("create-idempotency", two, bare, "another account, because no key was sent")
    await _refused_accounts(examiner)


async def anonymous_writes(examiner: Examiner) -> None:
    """Try to write without a credential. A server that keeps the contract refuses this and writes nothing."""
    for rule, method, path in (
        ("auth-bearer", "POST", "/v1/accounts"),
        ("auth-bearer", "POST", "/v1/transactions"),
        ("auth-bearer", "DELETE", "/v1/invoices/inv_none"),
        ("auth-directory", "POST", "/api/users"),
        ("auth-directory", "DELETE", "/api/users/usr_none"),
        ("auth-directory", "POST", "/api/orders"),
    ):
        answer = await examiner.send(method, path, anonymous=True)
        examiner.expect(
            f"{rule} auth-401 errors-401", answer.status == 401, answer, "401 without a credential"
        )


async def _refused_accounts(examiner: Examiner) -> None:
    body = {"name": _name(examiner), "currency": "EUR"}
    for name in body:
        answer = await examiner.send("POST", "/v1/accounts", {k: v for k, v in body.items() if k != name})
        error = answer.field("error")
        is_named = isinstance(error, dict) and answer.status == 400
        is_named = is_named and (error.get("type"), error.get("code")) == ("invalid_request", "missing_field")
        is_named = is_named and error.get("param") == name
        examiner.expect("errors-missing-field", is_named, answer, f"400 missing_field, with {name} in param")
        examiner.expect(f"post-accounts-{name}", answer.status == 400, answer, "400")
    for wrong in (
        {**body, "currency": "no code"},
        {**body, "metadata": {str(number): "" for number in range(21)}},
        {**body, "metadata": {"a": 1}},
    ):
        answer = await examiner.send("POST", "/v1/accounts", wrong)
        rule = "post-accounts-metadata" if "metadata" in wrong else "post-accounts-currency"
        examiner.expect(rule, answer.status == 400, answer, "400")
    answer = await examiner.send(
        "POST", "/v1/accounts", content=b"{", headers={"Content-Type": "application/json"}
    )
    examiner.expect("errors-400", answer.status == 400, answer, "400 for invalid JSON")
    answer = await examiner.send("POST", "/v1/accounts", {**body, "name": "x" * 1_100_000})
    examiner.expect("sizes-json errors-413", answer.status == 413, answer, "413 for a body over 1 MB")


async def idempotency(examiner: Examiner) -> None:
    made = await _account(examiner)
    headers = {"Idempotency-Key": f"{examiner.mark}-posting"}
    posting = {"account": made.field("id"), "amount": 5, "type": "credit"}
    first = await examiner.send("POST", "/v1/transactions", posting, headers=headers)
    examiner.require("post-transactions", first.status == 201, first, "201 and a transaction")
    again = await examiner.send("POST", "/v1/transactions", posting, headers=headers)
    examiner.expect("create-duplicate errors-409", again.status == 409, again, "409 for a key that was used")
    account = await examiner.send("GET", f"/v1/accounts/{made.field('id')}")
    examiner.expect("create-idempotency", account.field("balance") == 5, account, "one posting of 5")


async def transactions(examiner: Examiner) -> None:
    made = await _account(examiner)
    id = made.field("id")
    for amount, type in ((700, "credit"), (200, "debit")):
        posting = {"account": id, "amount": amount, "type": type, "description": "Beans"}
        answer = await examiner.send("POST", "/v1/transactions", posting)
        examiner.require("post-transactions", answer.status == 201, answer, "201 and a transaction")
        for rule, name in (
            ("transaction-account", "account"),
            ("transaction-amount", "amount"),
            ("transaction-type", "type"),
            ("transaction-description", "description"),
        ):
            examiner.expect(rule, answer.field(name) == posting[name], answer, f"the {name} that was sent")
        examiner.expect("service-amounts", is_amount(answer.field("amount")), answer, "an integer")
    account = await examiner.send("GET", f"/v1/accounts/{id}")
    balance = account.field("balance")
    rules = "transaction-moves transaction-type"
    examiner.expect(rules, balance == 500, account, "a balance of 700 - 200 = 500")
    examiner.expect("service-amounts account-balance", is_amount(balance), account, "an integer")
    good = {"account": id, "amount": 1, "type": "credit"}
    for rule, wrong in (
        ("transaction-amount", {"amount": 0}),
        ("transaction-amount", {"amount": -1}),
        ("transaction-amount", {"amount": 1.5}),
        ("transaction-type", {"type": "refund"}),
    ):
        answer = await examiner.send("POST", "/v1/transactions", {**good, **wrong})
        examiner.expect(rule, answer.status == 400, answer, "400")
    answer = await examiner.send("POST", "/v1/transactions", {**good, "account": "acc_none"})
    examiner.expect("transaction-account", answer.status in (400, 404), answer, "404 for an unknown account")
    await _filtered(examiner, id)


async def _filtered(examiner: Examiner, account: str) -> None:
    rule = "get-transactions"
    listing = await examiner.send("GET", "/v1/transactions", params={"account": account})
    types = [item.get("type") for item in listing.items]
    examiner.expect(rule, types == ["debit", "credit"], listing, "the account's transactions, newest first")
    listing = await examiner.send("GET", "/v1/transactions", params={"account": account, "type": "credit"})
    amounts = [item.get("amount") for item in listing.items]
    examiner.expect(rule, amounts == [700], listing, "the account's credits alone")
    listing = await examiner.send("GET", "/v1/transactions", params={"created_after": "2999-01-01T00:00:00Z"})
    examiner.expect(rule, listing.status == 200 and not listing.items, listing, "nothing from the future")
    params = {"account": account, "created_after": "2000-01-01T00:00:00Z"}
    listing = await examiner.send("GET", "/v1/transactions", params=params)
    examiner.expect(rule, len(listing.items) == 2, listing, "both transactions")


async def pages(examiner: Examiner) -> None:
    made = await _account(examiner)
    account, ids = made.field("id"), []
    for number in range(_MANY):
        body = {"account": account, "amount": 1 + number, "type": "credit"}
        ids.append(str((await examiner.send("POST", "/v1/transactions", body)).field("id")))
    listing = await examiner.send("GET", "/v1/transactions", params={"account": account})
    examiner.expect("pages-limit", len(listing.items) == 20, listing, "20 items without a limit")
    envelope(examiner, listing)
    examiner.expect("list-fields", listing.field("has_more") is True, listing, "has_more: true")
    ids_listed: list[str] = []
    after: Any = None
    for _ in range(_MANY):
        params = {"account": account, "limit": "8"} | ({} if after is None else {"starting_after": after})
        listing = await examiner.send("GET", "/v1/transactions", params=params)
        examiner.expect("pages-limit", len(listing.items) <= 8, listing, "at most 8 items")
        ids_listed += [str(item.get("id")) for item in listing.items]
        after = listing.field("next_cursor")
        if listing.field("has_more") is not True or not isinstance(after, str):
            break
    rules = "pages-starting-after lists-cursors"
    examiner.expect(rules, sorted(ids_listed) == sorted(ids), listing, "each item once, over all pages")
    examiner.expect("get-transactions", ids_listed == ids[::-1], listing, "the newest first, over all pages")


async def invoices(examiner: Examiner) -> None:
    account_made = await _account(examiner)
    body = {"account": account_made.field("id"), "customer": "Conform", "amount": 1200}
    draft = await examiner.send("POST", "/v1/invoices", body)
    if draft.status == 400:
        examiner.skip(
            "the contract leaves the body of an invoice open, and this server takes another", *_INVOICES
        )
        return
    made_one = draft.status == 201 and is_id(draft.field("id"))
    examiner.require("post-invoices", made_one, draft, "201 and an invoice with an id")
    examiner.expect("invoice-states", draft.field("status") == "draft", draft, "status: draft")
    path = f"/v1/invoices/{draft.field('id')}"
    read = await examiner.send("GET", path)
    examiner.expect("get-invoices-id", (read.status, read.json) == (200, draft.json), read, "the invoice")
    draft_changed = await examiner.send("PATCH", path, {"customer": "Changed"})
    examiner.expect("patch-invoices-id", draft_changed.status == 200, draft_changed, "200")
    read = await examiner.send("GET", path)
    for answer in (draft_changed, read):
        right = answer.field("customer") == "Changed" and all(
            answer.field(name) == draft.field(name) for name in ("id", "account", "amount", "status")
        )
        examiner.expect("invoice-patch", right, answer, "the field that was sent, no other, and a draft")
    examiner.expect("invoice-patch-draft-only", draft_changed.status == 200, draft_changed, "200 for a draft")
    open_invoice = await examiner.send("POST", f"{path}/finalize")
    if open_invoice.status in (404, 405):
        examiner.skip(_OPTIONAL, "invoice-void", "delete-invoices-id", "invoice-void-kept")
        return
    examiner.expect("invoice-states", open_invoice.field("status") == "open", open_invoice, "status: open")
    draft_changed = await examiner.send("PATCH", path, {"customer": "Again"})
    examiner.expect(
        "invoice-patch-draft-only",
        draft_changed.status == 409,
        draft_changed,
        "409 for an invoice that is not a draft",
    )
    void = await examiner.send("DELETE", path)
    examiner.expect("delete-invoices-id", 200 <= void.status < 300, void, "a success")
    void_invoice = await examiner.send("GET", path)
    same = void_invoice.status == 200 and all(
        void_invoice.field(name) == open_invoice.field(name)
        for name in ("id", "account", "customer", "amount")
    )
    examiner.expect("invoice-void-kept", same, void_invoice, "200: the invoice is kept as it was")
    examiner.expect("invoice-void", void_invoice.field("status") == "void", void_invoice, "status: void")


_INVOICES = (
    "post-invoices", "invoice-states", "get-invoices-id", "patch-invoices-id", "invoice-patch",
    "invoice-patch-draft-only", "invoice-void", "delete-invoices-id", "invoice-void-kept",
)  # fmt: skip


async def tokens(examiner: Examiner) -> None:
    rule = "post-auth-token-api-key"
    pair = await _exchange(examiner, "api_key", examiner.key)
    examiner.require(rule, pair.status == 200, pair, "200 and a token response")
    access, refresh = pair.field("access_token"), pair.field("refresh_token")
    examiner.expect("token-access-token", isinstance(access, str), pair, "an access token")
    examiner.expect("token-token-type", pair.field("token_type") == "Bearer", pair, "token_type: Bearer")
    rules = "token-expires-in auth-access-token-expiry"
    examiner.expect(rules, pair.field("expires_in") == 3600, pair, "expires_in: 3600")
    examiner.require("token-refresh-token", isinstance(refresh, str), pair, "a refresh token")
    answer = await examiner.send(
        "GET", "/v1/accounts", headers={"Authorization": f"Bearer {access}"}, anonymous=True
    )
    examiner.expect("auth-access-token", answer.status == 200, answer, "200 with the access token")
    second = await _exchange(examiner, "refresh_token", refresh)
    examiner.expect("post-auth-token-refresh-token", second.status == 200, second, "200 and a new pair")
    fresh = second.field("refresh_token") not in (None, refresh)
    fresh = fresh and second.field("access_token") not in (None, access)
    examiner.expect("post-auth-token-json", fresh, second, "a new access token and a new refresh token")
    access = second.field("access_token")
    answer = await examiner.send(
        "GET", "/v1/accounts", headers={"Authorization": f"Bearer {access}"}, anonymous=True
    )
    examiner.expect("auth-access-token", answer.status == 200, answer, "200 with the newer access token")
    again = await _exchange(examiner, "refresh_token", refresh)
    examiner.expect("auth-refresh-once", again.status == 401, again, "401 for a refresh token that was used")
    wrong = await _exchange(examiner, "api_key", "sk_test_" + "0" * 32)
    examiner.expect("errors-401", wrong.status == 401, wrong, "401 for an unknown key")


async def people(examiner: Examiner) -> None:
    body = {"name": "Conform", "email": f"{examiner.mark}@example.com", "role": "member"}
    user = await examiner.send("POST", "/api/users", body)
    made_one = user.status == 201 and is_id(user.field("id"))
    examiner.require("post-api-users", made_one, user, "201 and a user with an id")
    same = all(user.field(name) == value for name, value in body.items())
    examiner.expect("user-body", same, user, "name, email and role as sent")
    path = f"/api/users/{user.field('id')}"
    read = await examiner.send("GET", path)
    examiner.expect("get-api-users-id", (read.status, read.json) == (200, user.json), read, "the user")
    listing = await examiner.send(
        "GET", "/api/users", params={"page": "1", "per_page": "1", "role": "member"}
    )
    right = all(item.get("role") == "member" for item in listing.items) and listing.items
    examiner.expect("get-api-users", right, listing, "users of the role that was asked for")
    examiner.expect("pages-users", len(listing.items) == 1, listing, "as many as per_page")
    for name in ("name", "email"):
        wrong = await examiner.send("POST", "/api/users", {k: v for k, v in body.items() if k != name})
        examiner.expect("user-body errors-400", wrong.status == 400, wrong, f"400 without {name}")
    await _refused_bodies(examiner)
    await _orders(examiner, user.field("id"))
    await _rights(examiner, path)
    deletion = await examiner.send("DELETE", path)
    if deletion.status == 403:
        examiner.skip("the key does not have the role admin", "user-deactivate", "delete-api-users-id")
        return
    examiner.expect(
        "user-deactivate delete-api-users-id", 200 <= deletion.status < 300, deletion, "a success"
    )
    order = {"user_id": user.field("id"), "items": [{"name": "Beans"}]}
    refusal = await examiner.send("POST", "/api/orders", order)
    examiner.expect("user-deactivate", refusal.status >= 400, refusal, "no order for a deactivated user")


async def _refused_bodies(examiner: Examiner) -> None:
    """Send bodies that the server must refuse.

    `Examiner.send` also checks that each answer has the form of the directory's errors.
    """
    json = {"Content-Type": "application/json"}
    answer = await examiner.send("POST", "/api/users", content=b"{", headers=json)
    examiner.expect("errors-400", answer.status == 400, answer, "400 for invalid JSON")
    answer = await examiner.send("POST", "/api/users", {"name": "x" * 1_100_000})
    examiner.expect("sizes-json errors-413", answer.status == 413, answer, "413 for a body over 1 MB")


async def _orders(examiner: Examiner, user: str) -> None:
    ids_placed = []
    for number in range(2):
        body = {"user_id": user, "items": [{"name": "Beans", "quantity": 1 + number}]}
        order = await examiner.send("POST", "/api/orders", body)
        examiner.require("post-api-orders", order.status == 201, order, "201 and an order")
        same = (order.field("user_id"), order.field("items")) == (user, body["items"])
        examiner.expect("order-body", same, order, "user_id and items as sent")
        ids_placed.append(order.field("id"))
    wrong = await examiner.send("POST", "/api/orders", {"user_id": user})
    examiner.expect("order-body", wrong.status == 400, wrong, "400 without items")
    listing = await examiner.send("GET", "/api/orders", params={"status": "open"})
    open_ones = [item.get("id") for item in listing.items]
    all_listed = all(id in open_ones for id in ids_placed)
    examiner.expect("order-status", all_listed, listing, "the orders that were placed are open")
    examiner.expect("get-api-orders", all_listed, listing, "the orders that were placed")
    page = await examiner.send("GET", "/api/orders", params={"limit": "1"})
    examiner.expect("pages-generic", len(page.items) == 1, page, "at most as many as the limit")
    after = page.field("next_cursor")
    if isinstance(after, str):
        rest = await examiner.send("GET", "/api/orders", params={"limit": "1", "cursor": after})
        others = rest.status == 200 and page.items and rest.items and rest.items != page.items
        examiner.expect("pages-generic", others, rest, "the page after the cursor")


async def _rights(examiner: Examiner, user: str) -> None:
    """Check that a key without the necessary role is refused, if keys can be created over HTTP."""
    made = await examiner.send("POST", "/v1/api_keys", {"role": "member", "name": "conform"})
    key, id = made.field("key"), made.field("id")
    examiner.hide(key)
    if made.status != 201 or not isinstance(key, str) or not is_id(id):
        examiner.skip(_OPTIONAL, "auth-403", "errors-403")
        return
    headers = {"Authorization": f"Bearer {key}"}
    before = await examiner.send("GET", user)
    answer = await examiner.send("DELETE", user, headers=headers, anonymous=True)
    rules = "auth-403 errors-403 delete-api-users-id"
    examiner.expect(rules, answer.status == 403, answer, "403 without the role admin")
    after = await examiner.send("GET", user)
    examiner.expect(
        "user-deactivate", after.json == before.json, after, "the user as it was before the refusal"
    )
    await examiner.send("DELETE", f"/v1/api_keys/{id}")


async def rates(examiner: Examiner) -> None:
    """Exceed the rate limit of the authentication endpoint, because this is the lowest limit."""
    usual = await examiner.send("GET", "/v1/accounts")
    for _ in range(40):
        answer = await examiner.send(
            "POST",
            "/v1/auth/token",
            {"grant_type": "api_key", "api_key": "sk_test_" + "0" * 32},
            anonymous=True,
            patient=False,
        )
        if answer.status == 429:
            break
    limits = [each.headers.get("X-RateLimit-Limit", "") for each in (answer, usual)]
    stricter = all(is_number(limit) for limit in limits) and int(limits[0]) < int(limits[1])
    examiner.expect("rates-auth", stricter, answer, f"a limit below {limits[1]}, that of a ledger request")
    if answer.status != 429:
        examiner.skip("the limit was not reached with 40 requests", *_RATES)
        return
    examiner.expect("errors-429", "Retry-After" in answer.headers, answer, "Retry-After")
    none_left = answer.headers.get("X-RateLimit-Remaining") == "0"
    examiner.expect("rates-over", none_left, answer, "X-RateLimit-Remaining: 0")


_RATES = ("errors-429", "rates-over", "errors-rate-limit-body")


async def _account(examiner: Examiner, **more: object) -> ExaminedExchange:
    body = {"name": _name(examiner), "currency": "EUR", **more}
    account = await examiner.send("POST", "/v1/accounts", body)
    examiner.require("post-accounts", account.status == 201, account, "201 and an account")
    examiner.require("account-id", is_id(account.field("id")), account, "an id, as text")
    examiner.expect(
        "account-id", str(account.field("id")).startswith("acc_"), account, "an id that starts with acc_"
    )
    return account


async def _exchange(examiner: Examiner, grant: str, value: Any) -> ExaminedExchange:
    examiner.hide(value)
    answer = await examiner.send(
        "POST", "/v1/auth/token", {"grant_type": grant, grant: value}, anonymous=True
    )
    examiner.hide(answer.field("access_token"))
    examiner.hide(answer.field("refresh_token"))
    return answer


def _name(examiner: Examiner) -> str:
    return f"conform {examiner.mark}"


WRITING = (accounts, anonymous_writes, idempotency, transactions, pages, invoices, tokens, people, rates)
