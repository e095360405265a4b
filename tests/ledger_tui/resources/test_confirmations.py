"""What is asked before something final names the object as people do, not only by its id."""

from ledger_tui.resources.api_keys import API_KEYS
from ledger_tui.resources.base import Resource
from ledger_tui.resources.confirmations import question
from ledger_tui.resources.endpoints import ENDPOINTS
from ledger_tui.resources.orders import ORDERS
from ledger_tui.resources.transactions import TRANSACTIONS
from ledger_tui.resources.users import USERS
from ledger_tui.state.names import AccountNames


def question_for(resource: Resource, action: str, record: dict[str, object]) -> str:
    names = AccountNames()
    names.learn([{"id": "acc_1", "name": "Till", "currency": "EUR"}])
    names.learn_users([{"id": "usr_1", "name": "Ada"}])
    (found,) = [each for each in resource.actions if each.name == action]
    return question(resource, found, record, names)


def test_a_key_is_named_by_its_name_and_its_last_characters() -> None:
    record: dict[str, object] = {"id": "key_1", "name": "reports", "last4": "x9yz"}
    assert question_for(API_KEYS, "roll", record) == "Roll API key key_1?\n\nreports · …x9yz"


def test_a_user_is_named_by_name_and_address() -> None:
    record: dict[str, object] = {"id": "usr_1", "name": "Ada", "email": "ada@example.com"}
    assert question_for(USERS, "deactivate", record) == "Deactivate user usr_1?\n\nAda · ada@example.com"


def test_money_is_named_with_its_currency_and_its_account() -> None:
    record: dict[str, object] = {"id": "txn_1", "amount": 1250, "type": "debit", "account": "acc_1"}
    assert question_for(TRANSACTIONS, "reverse", record) == "Reverse transaction txn_1?\n\n−12.50 EUR · Till"


def test_an_order_is_named_by_its_total_and_who_ordered() -> None:
    record: dict[str, object] = {"id": "ord_1", "total": 2500, "items": [{}], "user_id": "usr_1"}
    assert question_for(ORDERS, "ship", record) == "Ship order ord_1?\n\n2,500 · 1 item · Ada"


def test_an_endpoint_is_named_by_its_address() -> None:
    record: dict[str, object] = {"id": "whe_1", "url": "https://example.com/hook"}
    assert question_for(ENDPOINTS, "roll_secret", record).endswith("whe_1?\n\nhttps://example.com/hook")


def test_where_nothing_is_known_the_id_is_all() -> None:
    assert question_for(USERS, "deactivate", {"id": "usr_9"}) == "Deactivate user usr_9?"
