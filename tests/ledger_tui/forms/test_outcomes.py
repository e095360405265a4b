"""The sentences after a change describe the new state, or report that it is unknown."""

import pytest

from ledger_client.errors import ApiError, Conflict, LedgerError, NotConnected, Unreadable
from ledger_tui.client.names import AccountNames
from ledger_tui.forms.outcomes import outcome, uncertain
from ledger_tui.resources.api_keys import API_KEYS
from ledger_tui.resources.base import Resource, ResourceAction, why_not
from ledger_tui.resources.directory import ORDERS, USERS
from ledger_tui.resources.invoices import INVOICES
from ledger_tui.resources.transactions import TRANSACTIONS
from ledger_tui.resources.webhooks import ENDPOINTS
from ledger_tui.ui.keys import letter_of

Fields = dict[str, object]
NAMES = AccountNames()
NAMES.learn([{"id": "acc_1", "name": "Till", "currency": "EUR"}])
DRAFT: Fields = {"id": "inv_1", "status": "draft", "account": "acc_1", "amount": 15100, "customer": "Hall"}
OPEN: Fields = {**DRAFT, "status": "open", "number": "INV-000202"}
PAID: Fields = {**OPEN, "status": "paid"}
POSTED: Fields = {"id": "txn_1", "amount": 1250, "type": "credit", "account": "acc_1"}
REVERSAL: Fields = {**POSTED, "id": "txn_2", "type": "debit", "reverses": "txn_1"}
USER: Fields = {"id": "usr_1", "name": "Ada", "email": "ada@example.com", "status": "active"}
ORDER: Fields = {"id": "ord_1", "total": 2500, "items": [{}], "user_id": "usr_1", "status": "paid"}
HOOK: Fields = {"id": "whe_1", "url": "https://example.com/hook", "status": "enabled"}
KEY: Fields = {"id": "key_1", "name": "reports", "status": "active"}


@pytest.mark.parametrize(
    ("resource", "action", "record", "answer", "sentence"),
    [
        (INVOICES, "finalize", DRAFT, OPEN, "INV-000202 is open: 151.00 EUR"),
        (INVOICES, "pay", OPEN, PAID, "INV-000202 is paid: 151.00 EUR"),
        (INVOICES, "pay", OPEN, {"id": "txn_1"}, "INV-000202 is paid: 151.00 EUR"),
        (INVOICES, "void", OPEN, {**OPEN, "status": "void"}, "INV-000202 is void: 151.00 EUR"),
        (TRANSACTIONS, "reverse", POSTED, REVERSAL, "Transaction txn_1 is reversed: txn_2, −12.50 EUR"),
        (USERS, "deactivate", USER, {}, "User Ada is deactivated"),
        (ORDERS, "ship", ORDER, {**ORDER, "status": "shipped"}, "Order ord_1 is shipped: 2,500, 1 item"),
        (API_KEYS, "roll", KEY, {**KEY, "id": "key_2"}, "API key reports is rolled: key_2"),
        (
            ENDPOINTS,
            "roll_secret",
            HOOK,
            HOOK,
            "Webhook endpoint https://example.com/hook is given a new secret",
        ),
    ],
)
def test_a_message_after_a_change_says_what_is_true_now(
    resource: Resource, action: str, record: Fields, answer: Fields, sentence: str
) -> None:
    action_of_name = resource.action(action)
    assert action_of_name is not None
    assert outcome(resource, action_of_name, record, answer, NAMES) == sentence


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (
            ApiError("The server failed.", status=500, headers={"Request-Id": "req_1"}),
            "The server failed; the change may still have been made. Status 500, request req_1.",
        ),
        (
            ApiError("Bad gateway.", status=502),
            "The server failed; the change may still have been made. Status 502.",
        ),
        (NotConnected("reset"), "No answer (reset); the change may still have been made."),
        (
            Unreadable("The answer is not JSON."),
            "No usable answer (The answer is not JSON); the change may still have been made.",
        ),
        (ApiError("Full. Nothing was changed.", status=503, code="storage_unavailable"), ""),
        (Conflict("Not open.", status=409), ""),
    ],
)
def test_after_a_failed_server_or_a_lost_answer_a_change_may_have_been_made(
    error: LedgerError, sentence: str
) -> None:
    assert uncertain(error) == sentence


@pytest.mark.parametrize(
    ("resource", "action", "record", "sentence"),
    [
        (INVOICES, "pay", DRAFT, "Still a draft: F finalizes it first."),
        (INVOICES, "void", DRAFT, "Still a draft: F finalizes it first."),
        (INVOICES, "pay", PAID, "INV-000202 is paid."),
        (ORDERS, "ship", {**ORDER, "status": "open"}, "Still open: p pays it first."),
        (ORDERS, "pay_order", ORDER, "ord_1 is paid."),
    ],
)
def test_a_key_that_comes_too_early_names_the_action_before_it(
    resource: Resource, action: str, record: Fields, sentence: str
) -> None:
    def key_of(action: ResourceAction) -> str:
        return letter_of(f"act('{action.name}')")

    assert why_not(resource, action, record, has_marks=False, key_of=key_of) == sentence
