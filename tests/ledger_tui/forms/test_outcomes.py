"""The sentences after a change describe the new state, or report that it is unknown."""

import pytest

from ledger_client.errors import ApiError, Conflict, LedgerError, NotConnected, Unreadable
from ledger_tui.client.names import AccountNames
from ledger_tui.forms.outcomes import in_words, outcome, outcome_of_form, uncertain
from ledger_tui.resources.accounts import ACCOUNTS
from ledger_tui.resources.api_keys import API_KEYS
from ledger_tui.resources.base import Form, Resource
from ledger_tui.resources.directory import ORDERS, USERS
from ledger_tui.resources.endpoints import ENDPOINTS
from ledger_tui.resources.invoices import INVOICES
from ledger_tui.resources.transactions import TRANSACTIONS, TRANSFER
from ledger_tui.resources.words import words_for

Fields = dict[str, object]
NAMES = AccountNames()
NAMES.learn(
    [{"id": "acc_1", "name": "Till", "currency": "EUR"}, {"id": "acc_2", "name": "Bank", "currency": "EUR"}]
)
NAMES.learn_users([{"id": "usr_1", "name": "Ada"}])
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
        (TRANSACTIONS, "reverse", POSTED, REVERSAL, "The transaction on Till is reversed: −12.50 EUR"),
        (USERS, "deactivate", USER, {}, "User Ada is deactivated"),
        (ORDERS, "ship", ORDER, {**ORDER, "status": "shipped"}, "The order of Ada is shipped: 2,500, 1 item"),
        (API_KEYS, "roll", KEY, {**KEY, "id": "key_2", "last4": "x9yz"}, "API key reports is rolled: …x9yz"),
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
    ("resource", "form", "record", "sentence"),
    [
        (ACCOUNTS, None, {"id": "acc_1", "name": "Till", "currency": "EUR"}, "Account Till exists: EUR"),
        (
            TRANSACTIONS,
            None,
            {**POSTED, "balance_after": 2000},
            "Credited Till 12.50 EUR; Till holds 20.00 EUR",
        ),
        (TRANSACTIONS, None, {**POSTED, "type": "debit"}, "Debited Till 12.50 EUR"),
        (TRANSACTIONS, None, {"id": "txn_1"}, "The transaction is posted"),
        (
            TRANSACTIONS,
            TRANSFER,
            {**POSTED, "type": "debit", "destination": "acc_2", "balance_after": 750},
            "Moved 12.50 EUR from Till to Bank; Till is left with 7.50 EUR",
        ),
        (INVOICES, None, DRAFT, "The invoice for Hall is a draft: 151.00 EUR"),
        (INVOICES, INVOICES.edit(DRAFT, NAMES), DRAFT, "The invoice for Hall is a draft: 151.00 EUR"),
        (USERS, None, {**USER, "role": "member"}, "User Ada is active: member, ada@example.com"),
        (ORDERS, None, ORDER, "The order of Ada is paid: 2,500, 1 item"),
        (
            ENDPOINTS,
            None,
            {**HOOK, "events": ["*"]},
            "Webhook endpoint https://example.com/ho… is enabled: all events",
        ),
        (
            API_KEYS,
            None,
            {"id": "key_1", "name": "till", "role": "owner", "scopes": None},
            "API key till is active: owner, all scopes",
        ),
        (
            API_KEYS,
            None,
            {"id": "key_1", "role": "admin", "scopes": ["read:users"]},
            "The API key is active: admin, read:users",
        ),
    ],
)
def test_a_message_after_a_form_says_what_is_true_now(
    resource: Resource, form: Form | None, record: Fields, sentence: str
) -> None:
    form = form or resource.form
    assert form is not None
    assert outcome_of_form(form, resource, record, NAMES) == sentence


def refused(message: str, status: int) -> LedgerError:
    return Conflict(message, status=status)


@pytest.mark.parametrize(
    ("error", "resource", "record", "sentence"),
    [
        (
            refused("Only a draft can be edited or finalized; inv_1 is open.", 409),
            INVOICES,
            OPEN,
            "Only a draft can be edited or finalized; INV-000202 is open.",
        ),
        (
            refused("Only an open order can be paid; ord_1 is paid.", 409),
            ORDERS,
            ORDER,
            "Only an open order can be paid; the order of Ada is paid.",
        ),
        (
            refused("txn_1 has already been reversed.", 409),
            TRANSACTIONS,
            POSTED,
            "The transaction on Till has already been reversed.",
        ),
        (refused("acc_1 has a balance of 0.", 400), TRANSACTIONS, POSTED, "Till has a balance of 0."),
        (refused("There is no invoice inv_1.", 404), INVOICES, DRAFT, "There is no invoice inv_1."),
        (refused("usr_9 is deactivated.", 409), ORDERS, {}, "usr_9 is deactivated."),
    ],
)
def test_a_refusal_names_objects_instead_of_their_ids(
    error: LedgerError, resource: Resource, record: Fields, sentence: str
) -> None:
    assert in_words(error, NAMES, record.get("id"), words_for(resource, record, NAMES)) == sentence


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
