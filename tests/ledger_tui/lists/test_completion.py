"""What the filter line offers."""

from ledger_tui.client.names import AccountNames
from ledger_tui.lists.completion import offers_for, without_last_word
from ledger_tui.resources.orders import ORDERS
from ledger_tui.resources.transactions import TRANSACTIONS

NAMES = AccountNames()
NAMES.learn(
    {"id": f"acc_{number}", "name": name, "currency": "EUR"}
    for number, name in enumerate(["Till", "Beans, Berlin", "Twice", "Twice"])
)
NAMES.learn_users([{"id": "usr_1", "name": "Ada Lovelace", "email": "ada@example.com"}])


def lines(line: str) -> list[str]:
    return [offer.line for offer in offers_for(line, TRANSACTIONS.filters, NAMES)]


def test_a_filter_is_offered_by_its_beginning_and_once() -> None:
    assert lines("t") == ["type:"]
    assert lines("type:debit ") == ["type:debit account:", "type:debit after:"]


def test_values_and_names_are_offered_so_that_the_line_can_be_applied() -> None:
    assert lines("type:") == ["type:credit ", "type:debit "]
    assert lines("type:debit") == []
    assert lines("account:berlin") == ['account:"Beans, Berlin" ']
    assert lines('type:debit account:"beans, b') == ['type:debit account:"Beans, Berlin" ']
    assert lines("account:Twice") == ["account:acc_2 ", "account:acc_3 "]  # the name would be ambiguous
    assert lines("after:2026") == lines("unknown:x") == []


def test_users_are_offered_by_name_or_email() -> None:
    offers = offers_for("user:ada@", ORDERS.filters, NAMES)
    assert [(offer.line, offer.beside) for offer in offers] == [('user:"Ada Lovelace" ', "ada@example.com")]


def test_an_empty_line_offers_bookmarks_then_what_was_used() -> None:
    offers = offers_for("", TRANSACTIONS.filters, NAMES, ["type:debit"], ["type:debit", "type:credit"])
    assert [(offer.line, offer.complete) for offer in offers][:3] == [
        ("type:debit", True),
        ("type:credit", True),
        ("account:", False),
    ]


def test_a_name_of_several_words_needs_no_quotes_to_be_found() -> None:
    assert lines("account:beans, b") == ['account:"Beans, Berlin" ']
    assert lines("type:debit account:beans, berl") == ['type:debit account:"Beans, Berlin" ']
    assert lines('account:"Beans, Berlin" ty') == ['account:"Beans, Berlin" type:']
    assert lines("account:Till ty") == ["account:Till type:"]
    assert lines("account:beans type:deb") == ["account:beans type:debit "]


def test_a_bare_word_is_offered_as_the_value_or_the_name_that_it_begins_or_is_in() -> None:
    assert lines("deb") == ["type:debit "]
    assert lines("type:debit cre") == []
    assert lines("berl") == ['account:"Beans, Berlin" ']
    assert lines("beans, ber") == ['account:"Beans, Berlin" ']
    assert lines("type:debit til") == ["type:debit account:Till "]
    assert lines("account:Till twi") == []
    assert lines("acc_") == []
    [offer] = offers_for("example.com", ORDERS.filters, NAMES)
    assert (offer.line, offer.shown, offer.beside) == (
        'user:"Ada Lovelace" ', "user:Ada Lovelace", "ada@example.com"
    )  # fmt: skip


def test_the_last_filter_is_removed_with_its_value() -> None:
    assert without_last_word('type:debit account:"Beans, Berlin" ') == "type:debit "
    assert without_last_word("after:2026-11-20") == without_last_word(" ") == ""
