"""The questions before something is sent: each names its object, and asks for a text that people know."""

from typing import Any

import pytest

from ledger_tui.client.names import AccountNames
from ledger_tui.client.session import Mode
from ledger_tui.features.bulk import bulk_question
from ledger_tui.forms.questions import (
    confirmation_of,
    movement_effect,
    question,
    question_of_form,
    way_back_sentence,
)
from ledger_tui.resources.accounts import ACCOUNTS
from ledger_tui.resources.api_keys import API_KEYS
from ledger_tui.resources.base import Form, Resource
from ledger_tui.resources.directory import ORDERS, USERS
from ledger_tui.resources.endpoints import ENDPOINTS
from ledger_tui.resources.invoices import INVOICES, TypedLine, dump_lines, parse_lines
from ledger_tui.resources.registry import RESOURCES
from ledger_tui.resources.transactions import TRANSACTIONS, TRANSFER
from ledger_tui.resources.webhooks import DELIVERIES, WebhookLog, events_resource


def question_for(resource: Resource, action: str, record: dict[str, object]) -> str:
    names = AccountNames()
    names.learn([{"id": "acc_1", "name": "Till", "currency": "EUR"}])
    names.learn_users([{"id": "usr_1", "name": "Ada"}])
    (found,) = [each for each in resource.actions if each.name == action]
    return question(resource, found, record, names)


INVOICE: dict[str, object] = {
    "id": "inv_1",
    "number": "INV-000202",
    "status": "open",
    "account": "acc_1",
    "amount": 15100,
    "customer": "Market hall GmbH",
}
DRAFT = {**INVOICE, "number": None, "status": "draft"}
KEY: dict[str, object] = {"id": "key_1", "name": "reports", "last4": "x9yz"}
USER: dict[str, object] = {"id": "usr_1", "name": "Ada", "email": "ada@example.com", "status": "active"}
ORDER: dict[str, object] = {"id": "ord_1", "total": 2500, "items": [{}], "user_id": "usr_1"}
POSTED_DEBIT: dict[str, object] = {"id": "txn_1", "amount": 1250, "type": "debit", "account": "acc_1"}
ENDPOINT: dict[str, object] = {"id": "whe_1", "url": "https://example.com/hook"}
EVENT: dict[str, object] = {"id": "evt_1", "type": "invoice.paid", "data": {"object": INVOICE}}
DELIVERY: dict[str, object] = {"id": "dlv_1", "event_type": "invoice.paid", "event": "evt_1"}
LOG = WebhookLog()
LOG.endpoints = {"whe_1": ENDPOINT}
EVENTS = events_resource(LOG)


@pytest.mark.parametrize(
    ("resource", "action", "record", "words"),
    [
        (INVOICES, "pay", INVOICE, "Pay INV-000202, 151.00 EUR from Market hall GmbH to Till?"),
        (INVOICES, "finalize", DRAFT, "Finalize the draft, 151.00 EUR from Market hall GmbH to Till?"),
        (TRANSACTIONS, "reverse", POSTED_DEBIT, "Reverse the transaction, −12.50 EUR, Till?"),
        (USERS, "deactivate", USER, "Deactivate user Ada, ada@example.com?"),
        (USERS, "deactivate", {"id": "usr_9"}, "Deactivate the user?"),
        (ORDERS, "ship", ORDER, "Ship the order, 2,500, 1 item, Ada?"),
        (API_KEYS, "roll", KEY, "Roll API key reports, …x9yz?"),
        (API_KEYS, "revoke", {**KEY, "name": None}, "Revoke the API key, …x9yz?"),
        (
            ENDPOINTS,
            "roll_secret",
            ENDPOINT,
            "Roll the secret of webhook endpoint https://example.com/hook?",
        ),
        (
            EVENTS,
            "resend",
            EVENT,
            "Resend invoice.paid, 151.00 EUR, INV-000202, Market hall GmbH?",
        ),
        (DELIVERIES, "resend_delivery", DELIVERY, "Resend invoice.paid, evt_1?"),
    ],
)
def test_a_question_names_its_object_as_people_know_it_and_the_consequence(
    resource: Resource, action: str, record: dict[str, object], words: str
) -> None:
    first, _, consequence = question_for(resource, action, record).partition("\n\n")
    assert first == words
    asked = resource.action(action)
    assert asked is not None
    assert consequence == (asked.caution(record) or asked.effect or record["id"])


