"""How statements are said on PostgreSQL."""

from __future__ import annotations

from ledger_engine.store.postgres.rendering import rendered


def test_a_list_by_type_is_searched_for_by_the_expression_that_is_in_the_index() -> None:
    statement = rendered(
        "SELECT id FROM transactions INDEXED BY transactions_by_type WHERE type = :type AND book = (SELECT 1)"
        " ORDER BY id DESC LIMIT :rows"
    )
    assert statement.text == (
        b"SELECT id FROM transactions WHERE type || book = $1 || (SELECT 1) ORDER BY id DESC LIMIT $2"
    )
    assert statement.names == ("type", "rows")
