"""Own commands get the record in their environment, and no key; their last line of output is shown."""

from __future__ import annotations

import json

import pytest

from ledger_tui.settings.config import BadConfig, parse_config
from ledger_tui.settings.own_commands import OwnCommand, environment, run

RECORD = {
    "id": "inv_1",
    "status": "paid",
    "amount": 5,
    "due_date": None,
    "metadata": {"a": "1"},
    "a b": "x",
}


def test_each_known_field_is_a_variable_under_a_prefix_of_their_own() -> None:
    found = environment(RECORD, "invoices", "http://h")
    assert (found["LEDGER_ROW_ID"], found["LEDGER_ROW_AMOUNT"], found["LEDGER_ROW_DUE_DATE"]) == (
        "inv_1",
        "5",
        "",
    )
    assert found["LEDGER_ROW_METADATA"] == '{"a": "1"}'
    assert (found["LEDGER_KIND"], found["LEDGER_URL"]) == ("invoices", "http://h")
    assert json.loads(found["LEDGER_JSON"]) == RECORD


def test_a_record_sets_no_variable_by_a_field_of_its_own() -> None:
    record = {
        "id": "acc_1",
        "database": "evil.db",
        "api_key": "x",
        "secret_key": "x",
        "a b": "x",
        "json": "x",
    }
    assert environment(record, "accounts", "http://h") == {
        "LEDGER_ROW_ID": "acc_1",
        "LEDGER_KIND": "accounts",
        "LEDGER_URL": "http://h",
        "LEDGER_JSON": json.dumps(record),
    }


@pytest.mark.process
async def test_a_command_says_how_it_ended() -> None:
    variables = environment(RECORD, "invoices", "http://h")
    show = OwnCommand("show", "f6", 'echo first; printf "%s of %s" "$LEDGER_ROW_STATUS" "$LEDGER_ROW_ID"')
    assert await run(show, variables) == "show: done  paid of inv_1"
    fail = OwnCommand("fail", "f6", "printf '\\033[31mno' >&2; exit 3")
    assert await run(fail, variables) == "fail: ended with 3  ␛[31mno"


@pytest.mark.process
async def test_a_command_gets_no_key_and_no_database_of_the_dashboard(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("LEDGER_API_KEY", "LEDGER_API_KEY_TEST", "LEDGER_DATABASE", "SHOP_KEY", "OTHER"):
        monkeypatch.setenv(name, "kept")
    monkeypatch.setenv("MINE", "sk_test_0123456789")
    config = parse_config('[profiles.shop]\nurl = "https://h"\nkey = "env:SHOP_KEY"', "f")
    line = 'printf "%s." "$LEDGER_API_KEY$LEDGER_API_KEY_TEST$LEDGER_DATABASE" "$SHOP_KEY" "$MINE" "$OTHER"'
    said = await run(OwnCommand("show", "f6", line), {}, config.key_variables)
    assert said == "show: done  ...kept."


@pytest.mark.process
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("x" * 200_000, "the record is too large for a command's environment."),
        ("\ud800", "the record has characters that are not valid Unicode."),
    ],
)
async def test_a_command_that_cannot_get_the_record_is_not_run_and_says_why(text: str, reason: str) -> None:
    variables = environment({"id": "acc_1", "name": text}, "accounts", "http://h")
    assert await run(OwnCommand("show", "f6", "true"), variables) == f"show was not run: {reason}"


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        ('key = "f6"', "commands.show.run: must be text in quotes"),
        ('run = "true"', "commands.show.key: must be text in quotes"),
        (
            'key = "f6"\nrun = "true"\nwhen = "x"',
            "commands.show.when: there is no such entry; choose one of key, run, screens",
        ),
        ('key = "f6"\nrun = "true"\nscreens = "invoices"', "commands.show.screens: must be a list of names"),
    ],
)
def test_a_mistake_in_a_command_is_named(table: str, reason: str) -> None:
    with pytest.raises(BadConfig) as bad:
        parse_config(f"[commands.show]\n{table}", "f")
    assert reason in str(bad.value)