def test_a_second_delivery_needs_caution_and_a_retry_of_a_failed_one_does_not() -> None:
    resend, again = EVENTS.action("resend"), DELIVERIES.action("resend_delivery")
    assert resend is not None
    assert again is not None
    assert "not known here" in resend.caution({"id": "evt_9"})
    for status, sentence in (
        ("succeeded", "Already delivered to {}: it receives the event a second time."),
        ("failed", ""),
        ("pending", ""),
    ):
        delivery = {**DELIVERY, "endpoint": "whe_1", "status": status}
        LOG.note_deliveries([delivery])
        assert resend.caution(EVENT) == sentence.format("https://example.com/hook")
        second = "Already delivered: the receiver gets the event a second time."
        assert again.caution(delivery) == (second if sentence else "")


def test_a_delivery_that_arrived_and_waits_to_be_sent_again_needs_caution_too() -> None:
    again = DELIVERIES.action("resend_delivery")
    assert again is not None
    attempt = {"number": 1, "status": 200, "error": None}
    assert "second time" in again.caution({**DELIVERY, "status": "pending", "attempts": [attempt]})


def test_the_questions_about_deliveries_name_the_event_and_the_receiver() -> None:
    names, again = AccountNames(), DELIVERIES.action("resend_delivery")
    assert again is not None
    names.learn_endpoints([{"id": "whe_1", "url": "https://example.com/hook"}])
    deliveries = [
        {**DELIVERY, "endpoint": "whe_1", "status": status} for status in ("failed", "succeeded", "succeeded")
    ]
    name = "invoice.paid, to https://example.com/hook, evt_1"
    assert question(DELIVERIES, again, deliveries[0], names).startswith(f"Resend {name}?")
    asked = bulk_question(DELIVERIES, again, deliveries, 0, names)
    assert asked.objects == [name] * 3
    assert asked.notes == ["Already delivered: the receiver gets the event a second time."]


@pytest.mark.parametrize(
    ("reversal", "question_text"),
    [
        ({"type": "credit"}, "Undo the reversal, +12.50 EUR, Till?|it debits Till 12.50 EUR again."),
        (
            {"type": "credit", "destination": "acc_2"},
            "Undo the reversal, +12.50 EUR, Till?|it moves 12.50 EUR from Till to Safe again.",
        ),
        (
            {"type": "debit", "destination": "acc_2"},
            "Undo the reversal, −12.50 EUR, Till?|it moves 12.50 EUR from Safe to Till again.",
        ),
    ],
)
def test_a_reversal_is_undone_in_words_that_say_what_is_posted_again(
    reversal: dict[str, object], question_text: str
) -> None:
    names = AccountNames()
    names.learn({"id": f"acc_{n}", "name": name, "currency": "EUR"} for n, name in ((1, "Till"), (2, "Safe")))
    record = {**POSTED_DEBIT, "reverses": "txn_0", **reversal}
    (reverse,) = TRANSACTIONS.actions
    text = question(TRANSACTIONS, reverse, record, names)
    assert text == question_text.replace("|", "\n\nThis undoes the undo: ")


@pytest.mark.parametrize(
    ("transfer", "question_text"),
    [
        (
            {"type": "debit", "description": "float"},
            "Reverse the transfer: moves 12.50 EUR from Safe to Till (float)?",
        ),
        (
            {"type": "credit", "description": None},
            "Reverse the transfer: moves 12.50 EUR from Till to Safe?",
        ),
    ],
)
def test_a_transfer_is_reversed_in_words_that_name_both_accounts(
    transfer: dict[str, object], question_text: str
) -> None:
    names = AccountNames()
    names.learn({"id": f"acc_{n}", "name": name, "currency": "EUR"} for n, name in ((1, "Till"), (2, "Safe")))
    (reverse,) = TRANSACTIONS.actions
    text = question(TRANSACTIONS, reverse, {**POSTED_DEBIT, "destination": "acc_2", **transfer}, names)
    assert text == f"{question_text}\n\n{reverse.effect}"


def test_each_action_with_a_lasting_effect_names_its_consequence() -> None:
    final = [action for resource in RESOURCES for action in resource.actions if action.final]
    assert final
    assert [action.name for action in final if not action.effect.endswith(".")] == []


