from collections.abc import Sequence

import pytest

from ledger_tui.client.names import AccountNames
from ledger_tui.resources.base import Filter
from ledger_tui.resources.directory import ORDERS
from ledger_tui.resources.filtering import BadLine, filter_line, is_filter_line, parse_filters
from ledger_tui.resources.transactions import TRANSACTIONS
from ledger_tui.resources.webhooks import DELIVERIES, WebhookLog, events_resource

FILTERS = TRANSACTIONS.filters
NAMES = AccountNames()
NAMES.learn(
    {"id": f"acc_{number}", "name": name, "currency": "EUR"}
    for number, name in enumerate(["Till", "Beans, Berlin", "Twice", "Twice"])
)


def test_words_become_query_parameters_and_read_back() -> None:
    line = "account:acc_1 type:credit after:2026-11-20"
    params = parse_filters(line, FILTERS, NAMES)
    assert params == {"account": "acc_1", "type": "credit", "created_after": "2026-11-20"}
    assert filter_line(params, FILTERS) == line


def test_a_value_is_completed_if_only_one_begins_so() -> None:
    assert parse_filters("type:de", FILTERS, NAMES) == {"type": "debit"}
    assert parse_filters("type:invoice.pa", events_resource(WebhookLog()).filters, NAMES) == {
        "type": "invoice.paid"
    }
    with pytest.raises(BadLine, match="Only open or paid or shipped"):
        parse_filters("status:x", ORDERS.filters, NAMES)


@pytest.mark.parametrize("filters", [events_resource(WebhookLog()).filters, DELIVERIES.filters])
def test_the_name_of_a_yes_no_filter_alone_stands_for_yes(filters: Sequence[Filter]) -> None:
    assert is_filter_line("failed", filters)
    assert parse_filters("failed", filters, NAMES) == {"failed": "yes"}
    assert parse_filters("failed endpoint:whe_1", filters, NAMES) == {"failed": "yes", "endpoint": "whe_1"}
    assert not is_filter_line("failed payment", filters)
    assert not is_filter_line("failed", FILTERS)


def test_an_empty_line_is_no_filter() -> None:
    assert parse_filters("  ", FILTERS, NAMES) == {}


def test_a_time_may_carry_colons() -> None:
    assert parse_filters("after:2026-11-20T04:31:00Z", FILTERS, NAMES) == {
        "created_after": "2026-11-20T04:31:00Z"
    }


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("credit", "“credit” is not one of"),
        ("colour:red", "“colour:red” is not one of"),
        ("type:", "type: needs a value"),
        ("type:creditt", "Only credit or debit."),
        ("after:yesterday", "Write a date like 2026-11-20"),
        ("type:credit type:debit", "type: is given twice."),
        ('after:"2026-11-20', "A quote is not closed."),
        ("after:2026-11-20 07:18", "“07:18” is not one of"),
        ("amount:100", "Write amount:>99.50, amount:<99.50 or amount:=99.50"),
        ("amount:>1,000", "without thousands separators"),
        ("amount:>=5", "Write amount:>"),
        ("after:now", '2026-11-20T07:18 or "2026-11-20 07:18"'),
        ("account:Nobody", "No account is called “Nobody”; give its id, acc_"),
        ("account:Twice", "2 accounts are called “Twice”; give the id, acc_"),
    ],
)
def test_a_mistyped_filter_is_refused_with_a_sentence(line: str, sentence: str) -> None:
    with pytest.raises(BadLine, match=sentence):
        parse_filters(line, FILTERS, NAMES)


@pytest.mark.parametrize("written", ["2026-11-20T07:18", '"2026-11-20 07:18"'])
def test_a_time_is_written_with_a_t_or_between_quotes(written: str) -> None:
    line = f"after:{written}"
    params = parse_filters(line, FILTERS, NAMES)
    assert params == {"created_after": written.strip('"')}
    assert filter_line(params, FILTERS) == line


@pytest.mark.parametrize(
    ("written", "account_id"), [("till", "acc_0"), ('"Beans, Berlin"', "acc_1"), ("acc_9", "acc_9")]
)
def test_an_account_is_given_by_its_name_or_its_id(written: str, account_id: str) -> None:
    assert parse_filters(f"account:{written}", FILTERS, NAMES) == {"account": account_id}


def test_text_without_a_colon_is_looked_for_and_not_sent() -> None:
    assert is_filter_line("type:credit", FILTERS)
    assert is_filter_line("", ())
    assert not is_filter_line("ever", FILTERS)
    assert not is_filter_line("a:b", ())
