"""Examples of each body and each record, for the reference; a test checks them against their schemas."""

from __future__ import annotations

from typing import Any

_ACCOUNT = "acc_01kafzq8yrew4r2h6sfvcm0x5t"
_OTHER_ACCOUNT = "acc_01kafzq9a3fk9b7d0pnsm4w8ye"
_TRANSACTION = "txn_01kafzqm2cemx9v3r5t7w0y2ah"
_INVOICE = "inv_01kafzr4qbf6s8d0g2j4m6p8rs"
_USER = "usr_01kafzrhwaez1c3e5g7k9n1q3s"
_PROJECT = "prj_01kafzpw6gfh5k7m9p1r3t5v7x"
_KEY = "key_01kafzq03zed2f4h6k8m0p2r4t"
_CREATED = "2026-11-20T04:31:00.123Z"
_LATER = "2026-11-20T04:35:12.480Z"

_POSTING = {"account": _ACCOUNT, "amount": 12_50, "type": "credit", "description": "Two bags of beans"}
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
    "id": "whe_01kafzs2m9ea4c6e8h0k2m4p6r",
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
    "PostBatch": {"transactions": [_POSTING, {"account": _OTHER_ACCOUNT, "amount": 300, "type": "debit"}]},
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
    "Transaction": {
        "id": _TRANSACTION,
        "object": "transaction",
        **_POSTING,
        "balance_after": 12_50,
        "created": _LATER,
        "livemode": False,
        "destination": None,
        "transfer": None,
        "reverses": None,
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
    "User": {
        "id": _USER,
        "object": "user",
        "name": "Ada Lind",
        "email": "ada@example.com",
        "role": "member",
        "status": "active",
        "deactivated_at": None,
        "created": _CREATED,
        "livemode": False,
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
    "TokenPair": {
        "access_token": "at_…",
        "token_type": "Bearer",
        "expires_in": 3600,
        "refresh_token": "rt_…",
    },
    "ApiKey": _API_KEY,
    "ApiKeyWithValue": {**_API_KEY, "key": "sk_test_…"},
    "Health": {"ok": True, "version": "1.4.2", "notice": None, "copy_of": None},
}
