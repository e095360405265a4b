import pytest

from ledger_tui.resources.filtering import BadFilter, filter_line, parse_filters
from ledger_tui.resources.transactions import TRANSACTIONS

FILTERS = TRANSACTIONS.filters


def test_words_become_query_parameters_and_read_back() -> None:
    line = "account:acc_1 type:credit after:2026-11-20"
    params = parse_filters(line, FILTERS)
    assert params == {"account": "acc_1", "type": "credit", "created_after": "2026-11-20"}
    assert filter_line(params, FILTERS) == line


def test_an_empty_line_is_no_filter() -> None:
    assert parse_filters("  ", FILTERS) == {}


def test_a_time_may_carry_colons() -> None:
    assert parse_filters("after:2026-11-20T04:31:00Z", FILTERS) == {"created_after": "2026-11-20T04:31:00Z"}


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("credit", "“credit” is none of"),
        ("colour:red", "“colour:red” is none of"),
        ("type:", "type: needs a value"),
        ("type:creditt", "Only credit or debit."),
        ("after:yesterday", "Write a date like 2026-11-20"),
        ("type:credit type:debit", "type: is there twice."),
    ],
)
def test_a_mistyped_filter_is_refused_with_a_sentence(line: str, sentence: str) -> None:
    with pytest.raises(BadFilter, match=sentence):
        parse_filters(line, FILTERS)