def test_each_action_with_a_lasting_effect_says_how_to_undo_it_or_that_nobody_can() -> None:
    sentences = {
        (resource.kind, action.name): way_back_sentence(resource, action, lambda name: f"<{name}>", ())
        for resource in RESOURCES
        for action in resource.actions
    }
    final = {(r.kind, a.name) for r in RESOURCES for a in r.actions if a.final}
    assert {name for name, text in sentences.items() if text} == final
    ways_back = {
        ("transactions", "reverse"): "<act.reverse> on the reversal undoes it.",
        ("users", "deactivate"): "<act.restore> restores the user.",
        ("webhook_endpoints", "disable"): "<act.enable> enables the webhook endpoint.",
        ("webhook_endpoints", "delete_endpoint"): (
            "Until your next change <take_back> restores the webhook endpoint."
        ),
    }
    for name, text in sentences.items():
        if name in final:
            assert text == ways_back.get(name, "This cannot be undone.")
    for action in ("finalize", "pay", "void"):  # docs/decisions.md#invoices-final
        assert sentences["invoices", action] == "This cannot be undone."


def test_a_question_names_no_way_back_that_the_server_lacks() -> None:
    (deactivate, _restore) = USERS.actions
    assert way_back_sentence(USERS, deactivate, str, ["users.restore"]) == ""


@pytest.mark.parametrize(
    ("record", "typed", "what"),
    [
        (INVOICE, "INV-000202", "number"),
        (DRAFT, "151.00", "amount"),
        ({**POSTED_DEBIT, "amount": 125000}, "1250.00", "amount"),
        (ORDER, "2500", "total"),
        (ENDPOINT, "example.com", "host"),
        (KEY, "x9yz", "end of the key"),
        (USER, "ada@example.com", "email"),
        ({"id": "ord_2"}, "ord_2", "id"),
    ],
)
def test_a_final_action_is_confirmed_by_a_number_an_amount_or_a_name(
    record: dict[str, object], typed: str, what: str
) -> None:
    names = AccountNames()
    names.learn([{"id": "acc_1", "name": "Till", "currency": "EUR"}])
    assert confirmation_of(record, names) == (typed, what)


def asked_of_form(form: Form | None, mode: Mode, typed: dict[str, str], body: dict[str, object]) -> Any:
    assert form is not None
    names = AccountNames()
    names.learn([{"id": "acc_1", "name": "Till", "currency": "EUR"}])
    names.learn_users([{"id": "usr_1", "name": "Ada"}])
    return question_of_form(form, typed, body, "EUR", names, mode, balances={"acc_1": 750})


POSTING = {"account": "acc_1", "type": "credit", "amount": "12.5"}
POSTED = {**POSTING, "amount": 1250}


def test_in_test_mode_only_a_form_that_moves_money_asks() -> None:
    assert asked_of_form(ACCOUNTS.form, Mode.TEST, {"name": "Till"}, {"name": "Till"}) is None
    assert asked_of_form(TRANSACTIONS.form, Mode.TEST, POSTING, POSTED) == (
        "Post a transaction?\n\n"
        "Account        Till\n"
        "Type           ▲ credit\n"
        "Amount         12.50 EUR\n\n"
        "Credits Till 12.50 EUR\nTill then holds 20.00 EUR",
        None,
    )


@pytest.mark.parametrize(
    ("mode", "where"),
    [
        (Mode.LIVE, "in LIVE mode"),
        (Mode.UNKNOWN, "in an unknown mode (the server does not say which)"),
    ],
)
def test_a_form_that_moves_money_is_named_as_it_was_chosen_and_its_amount_typed_again(
    mode: Mode, where: str
) -> None:
    assert asked_of_form(TRANSACTIONS.form, mode, POSTING, POSTED) == (
        f"Post a transaction, {where}?\n\n"
        "Account        Till\n"
        "Type           ▲ credit\n"
        "Amount         12.50 EUR\n\n"
        "Credits Till 12.50 EUR\nTill then holds 20.00 EUR",
        "12.50",
    )


