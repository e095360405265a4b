"""The meanings of fields and parameters, by name, for the whole reference.

A name that means something else in one place has that place before it: `Transaction.type`.
"""

from __future__ import annotations

from typing import Any

from ledger_engine.http.openapi import of_test_helpers

TERMS = {
    "access_token": "Send it as a bearer token.",
    "account": "Id of an account.",
    "address": "Where the request came from.",
    "amount": "In the currency's smallest unit, for example cents.",
    "api_key": "An API key.",
    "archived_at": "When the project was archived; null while it is in use.",
    "at": "ISO 8601 date or date-time; without an offset it is UTC.",
    "attempted_at": "When the attempt was made.",
    "attempts": "The attempts that were made, the oldest first.",
    "Delivery.attempts.error": "Why the attempt failed; null when it did not.",
    "Delivery.attempts.number": "1 for the first attempt, and so on.",
    "Delivery.attempts.request": "The request, with the first 4 KB of its body.",
    "Delivery.attempts.response": "The answer, with the first 4 KB of its body; null without one.",
    "Delivery.attempts.status": "The status of the receiver's answer; null without an answer.",
    "balance": "In the currency's smallest unit; negative when overdrawn.",
    "balance_after": "The account's balance after this transaction.",
    "body": "As it was sent.",
    "burst": "Requests allowed in one second, for each API key.",
    "client_id": "Id of the app.",
    "closing_balance": "The account's balance at the end of the period.",
    "LedgerError.error.code": "For programs.",
    "code": "The one-time code of the redirect.",
    "code_verifier": "The value whose S256 hash was the `code_challenge` (RFC 7636).",
    "created": "When it was created.",
    "created_after": "Only what was created later than this ISO 8601 date or date-time.",
    "credential": "Its kind and its last four characters.",
    "credential_id": "Id of the API key or the app.",
    "currency": "ISO 4217 code.",
    "cursor": "The `next_cursor` of the page before.",
    "customer": "Who has to pay.",
    "data": "The objects.",
    "Event.data": "`object` is the object as it was then.",
    "RequestWithEvents.events": "The ids of the events it caused, in their order.",
    "date": "When it was posted.",
    "deactivated_at": "When the user was deactivated.",
    "deliveries": "The number of deliveries that are sent again.",
    "PostTransaction.description": "Shown on statements.",
    "Transaction.description": "Shown on statements.",
    "description": "For people.",
    "destination": "Another account of the same currency: the amount moves between the two.",
    "disabled_at": "When the endpoint was disabled; null while it is enabled.",
    "disabled_reason": "Why the endpoint was disabled.",
    "due_date": "ISO 8601 date.",
    "duration_ms": "From the request to its answer, in milliseconds.",
    "email": "Belongs to one active user at a time.",
    "ending_before": "Id of an object: the page just newer than it.",
    "endpoint": "Id of a webhook endpoint.",
    "error": "What went wrong, for programs.",
    "error_code": "The `code` of the error in the answer.",
    "error_description": "For people.",
    "event": "Id of an event.",
    "event_type": "The type of the event.",
    "CreateWebhookEndpoint.events": "The types of events it gets; `*`, the default, is every type.",
    "events": "The types of events it gets; `*` is every type.",
    "expires_at": "When it expires; null when it does not expire.",
    "expires_in": "Seconds until the access token expires.",
    "from": "The first moment: ISO 8601 date or date-time.",
    "CodeExchange.grant_type": "May be left out.",
    "grant_type": "What is exchanged for the tokens.",
    "has_more": "Whether more objects follow.",
    "headers": "As they were sent.",
    "id": "Sorts by the time it was made.",
    "idempotency_key": "The Idempotency-Key of the request.",
    "items": "What was ordered, stored as sent; `quantity` and `unit_amount` make the total.",
    "key": "The API key itself; it is shown only this once.",
    "kind": "Whether the credential is an API key or a token.",
    "last4": "The last four characters of the key.",
    "last_transaction": "Id of the last line's transaction; null without lines.",
    "latency_ms": "Until the answer arrived, in milliseconds.",
    "limit": "Objects on a page.",
    "ChangeInvoice.lines": "What is charged; or give an `amount`.",
    "CreateInvoice.lines": "What is charged; or give an `amount`.",
    "Invoice.lines": "What is charged; null for an invoice of an amount alone.",
    "lines": "The transactions, the oldest first.",
    "livemode": "Whether this is an object of the live mode, or of the test mode.",
    "message": "For people.",
    "metadata": "Up to 20 pairs of text.",
    "method": "The request's method.",
    "mode": "`test` or `live`.",
    "name": "Display name.",
    "next_attempt_at": "When the next attempt is due; null when there is none.",
    "next_cursor": "Where the next page starts; null on the last one.",
    "notice": "What a person has to look at, in a sentence; null when there is nothing.",
    "number": "Assigned when the invoice is finalized, without gaps.",
    "GET /v1/events.object": "Only the events about the object with this id.",
    "copy_of": "The address of the server that this ledger is a read-only copy of; null for its own ledger.",
    "ok": "Whether the server can work.",
    "opened_at": "When the invoice was finalized.",
    "opening_balance": "The account's balance at the beginning of the period.",
    "overdraft": "Whether a debit may take a balance below zero.",
    "UserPage.page": "The number of this page, from 1.",
    "page": "From 1.",
    "paid_at": "When it was paid.",
    "param": "The parameter at fault, if one is.",
    "same_request": "Whether method, path and body are those of the first request with the idempotency key."
    " It is absent where that is not known. *Beyond the contract.*",
    "originals": "The ids of all that a batch created, in its order, or of an action's object and of what"
    " the action made. *Beyond the contract.*",
    "parent": "The project whose credential created this one.",
    "path": "The request's path.",
    "per_page": "Users on a page.",
    "period_end": "The last moment of the statement.",
    "period_start": "The first moment of the statement.",
    "plan": "Sets the limits and quotas.",
    "project": "Id of a project.",
    "quantity": "The number of units.",
    "query": "The query of the request's URL.",
    "rate_limit": "Requests allowed in a minute, for each API key.",
    "redirect_uri": "Where the code was sent to.",
    "refresh_token": "Works once.",
    "request": "Id of the request that caused it.",
    "request_body": "Its first 4 KB, with secrets masked; in test mode only.",
    "response_body": "Its first 4 KB, with secrets masked; in test mode only.",
    "reverses": "The transaction that this one undoes.",
    "revoked_at": "When the key was revoked.",
    "CreateApiKey.role": "`admin` when left out; the caller needs at least that role.",
    "CreateUser.role": "`member` when left out; the caller needs at least that role.",
    "role": "`member`, `admin` or `owner`; each may do everything that the one before it may.",
    "running_balance": "The account's balance after it.",
    "scope": "Scopes, separated by spaces.",
    "scopes": "What a restricted credential may do; null for one that is not restricted.",
    "secret": "The key of the signatures; it is shown only this once.",
    "shipped_at": "When it was shipped.",
    "since": "ISO 8601 date or date-time.",
    "starting_after": "The `next_cursor` of the page before.",
    "GET /v1/requests.status": "The status of the answer, for instance 404.",
    "LoggedRequest.status": "The status of the answer.",
    "RequestWithEvents.status": "The status of the answer.",
    "status": "Its state.",
    "stored_objects": "The number of objects that count towards the plan's quota.",
    "stored_objects_max": "The most the plan allows; null for no limit.",
    "tile": "A tile as C2SP's tlog-tiles writes it, such as `0/x001/234`, `1/000.p/17` or `entries/000`.",
    "to": "The last moment: ISO 8601 date or date-time; a date includes the whole day.",
    "token": "An access or refresh token.",
    "token_type": "The scheme of the `Authorization` header.",
    "token_type_hint": "Not needed: both kinds of token are found without it.",
    "UserPage.total": "The number of users on all pages.",
    "total": "The sum of the items.",
    "total_pages": "The number of pages.",
    "Invoice.transaction": "Id of the payment.",
    "transaction": "Id of a transaction.",
    "transactions": "Posted in this order, all or none.",
    "transfer": "The id that both sides of a transfer share.",
    "GET /v1/transactions.type": "`credit` or `debit`.",
    "PostTransaction.type": "`credit` adds to the account, `debit` subtracts from it.",
    "Transaction.type": "`credit` added to the account, `debit` subtracted from it.",
    "type": "Its type.",
    "unit_amount": "The price of one unit, in the currency's smallest unit.",
    "url": "Where events are sent.",
    "user": "Id of the user for whom an app acts.",
    "user_id": "Id of an active user.",
    "version": "Of the directory's interface; this server's own is the `info.version` of its reference.",
    "voided_at": "When the invoice was voided.",
    "webhook_endpoints_max": "The most the plan allows; null for no limit.",
}


def meaning(place: str, name: str) -> str | None:
    """Return the meaning of a name, None if it has none.

    `place` is a schema such as `Account`, a field of one such as `Delivery.attempts`, or an operation such as
    `GET /v1/requests`, whose parameter it is.
    """
    for terms in (TERMS, of_test_helpers.TERMS):
        found = terms.get(f"{place}.{name}", terms.get(name))
        if found is not None:
            return found
    return None


def explain(place: str, schema: dict[str, Any]) -> None:
    """Add its meaning to each member of an object's schema, and within it, that has no description yet."""
    for name, member in schema.get("properties", {}).items():
        description = meaning(place, name)
        if description is not None and "$ref" not in member and "const" not in member:
            member.setdefault("description", description)
        explain(f"{place}.{name}", member)
    if isinstance(schema.get("items"), dict):
        explain(place, schema["items"])
