"""Every rule of the contract, in the order of interface.md and then of decisions.md, in our words.

`@holds("…")` on a test says which of them it shows. test_rules.py sees to it that no rule is without a
test, except those of `LATER`, which name surfaces that do not exist yet, and `ELSEWHERE`, which are
shown by tests of another kind.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import pytest

Test = TypeVar("Test", bound=Callable[..., Any])


def holds(*rules: str) -> Callable[[Test], Test]:
    """Mark a test as showing these rules."""

    def mark(test: Test) -> Test:
        for rule in rules:
            assert rule in RULES, f"{rule} is no rule"
        marked: Test = pytest.mark.contract(*rules)(test)
        return marked

    return mark


INTERFACE = {
    # What the service does
    "service.https": "JSON over HTTPS, by which accounts, transactions, invoices are read and written.",
    "service.v1": "The ledger's paths start with /v1.",
    "service.api": "The directory's paths start with /api.",
    "service.json": "Requests and responses are application/json, unless it is said otherwise.",
    "service.times": "Times are ISO 8601 in UTC.",
    "service.amounts": "Amounts of money are integers in the smallest unit of the currency.",
    "service.test-keys": "A key starting with sk_test_ is in test mode; test data moves no live balance.",
    "service.live-keys": "Live keys start with sk_live_.",
    "service.webhooks": "Signed webhook events are delivered.",
    "service.oauth": "There is an OAuth 2.0 authorization server.",
    # Resources and their fields
    "account.currency": "An account holds its balance in one currency.",
    "account.id": "The id starts with acc_.",
    "account.object": "object is account.",
    "account.name": "name is the display name.",
    "account.iso-4217": "currency is an ISO 4217 code.",
    "account.balance": "balance is an integer in the smallest unit, 0 for a new account.",
    "account.created": "created is an ISO 8601 UTC time.",
    "account.metadata": "metadata is up to 20 pairs of text, an empty object by default.",
    "transaction.moves": "Transactions move funds.",
    "transaction.amount": "amount is required, a positive integer in the smallest unit.",
    "transaction.type": "type is required, credit or debit, and sets the direction.",
    "transaction.account": "account is required, the id of the source account.",
    "transaction.description": "description is optional, shown on statements.",
    "invoice.states": "An invoice is draft, open, paid or void.",
    "token.access_token": "access_token is a short-lived bearer token.",
    "token.token_type": "token_type is Bearer.",
    "token.expires_in": "expires_in is 3600 seconds.",
    "token.refresh_token": "refresh_token works once.",
    "user.body": "A user is created with name, email, role.",
    "order.body": "An order is created with user_id and items, an array.",
    "order.status": "Orders are open, paid or shipped.",
    "list.envelope": "A list has data, has_more and next_cursor.",
    # States and transitions
    "invoice.patch": "A draft can be changed and stays a draft; only the fields that are sent change.",
    "invoice.patch-draft-only": "Only drafts can be changed.",
    "invoice.void": "DELETE of an open invoice makes it void.",
    "invoice.void-kept": "A void invoice is kept.",
    "user.deactivate": "DELETE of a user deactivates it and needs the role admin.",
    # Endpoints
    "GET /accounts": "Lists accounts, newest first, with limit and starting_after.",
    "GET /accounts/{id}": "One account.",
    "POST /accounts": "Answers with the created account.",
    "POST /accounts.name": "name is required text.",
    "POST /accounts.currency": "currency is required, an ISO 4217 code.",
    "POST /accounts.metadata": "metadata is optional, up to 20 pairs of text.",
    "GET /transactions": "Lists transactions, filtered by account, type, created_after.",
    "POST /transactions": "Posts a transaction and answers with it.",
    "GET /invoices/{id}": "One invoice.",
    "POST /invoices": "Creates an invoice.",
    "PATCH /invoices/{id}": "Changes an invoice and answers with it.",
    "DELETE /invoices/{id}": "Voids an open invoice.",
    "create.idempotency": "A create carries an Idempotency-Key, so that a retry does not post twice.",
    "create.duplicate": "A used idempotency key is a 409.",
    "lists.cursors": "Lists are paged by cursors.",
    "POST /v1/auth/token api_key": "An API key is exchanged for a token response.",
    "POST /v1/auth/token refresh_token": "A refresh token is exchanged for a new access and refresh token.",
    "POST /v1/auth/token json": "The body is JSON and success is 200.",
    "oauth.authorize": "The user is redirected to /oauth/authorize.",
    "oauth.token": "/oauth/token exchanges the code and code_verifier.",
    "GET /api/health": "Liveness without a credential: ok is true.",
    "GET /api/users": "Lists users with page, per_page, role.",
    "POST /api/users": "Creates a user.",
    "GET /api/users/{id}": "One user.",
    "DELETE /api/users/{id}": "Deactivates a user.",
    "GET /api/orders": "Lists orders, filtered by status.",
    "POST /api/orders": "Places an order.",
    # Authentication
    "auth.bearer": "Authorization is Bearer, exactly one space, the key, without quotes.",
    "auth.leaked-key": "A leaked key is revoked and replaced.",
    "auth.one-project": "API keys live long and belong to one project.",
    "auth.access-token": "Access tokens are had at /v1/auth/token and sent as Bearer tokens.",
    "auth.access-token-expiry": "An access token expires after 3600 seconds.",
    "auth.refresh-once": "A refresh gives a new refresh token, and the old one stops working.",
    "auth.oauth": "OAuth 2.0 authorization code flow with PKCE, acting for other users.",
    "auth.scopes.read:projects": "read:projects lets projects be listed and viewed.",
    "auth.scopes.write:projects": "write:projects lets projects be created, changed and archived.",
    "auth.scopes.read:users": "read:users lets member profiles be viewed.",
    "auth.scopes.admin:billing": "admin:billing lets billing be viewed and changed, by an owner.",
    "auth.directory": "Every request to the directory needs Authorization, except the health check.",
    "auth.403": "A good credential without the scope or role is a 403.",
    "auth.401": "A missing, malformed or expired credential is a 401.",
    "auth.webhook-signature": "Deliveries carry Ledger-Signature.",
    # Events
    "events.webhooks": "A registered HTTPS endpoint receives events as they happen.",
    # Errors
    "errors.json": "Errors have a status that is not 2xx and a JSON body.",
    "errors.ledger-body": "The ledger's body is error with type, code, message and param.",
    "errors.missing-field": "A missing parameter: 400 invalid_request, missing_field, param names it.",
    "errors.directory-body": "The directory's body is error and message.",
    "errors.rate-limit-body": "The rate limit's body has error rate_limited and a message with the seconds.",
    "errors.400": "400 for a malformed request or invalid values.",
    "errors.401": "401 for a missing or invalid key or token.",
    "errors.403": "403 for a credential that may not.",
    "errors.404": "404 for what is not there.",
    "errors.409": "409 for a conflict, such as a used idempotency key.",
    "errors.413": "413 for a payload that is too large.",
    "errors.414": "414 for a URI that is too long.",
    "errors.429": "429 over the rate limit; wait for Retry-After.",
    "errors.500": "500 for a failure on the server's side.",
    # Limits
    "rates.per-key": "Requests count per API key in a fixed window of a minute.",
    "rates.free": "Free: 60 a minute, 10 in a second.",
    "rates.pro": "Pro: 600 a minute, 50 in a second.",
    "rates.enterprise": "Enterprise: 6,000 a minute, the burst as agreed.",
    "rates.headers": "Every response carries limit, remaining and reset.",
    "rates.reset": "X-RateLimit-Reset is the Unix time when the window resets.",
    "rates.retry-after": "Retry-After comes with a 429 only.",
    "rates.over": "Over the limit: 429, Retry-After, and X-RateLimit-Remaining 0.",
    "rates.auth": "Authentication endpoints have a stricter limit.",
    "sizes.json": "A JSON body has at most 1 MB.",
    "sizes.file": "A file has at most 25 MB.",
    "sizes.url": "A URL has at most 8 KB.",
    "sizes.headers": "Headers have at most 16 KB.",
    "pages.limit": "limit is 1 to 100, 20 by default.",
    "pages.starting_after": "starting_after takes the cursor of the last item of the page before.",
    "pages.generic": "Generic lists take limit, at most 100 and 20 by default, and cursor.",
    "pages.users": "The users' list takes page and per_page.",
    "quotas.stored": "Stored objects: 10,000 on Free, 500,000 on Pro.",
    "quotas.webhooks": "Webhook endpoints: 5 on Free, 50 on Pro.",
    "quotas.request-logs": "Request logs are kept 7 days.",
    "quotas.recoverable": "Deleted objects can be recovered for 30 days.",
    "quotas.enterprise": "Enterprise can raise rate limits and quotas.",
    # Versioning
    "version.path": "Ledger and token surfaces carry their major version in the path.",
    "version.directory": "The directory's status block says version 1.4.2.",
}

DECISIONS = {
    # 1 Conventions
    "1.success": "201 for a POST that creates, 200 for everything else.",
    "1.times": "Times have three decimals and Z.",
    "1.ids": "Ids are a prefix and 26 characters that sort by time.",
    "1.objects": "Every object has id, object, created, livemode.",
    "1.request-id": "Every response carries Request-Id.",
    "1.strict": "Bodies are strict JSON objects: what is not declared or not JSON is a 400.",
    "1.content-type": "No Content-Type is taken as JSON, another one is a 400.",
    "1.query": "An unknown query parameter and a bad limit are a 400.",
    "1.405": "A wrong method on a known path is 405 with Allow.",
    "1.431": "Headers over 16 KB are 431.",
    "1.cl-te": "Content-Length with Transfer-Encoding is 400, and the connection closes.",
    # 2 Errors
    "2.shapes": "param is null where no parameter is at fault.",
    "2.codes": "The codes are those of the table.",
    "2.foreign": "What belongs to another project or mode is answered as what does not exist.",
    "2.500": "A 500 tells the request id and nothing of the inside.",
    "2.503": "A full disk or lost storage is 503, nothing half-done.",
    "2.param": "param is a dotted path for a nested field, Idempotency-Key for the header.",
    # 3 Projects, modes, plans
    "3.modes": "Modes share no objects, balances, quotas, idempotency keys, emails or invoice numbers.",
    "3.stored": "Accounts, transactions, invoices, users and orders count as stored objects.",
    "3.quota": "Over the quota: 403 quota_exceeded.",
    "3.enterprise": "Enterprise has no quota; 6000 and 200 unless the project has its own.",
    "3.overdraft": "Overdraft is allowed; a project can refuse it: 400 insufficient_funds on amount.",
    # 4 Credentials
    "4.key": "A key is sk_test_ or sk_live_ and 32 letters and digits, shown once.",
    "4.authorization": "Anything but Bearer, one space and the value is 401.",
    "4.tokens": "Access tokens start with at_, refresh tokens with rt_.",
    "4.token-rights": "A token has its key's project, mode, role and scopes.",
    "4.token-revoked": "Revoking a key ends its tokens at once.",
    "4.refresh-used": "A used refresh token is 401, and the newer one keeps working.",
    "4.token-open": "/v1/auth/token needs no Authorization; an unknown key or token is 401.",
    "4.scopes": "Scopes bind restricted keys: each operation needs its own.",
    "4.user-role": "Creating an admin or owner needs at least that role.",
    "4.whoami": "[+] GET /v1/whoami.",
    "4.api_keys": "[+] /v1/api_keys: create, list, revoke, roll; role admin; no more rights than one's own.",
    "4.projects": "[+] /v1/projects: list, create, get, change, archive.",
    "4.billing": "[+] /v1/billing: the plan.",
    # 5 Idempotency
    "5.key": "1 to 255 printable ASCII characters, else 400.",
    "5.space": "One space of keys per project and mode, over all creating POSTs.",
    "5.second": "A second use is 409 and names the first object, in Idempotency-Original too.",
    "5.failed": "A request that failed takes no key.",
    "5.race": "Fifty at once with one key: one 201, forty-nine 409.",
    "5.for-ever": "Keys do not expire.",
    # 6 Lists
    "6.cursor": "next_cursor is the last item's id, null on the last page; an unknown one is invalid_cursor.",
    "6.while-writing": "Paging while others write gives every earlier object once.",
    "6.ending_before": "[+] ending_before gives the page just newer, newest first.",
    "6.generic": "Orders and every [+] list take limit and cursor.",
    "6.users": "Users: page from 1, per_page 1 to 100, with total and total_pages, newest first.",
    # 7 Accounts and transactions
    "7.name": "name has 1 to 255 characters.",
    "7.currency": "currency is taken in any case and shown in upper case; active codes only.",
    "7.metadata": "Keys of 1 to 64 characters, values of up to 1024.",
    "7.transaction": "A transaction has these fields.",
    "7.amount": "amount is 1 to 2^53−1, description up to 500 or null.",
    "7.direction": "credit adds to the account, debit takes from it.",
    "7.range": "A balance beyond ±(2^53−1) is 400 balance_out_of_range.",
    "7.unknown-account": "An unknown account is 404, param account.",
    "7.settlement": "The other side of a posting is not listed.",
    "7.destination": "[+] destination: two transactions that share transfer, in one commit.",
    "7.get": "[+] GET /v1/transactions/{id}.",
    "7.reverse": "[+] reverse, once.",
    "7.batch": "[+] batch of 1 to 1000, all or none, the item at fault in param.",
    "7.created_after": "An ISO 8601 date or date-time, UTC without an offset, strictly after.",
    "7.filters": "An unknown account gives an empty list; a bad type is 400.",
    "7.balance-at": "[+] balance at a time.",
    "7.statement": "[+] statement as JSON and as CSV safe for a spreadsheet.",
    # 8 Invoices
    "8.create": "account, customer, exactly one of amount or lines; the rest optional.",
    "8.record": "An invoice has these fields.",
    "8.number": "Numbers are given when it opens: INV-000001 on, without gaps.",
    "8.finalize": "[+] draft to open by finalize.",
    "8.pay": "[+] open to paid by pay, which credits the account in the same commit.",
    "8.pay-race": "Twelve pays at once: one payment.",
    "8.final": "paid and void are final: 409 invoice_not_draft, invoice_not_open.",
    "8.patch": "null clears an optional field, metadata is replaced, no field is a no-op.",
    "8.list": "[+] GET /v1/invoices by status and account.",
    # 9 Directory
    "9.health": "ok, version; never refused for its rate.",
    "9.user": "email is unique among active users whatever its case; role member by default.",
    "9.deactivate-twice": "DELETE answers 200 with the user, twice likewise.",
    "9.restore": "[+] restore within 30 days; afterwards name and email are erased.",
    "9.order": "user_id of an active user, 1 to 100 items, quantity and unit_amount make total.",
    "9.order-moves": "[+] open to paid to shipped; GET /api/orders/{id}.",
    "9.modes": "The directory's records obey the mode.",
    # 10 Rate limits
    "10.windows": "Windows are the wall clock's minutes and seconds.",
    "10.tokens": "A token counts on its key; without a credential the client address counts, at Free limits.",
    "10.burst": "A burst refused: Retry-After 1, remaining 0.",
    "10.auth": "Authentication endpoints: 20 a minute and 5 a second per client address, settable.",
    "10.multipart": "A file within its size is refused as no JSON.",
    # 11 OAuth
    "11.pages": "Authorize leads to sign-in, consent and back with code, state and iss.",
    "11.refused": "An unknown app or address is an error page; other faults are told to the app.",
    "11.billing": "A scope beyond the user's role is invalid_scope.",
    "11.token": "The token endpoint takes a form or JSON, and refreshes rotate.",
    "11.once": "A second use of a code or refresh token revokes what the first gave.",
    "11.metadata": "[+] RFC 8414 metadata and RFC 7009 revocation.",
    "11.whoami": "[+] whoami tells the app's token as what it is.",
    # 12 Events
    "12.recorded": "Each change records its event in the same commit, with the object as it was then.",
    "12.once": "Each event reaches each matching endpoint at least once, also after a crash.",
    "12.endpoints": "[+] Endpoints are made with a secret shown once, shown, rolled, disabled, deleted.",
    "12.urls": "Live mode sends to https and public addresses only; test mode also to this machine by http.",
    "12.delivery": "POST of the raw body with Ledger-Signature, the event's id and type, and the attempt.",
    "12.retries": "What fails is tried again by the schedule; a redirect is a failure, 410 disables.",
    "12.events": "[+] Events are listed, shown and sent again; deliveries show every attempt.",
    "12.stream": "[+] The stream begins with a secret, signs each event by it, and resumes.",
    # 13 Request log
    "13.log": "[+] Each request is logged, the credential masked, with bodies in test mode alone.",
    "13.filters": "[+] The log is filtered by status, method and path.",
}

RULES = {**INTERFACE, **DECISIONS}

# Rules of surfaces that are still to come.
LATER: set[str] = set()

# Rules that take a broken machine to show.
ELSEWHERE = {"2.503": "tests/faults", "12.once": "tests/faults", "quotas.request-logs": "tests/ledger_engine"}
