"""A logged request is copied, edited, sent again and compared."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.app import SuspendNotSupported

from ledger_tui.features.requests import (
    EditedRequest,
    RequestsView,
    RequestTextError,
    answer_text,
    parse_request,
    request_text,
    side_by_side,
)
from ledger_tui.resources.requests import REQUESTS
from tests.ledger_tui.alone import Alone, unconnected
from tests.ledger_tui.driving import Driver


async def test_without_a_selected_request_the_one_that_reads_the_list_is_copied() -> None:
    app = Alone(view := RequestsView(REQUESTS, context := unconnected()))
    context.session.url = "http://h"
    async with app.run_test():
        shown = view.shown_exchange()
        assert (shown.method, shown.url) == ("GET", "http://h/v1/requests")
        view.open_record({"id": "req_2", "method": "POST", "path": "/v1/accounts", "status": 201})
        shown = view.shown_exchange()
        assert (shown.method, shown.url) == ("POST", "http://h/v1/accounts")


def test_a_request_is_the_same_after_it_was_written_and_read() -> None:
    record = {"method": "POST", "path": "/v1/x", "query": "a=1&b=", "request_body": '{"name": "Till"}'}
    assert request_text(record) == 'POST /v1/x?a=1&b=\n\n{\n  "name": "Till"\n}\n'
    assert parse_request(request_text(record)) == EditedRequest(
        "POST", "/v1/x", {"a": "1", "b": ""}, {"name": "Till"}
    )
    assert parse_request(request_text({"method": "GET", "path": "/v1/x"})) == EditedRequest(
        "GET", "/v1/x", {}, None
    )


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "The first line must be a method and a path"),
        ("POST", "The first line must be a method and a path"),
        ("POST http://elsewhere/v1", "The first line must be a method and a path"),
        ("FETCH /v1/x", "The first line must be a method and a path"),
        ("POST /v1/x\n\n{", "The body is not JSON: "),
        ("POST /v1/x\n\n[]", "The body must be a JSON object."),
        ('POST /v1/x\n\n{"key": "sk_test_••••"}', "A value is masked"),
    ],
)
def test_a_text_that_is_no_request_is_not_sent(text: str, reason: str) -> None:
    with pytest.raises(RequestTextError, match=reason):
        parse_request(text)


def test_answers_are_compared_line_by_line() -> None:
    refused = '{"error": {"type": "x", "code": "invalid", "message": "No.", "param": "amount"}}'
    before, after = answer_text(400, refused), answer_text(201, {"id": "txn_1"})
    assert before.splitlines()[0] == "400"
    assert "type" not in before  # an error of this client has none
    lines = [line.plain for line in side_by_side(before, after, 60)]
    assert lines[0].split() == ["before", "now"]
    assert "≠" in lines[1]
    assert not [line for line in side_by_side(before, before, 60) if "≠" in line.plain]


def test_a_long_line_of_an_answer_is_broken_in_its_own_column() -> None:
    lines = [line.plain for line in side_by_side("201", "400\n  " + "refused because " * 6, 43)]
    assert all(len(line) <= 43 and not line[:20].strip() for line in lines[2:])
    assert (
        " ".join("".join(lines[2:]).replace("≠", " ").split()) == "refused because " * 5 + "refused because"
    )


@pytest.mark.dashboard
async def test_a_refused_request_is_corrected_in_the_editor_and_sent_again(
    driver: Driver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    editor = tmp_path / "editor"
    editor.write_text("#!/bin/sh\nsed -i 's/XXX/EUR/' \"$1\"\n")
    editor.chmod(0o755)
    monkeypatch.setenv("VISUAL", str(editor))
    monkeypatch.setattr(type(driver.app), "suspend", lambda _app: pytest.MonkeyPatch.context())
    with pytest.raises(Exception, match="urrency"):
        await driver.app.api.write("POST", "/v1/accounts", {"name": "Bank", "currency": "XXX"}, "k")
    await driver.press("8", "slash", *"own:yes status:400", "enter", sees="✕ 400")
    await driver.press("e")
    await driver.sees("POST /v1/accounts", '"currency": "EUR"', "y send")
    await driver.press("enter", sees="Press y to send POST /v1/accounts, n to cancel.")
    assert "before" not in driver.text()
    await driver.press("y", sees=("before", "201", "≠ marks the differences"))
    await driver.press("enter", "y", sees="The request was sent. e edits it to send it again.")
    await driver.press("escape", "1", sees="Bank")
    created = (await driver.app.api.read("/v1/accounts")).record["data"]
    assert len([account for account in created if account["name"] == "Bank"]) == 1
    driver.turn_live()
    await driver.press("8")
    await driver.press("e", "y", sees="Type /v1/accounts to confirm")

    def cannot(_app: object) -> None:
        raise SuspendNotSupported

    monkeypatch.setattr(type(driver.app), "suspend", cannot)
    await driver.press("escape", "e", sees="✕ Another program cannot take over this terminal.")