@pytest.mark.parametrize(
    ("account_type", "balance", "amount", "typed_again"),
    [
        (None, 750, "12.50", "12.50"),
        ("asset", 0, "0.01", "0.01"),
        ("expense", 750, "12.50", "12.50"),
        ("till", 750, "12.50", "12.50"),
        (None, 1250, "12.50", None),
        (None, -1, "12.50", None),
        ("liability", 750, "12.50", None),
        ("income", 750, "12.50", None),
        ("equity", 750, "12.50", None),
    ],
)
@pytest.mark.parametrize("form", [TRANSACTIONS.form, TRANSFER])
def test_in_test_mode_the_user_types_the_amount_of_a_movement_that_overdraws_an_account(
    form: Form, account_type: str | None, balance: int, amount: str, typed_again: str | None
) -> None:
    names = AccountNames()
    metadata = {} if account_type is None else {"type": account_type}
    names.learn([{"id": "acc_1", "name": "Till", "currency": "EUR", "metadata": metadata}])
    names.learn([{"id": "acc_2", "name": "Safe", "currency": "EUR"}])
    typed = {"account": "acc_1", "type": "debit", "destination": "acc_2", "amount": amount}
    body = {**typed, "amount": round(float(amount) * 100)}
    asked = question_of_form(form, typed, body, "EUR", names, Mode.TEST, balances={"acc_1": balance})
    assert asked is not None
    assert asked[0].endswith(", overdrawn") == (balance < body["amount"])
    assert asked[1] == typed_again
    without_balance = question_of_form(form, typed, body, "EUR", names, Mode.TEST)
    assert without_balance == (asked[0].rpartition("\n")[0], None)


def test_a_transfer_names_where_the_money_comes_from_and_where_it_goes() -> None:
    typed = {"account": "acc_1", "destination": "acc_9", "amount": "12.5"}
    text, _ = asked_of_form(TRANSFER, Mode.LIVE, typed, {**typed, "type": "debit", "amount": 1250})
    assert text.splitlines()[2:] == [
        "From           Till",
        "To             acc_9",
        "Amount         12.50 EUR",
    ]


def test_a_form_that_moves_nothing_asks_without_an_amount() -> None:
    text, typed_again = asked_of_form(ACCOUNTS.form, Mode.LIVE, {"name": " Till "}, {"name": "Till"})
    assert text.splitlines()[2:] == ["Name           Till"]
    assert typed_again is None
    _, typed_again = asked_of_form(INVOICES.form, Mode.LIVE, {"amount": "12.50"}, {"amount": 1250})
    assert typed_again is None


def test_an_order_names_its_user_and_an_invoice_the_sum_of_its_lines() -> None:
    text, _ = asked_of_form(ORDERS.form, Mode.LIVE, {"user_id": "usr_1"}, {"user_id": "usr_1"})
    assert text.splitlines()[2].endswith(" Ada")
    lines = dump_lines([TypedLine("Beans", "2", "12.50"), TypedLine("Mug", "1", "0")])
    body = {"lines": parse_lines(lines, "EUR")}
    text, _ = asked_of_form(INVOICES.form, Mode.LIVE, {"lines": lines}, body)
    assert "2, " in text.splitlines()[2]
    assert "25.00" in text.splitlines()[2]


def test_a_posting_is_named_while_it_is_typed_once_it_is_complete() -> None:
    names = AccountNames()
    names.learn(
        {"id": f"acc_{number}", "name": name, "currency": "EUR"}
        for number, name in ((1, "Till"), (2, "Safe"))
    )
    form = TRANSACTIONS.form
    assert form is not None
    typed = {"account": "acc_1", "type": "credit", "amount": "12.5"}
    assert movement_effect(form, typed, names, {}) == "Credits Till 12.50 EUR"
    transfer = {"account": "acc_1", "amount": "12.5", "destination": "acc_2"}
    assert movement_effect(TRANSFER, transfer, names, {"acc_1": 2000}) == (
        "Moves 12.50 EUR from Till to Safe\nTill is left with 7.50 EUR"
    )
    assert movement_effect(TRANSFER, transfer | {"destination": "saf"}, names, {}) == ""
    assert movement_effect(TRANSFER, transfer, names, {"acc_1": 50}).endswith(
        "is left with −12.00 EUR, overdrawn"
    )
    assert movement_effect(form, typed | {"amount": "1.234"}, names, {}) == ""
    assert movement_effect(form, typed | {"account": "Till"}, names, {}) == ""


def test_of_many_objects_their_sums_are_asked_about_and_each_is_named() -> None:
    names = AccountNames()
    (void,) = [each for each in INVOICES.actions if each.name == "void"]
    invoices: list[dict[str, Any]] = [
        {"id": f"inv_{n}", "customer": f"Customer {n}", "amount": 100 * n, "currency": "EUR"}
        for n in range(1, 8)
    ]
    asked = bulk_question(INVOICES, void, invoices, 0, names)
    assert asked.head == "Void 7 invoices?\nin all 28.00 EUR"
    assert asked.objects == [f"{n}.00 EUR · Customer {n}" for n in range(1, 8)]
    assert asked.notes == [f"For each: {void.effect}"]
