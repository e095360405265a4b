"""Examples of each body and each answer, for the reference; a test checks them against their schemas."""

from __future__ import annotations

from typing import Any

from ledger_engine.core.records import dumps

_ACCOUNT = "acc_01kafzq8yrew4r2h6sfvcm0x5t"
_OTHER_ACCOUNT = "acc_01kafzq9a3fk9b7d0pnsm4w8ye"
_TRANSACTION = "txn_01kafzqm2cemx9v3r5t7w0y2ah"
_INVOICE = "inv_01kafzr4qbf6s8d0g2j4m6p8rs"
_USER = "usr_01kafzrhwaez1c3e5g7k9n1q3s"
_PROJECT = "prj_01kafzpw6gfh5k7m9p1r3t5v7x"
_KEY = "key_01kafzq03zed2f4h6k8m0p2r4t"
_ENDPOINT_ID = "whe_01kafzs2m9ea4c6e8h0k2m4p6r"
_EVENT = "evt_01kafzrcm6e5t7v9x1z3b5d7f9"
_APP = "app_01kafzvj4re8s0t2v4x6z8b0d2"
_REQUEST = "req_01kafzrcm3e2q4s6v8x0z2b4d6"
_CREATED = "2026-11-20T04:31:00.123Z"
_LATER = "2026-11-20T04:35:12.480Z"

_POSTING = {"account": _ACCOUNT, "amount": 12_50, "type": "credit", "description": "Two bags of beans"}
_SECOND_POSTING = {"account": _OTHER_ACCOUNT, "amount": 3_00, "type": "debit"}
_LINE = {"description": "House blend, 1 kg", "quantity": 4, "unit_amount": 18_90}
_ITEM = {"name": "House blend, 1 kg", "quantity": 4, "unit_amount": 18_90}

_API_KEY = {
    "id": _KEY,
    "object": "api_key",
    "name": "till",
    "role": "member",
    "scopes": ["read:projects"],
    "last4": "x7Qd",
    "created": _CREATED,
    "livemode": False,
    "revoked_at": None,
}

_ENDPOINT = {
    "id": _ENDPOINT_ID,
    "object": "webhook_endpoint",
    "url": "https://shop.example/hooks",
    "events": ["invoice.paid"],
    "status": "enabled",
    "disabled_reason": None,
    "disabled_at": None,
    "created": _CREATED,
    "livemode": False,
}

