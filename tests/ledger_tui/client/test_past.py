"""Answers are reduced to an earlier moment, and two moments are compared."""

from __future__ import annotations

from ledger_tui.client.past import (
    body_at,
    changed_keys,
    difference_row,
    happenings,
    moment_ms,
    moment_text,
    params_at,
    with_shares,
)

AT = "2026-11-20T10:00:00.000Z"
BEFORE, AFTER = "2026-11-20T09:00:00.000Z", "2026-11-20T11:00:00.000Z"
AT_MS = moment_ms(AT) or 0


def test_a_moment_is_written_as_the_interface_does_and_read_again() -> None:
    assert moment_text(AT_MS) == AT
    assert moment_ms("soon") is None


def test_a_request_about_the_past_names_the_moment() -> None:
    for path in (
        "/v1/accounts",
        "/v1/accounts/acc_1",
        "/v1/invoices",
        "/v1/transactions",
        "/v1/events",
        "/v1/requests",
        "/api/users",
        "/api/orders/ord_1",
    ):
        assert params_at(path, {"limit": "5"}, AT_MS) == {"limit": "5", "at": AT}
    for path in ("/v1/transactions/txn_1", "/v1/diff", "/v1/whoami", "/v1/api_keys", "/api/health"):
        assert params_at(path, {}, AT_MS) == {}
    assert params_at("/v1/transactions", {"at": BEFORE}, AT_MS) == {"at": BEFORE}


def test_a_statement_ends_at_the_moment() -> None:
    path = "/v1/accounts/acc_1/statement"
    assert params_at(path, {"from": BEFORE}, AT_MS) == {"from": BEFORE, "to": AT}
    assert params_at(path, {"to": BEFORE}, AT_MS) == {"to": BEFORE}


def test_later_objects_are_not_in_a_list() -> None:
    body = {"data": [{"id": "b", "created": AFTER}, {"id": "a", "created": BEFORE}], "has_more": False}
    assert body_at(body, AT_MS) == {"data": [{"id": "a", "created": BEFORE}], "has_more": False}


def test_a_delivery_has_the_attempts_made_until_then() -> None:
    attempts = [{"number": 1, "attempted_at": BEFORE}, {"number": 2, "attempted_at": AFTER}]
    delivery = {"created": BEFORE, "status": "succeeded", "next_attempt_at": None, "attempts": attempts}
    then = body_at({"data": [delivery]}, AT_MS)["data"][0]
    assert then["attempts"] == attempts[:1]
    assert (then["status"], then["next_attempt_at"]) == ("pending", AFTER)
    assert body_at({"data": [delivery]}, moment_ms(AFTER) or 0)["data"] == [delivery]


def test_a_key_that_was_revoked_later_is_active() -> None:
    assert body_at({"id": "key", "revoked_at": AFTER}, AT_MS)["revoked_at"] is None
    assert body_at({"id": "key", "revoked_at": BEFORE}, AT_MS)["revoked_at"] == BEFORE


def test_each_difference_has_its_share_of_the_largest_of_its_currency() -> None:
    rows = [
        {"currency": "EUR", "difference": -200},
        {"currency": "EUR", "difference": 50},
        {"currency": "JPY", "difference": 3},
        {"currency": "JPY", "difference": 0},
        {"currency": None},
    ]
    assert [row.get("share") for row in with_shares(rows)] == [-1, 0.25, 1, None, None]


def test_keys_that_were_made_or_revoked_between_are_changes() -> None:
    keys = [
        {"id": "key_1", "created": BEFORE, "revoked_at": None},
        {"id": "key_2", "created": BEFORE, "revoked_at": AFTER},
        {"id": "key_3", "created": AFTER, "revoked_at": None},
        {"id": "key_4", "created": "2026-11-20T12:00:00.000Z", "revoked_at": None},
        {"id": "key_5", "created": BEFORE, "revoked_at": BEFORE},
    ]
    rows = [difference_row(each, AT, AFTER) for each in changed_keys(keys, AT, AFTER)]
    assert [(row["id"], row["before"], row["after"]) for row in rows] == [
        ("key_2", "active", "revoked"),
        ("key_3", None, "active"),
    ]


def test_an_event_is_named_by_type_and_object() -> None:
    event = {
        "id": "evt_1",
        "type": "invoice.paid",
        "created": AT,
        "data": {"object": {"id": "inv_1", "number": "INV-000001"}},
    }
    bare = {"id": "evt_0", "type": "ping", "created": BEFORE, "data": None}
    found = happenings([event, bare, {"id": "x"}])
    assert [(each.id, each.about) for each in found] == [
        ("evt_0", "ping"),
        ("evt_1", "invoice.paid INV-000001"),
    ]