BODIES: dict[str, dict[str, Any]] = {
    "CreateAccount": {"name": "Till", "currency": "EUR", "metadata": {"shop": "harbour"}},
    "PostTransaction": _POSTING,
    "PostBatch": {"transactions": [_POSTING, _SECOND_POSTING]},
    "CreateInvoice": {
        "account": _ACCOUNT,
        "customer": "Café Nord",
        "lines": [_LINE],
        "due_date": "2026-12-20",
    },
    "ChangeInvoice": {"customer": "Café Nord GmbH", "due_date": None},
    "CreateUser": {"name": "Ada Lind", "email": "ada@example.com", "role": "member"},
    "PlaceOrder": {"user_id": _USER, "items": [_ITEM]},
    "TokenRequest": {"grant_type": "api_key", "api_key": "sk_test_…"},
    "CreateApiKey": {"name": "till", "role": "member", "scopes": ["read:projects"]},
    "CreateProject": {"name": "Harbour shop", "plan": "pro"},
    "ChangeProject": {"name": "Harbour shops"},
    "ChangeBilling": {"plan": "pro"},
    "CreateWebhookEndpoint": {"url": "https://shop.example/hooks", "events": ["invoice.paid"]},
    "ResendFailed": {"since": "2026-11-20"},
    "OAuthTokenRequest": {
        "grant_type": "authorization_code",
        "code": "ac_…",
        "code_verifier": "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk",
        "client_id": _APP,
        "redirect_uri": "https://shop.example/signed-in",
    },
    "RevocationRequest": {"token": "rt_…", "client_id": _APP},
}
_TRANSACTION_MADE = {
    "id": _TRANSACTION,
    "object": "transaction",
    **_POSTING,
    "balance_after": 12_50,
    "created": _LATER,
    "livemode": False,
    "destination": None,
    "transfer": None,
    "reverses": None,
}
_SECOND_TRANSACTION = {
    **_TRANSACTION_MADE,
    **_SECOND_POSTING,
    "id": "txn_01kafzqm2cere7z9b1d3f5h7j9",
    "description": None,
    "balance_after": 40_00,
}
_REVERSAL = {
    **_TRANSACTION_MADE,
    "id": "txn_01kafzw0s2em2p4r6t8v0x2z4b",
    "type": "debit",
    "balance_after": 0,
    "reverses": _TRANSACTION,
}
_USER_MADE = {
    "id": _USER,
    "object": "user",
    "name": "Ada Lind",
    "email": "ada@example.com",
    "role": "member",
    "status": "active",
    "deactivated_at": None,
    "created": _CREATED,
    "livemode": False,
}
_PROJECT_MADE = {
    "id": _PROJECT,
    "object": "project",
    "name": "Harbour shop",
    "plan": "pro",
    "rate_limit": 600,
    "burst": 50,
    "overdraft": "allow",
    "parent": None,
    "created": _CREATED,
    "archived_at": None,
    "livemode": False,
}
_TOKENS = {"access_token": "at_…", "token_type": "Bearer", "expires_in": 3600, "refresh_token": "rt_…"}
_LOGGED_REQUEST = {
    "id": _REQUEST,
    "object": "request",
    "method": "POST",
    "path": "/v1/transactions",
    "query": "",
    "status": 201,
    "duration_ms": 1.9,
    "credential_id": _KEY,
    "credential": "sk_test_••••x7Qd",
    "address": "127.0.0.1",
    "error_code": None,
    "idempotency_key": "first-sale",
    "request_body": dumps(_POSTING),
    "response_body": dumps(_TRANSACTION_MADE),
    "created": _LATER,
    "livemode": False,
}
_DELIVERY = {
    "id": "dlv_01kafzrcp1ee7h9k1n3q5s7v9x",
    "object": "delivery",
    "endpoint": _ENDPOINT_ID,
    "event": _EVENT,
    "event_type": "transaction.created",
    "status": "succeeded",
    "next_attempt_at": None,
    "attempts": [
        {
            "number": 1,
            "attempted_at": _LATER,
            "status": 204,
            "error": None,
            "latency_ms": 12,
            "request": {"headers": {"Ledger-Event-Id": _EVENT, "Ledger-Attempt": "1"}, "body": "{…}"},
            "response": {"headers": {"Content-Length": "0"}, "body": ""},
        }
    ],
    "created": _LATER,
    "livemode": False,
}
RECORDS: dict[str, dict[str, Any]] = {
    "WebhookEndpoint": _ENDPOINT,
    "EndpointWithSecret": {**_ENDPOINT, "secret": "whsec_…"},
    "Account": {
        "id": _ACCOUNT,
        "object": "account",
        "name": "Till",
        "currency": "EUR",
        "balance": 12_50,
        "created": _CREATED,
        "livemode": False,
        "metadata": {"shop": "harbour"},
    },
    "Balance": {"balance": 12_50, "currency": "EUR", "at": _LATER},
    "Transaction": _TRANSACTION_MADE,
    "PostedBatch": {"data": [_TRANSACTION_MADE, _SECOND_TRANSACTION]},
    "RelatedTransactions": {"data": [_REVERSAL]},
    "WholeStatement": {
        "account": _ACCOUNT,
        "currency": "EUR",
        "period_start": "2026-11-01T00:00:00.000Z",
        "period_end": "2026-11-30T23:59:59.999Z",
        "opening_balance": 0,
        "closing_balance": 12_50,
        "last_transaction": _TRANSACTION,
        "lines": [
            {
                "transaction": _TRANSACTION,
                "date": _LATER,
                "description": "Two bags of beans",
                "amount": 12_50,
                "running_balance": 12_50,
            }
        ],
    },
    "Invoice": {
        "id": _INVOICE,
        "object": "invoice",
        "account": _ACCOUNT,
        "customer": "Café Nord",
        "currency": "EUR",
        "amount": 75_60,
        "lines": [_LINE],
        "due_date": "2026-12-20",
        "description": None,
        "metadata": {},
        "status": "open",
        "number": "INV-000001",
        "transaction": None,
        "opened_at": _LATER,
        "paid_at": None,
        "voided_at": None,
        "created": _CREATED,
        "livemode": False,
    },
    "User": _USER_MADE,
    "UserPage": {"data": [_USER_MADE], "page": 1, "per_page": 20, "total": 1, "total_pages": 1},
    "Difference": {
        "data": [
            {
                "id": _USER,
                "object": "change",
                "kind": "user",
                "before": None,
                "after": _USER_MADE,
                "postings": None,
            }
        ],
        "has_more": False,
        "next_cursor": None,
        "summary": {"postings": 0, "accounts": 0, "invoices": 0, "users": 1, "orders": 0},
    },
    "Order": {
        "id": "ord_01kafzrzbtfa6c8e0h2k4n6q8s",
        "object": "order",
        "user_id": _USER,
        "items": [_ITEM],
        "total": 75_60,
        "status": "open",
        "paid_at": None,
        "shipped_at": None,
        "created": _CREATED,
        "livemode": False,
    },
    "TokenPair": _TOKENS,
    "OAuthTokens": {**_TOKENS, "scope": "read:projects write:projects"},
    "Revoked": {},
    "Whoami": {
        "id": _KEY,
        "object": "credential",
        "kind": "api_key",
        "user": None,
        "project": _PROJECT,
        "plan": "pro",
        "mode": "test",
        "role": "member",
        "scopes": ["read:projects"],
        "rate_limit": 600,
        "burst": 50,
        "stored_objects_max": 500_000,
        "webhook_endpoints_max": 50,
        "created": _CREATED,
        "expires_at": None,
        "livemode": False,
    },
    "SeenProject": _PROJECT_MADE,
    "ProjectWithKey": {
        **_PROJECT_MADE,
        "api_key": {**_API_KEY, "role": "owner", "scopes": None, "key": "sk_test_…"},
    },
    "Billing": {
        "id": _PROJECT,
        "object": "billing",
        "plan": "pro",
        "rate_limit": 600,
        "burst": 50,
        "stored_objects": 1_204,
        "stored_objects_max": 500_000,
        "webhook_endpoints_max": 50,
        "created": _CREATED,
        "livemode": False,
    },
    "Event": {
        "id": _EVENT,
        "object": "event",
        "type": "transaction.created",
        "created": _LATER,
        "livemode": False,
        "data": {"object": _TRANSACTION_MADE},
        "request": _REQUEST,
    },
    "Delivery": _DELIVERY,
    "EventDeliveries": {"data": [_DELIVERY]},
    "Resent": {"data": [{**_DELIVERY, "status": "pending", "next_attempt_at": _LATER}]},
    "ResentFailed": {"deliveries": 3},
    "LoggedRequest": _LOGGED_REQUEST,
    "RequestWithEvents": {**_LOGGED_REQUEST, "events": [_EVENT]},
    "ApiKey": _API_KEY,
    "ApiKeyWithValue": {**_API_KEY, "key": "sk_test_…"},
    "Readiness": {"ok": True},
    "Health": {"ok": True, "version": "1.4.2", "notice": None, "copy_of": None},
}

# What an operation answers in another media type than JSON, by its name.
_CHECKPOINT = (
    f"ledger.example/{_PROJECT}/test\n2\n4fs3nQ1nsbs8uu8HZVJYiaGt8lJuZcR+hXgLnxsSY2M=\n\n"
    f"— ledger.example/{_PROJECT}/test 8vnD6Q…\n"
)
_PROOF = f"c2sp.org/tlog-proof@v1\nindex 1\nX7mKhUG6Jxc6Lb6wxIOkcyaElpBhK7hkpqwmjYAAyxo=\n\n{_CHECKPOINT}"
TEXTS = {
    ("get_checkpoint", "text/plain"): _CHECKPOINT,
    ("get_event_proof", "text/plain"): _PROOF,
    ("get_transaction_proof", "text/plain"): _PROOF,
    ("get_statement", "text/csv"): "date,description,amount,running_balance,currency,transaction\r\n"
    "2026-11-01T00:00:00.000Z,Opening balance,,0,EUR,\r\n"
    f"{_LATER},Two bags of beans,1250,1250,EUR,{_TRANSACTION}\r\n"
    "2026-11-30T23:59:59.999Z,Closing balance,,1250,EUR,\r\n",
    ("stream_events", "text/event-stream"): f'id: {_EVENT}\nevent: session\ndata: {{"secret": "whsec_…"}}\n\n'
    f'id: {_EVENT}\nevent: event\ndata: {{"body": "{{…}}", "signature": "46bdc2a2…"}}\n\n',
}

# What an event changed in the example of its object, by type of event.
AFTER: dict[str, dict[str, Any]] = {
    "account.created": {"balance": 0},
    "invoice.created": {"status": "draft", "number": None, "opened_at": None},
    "invoice.updated": {"status": "draft", "number": None, "opened_at": None, "due_date": None},
    "invoice.paid": {"status": "paid", "transaction": _TRANSACTION, "paid_at": _LATER},
    "invoice.voided": {"status": "void", "voided_at": _LATER},
    "user.deactivated": {"status": "deactivated", "deactivated_at": _LATER},
    "order.paid": {"status": "paid", "paid_at": _LATER},
    "order.shipped": {"status": "shipped", "paid_at": _LATER, "shipped_at": _LATER},
}
