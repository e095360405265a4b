"""Own commands get the record in their environment, and no key; their last line says how they ended."""

from __future__ import annotations

import pytest

from ledger_tui.config import BadConfig, parse_config
from ledger_tui.keymap import command_bindings
from ledger_tui.own_commands import OwnCommand, environment, run

RECORD = {
    "id": "inv_1",
    "status": "paid",
    "amount": 5,
    "due_date": None,
    "metadata": {"a": "1"},
    "a b": "x",
}


def test_each_field_is_a_variable_and_none_is_one_of_the_shells() -> None:
    found = environment(RECORD, "invoices", "http://h")
    assert (found["LEDGER_ID"], found["LEDGER_AMOUNT"], found["LEDGER_DUE_DATE"]) == ("inv_1", "5", "")
    assert (found["LEDGER_METADATA"], found["LEDGER_A_B"]) == ('{"a": "1"}', "x")
    assert (found["LEDGER_KIND"], found["LEDGER_URL"]) == ("invoices", "http://h")
    assert all(name.startswith("LEDGER_") for name in found)


@pytest.mark.process
async def test_a_command_says_how_it_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEDGER_API_KEY", "sk_test_0123456789")
    variables = environment(RECORD, "invoices", "http://h")
    line = 'echo first; printf "%s of %s%s" "$LEDGER_STATUS" "$LEDGER_ID" "$LEDGER_API_KEY"'
    show = OwnCommand("show", "f6", line)
    assert await run(show, variables) == "show: done  paid of inv_1"
    fail = OwnCommand("fail", "f6", "printf '\\033[31mno' >&2; exit 3")
    assert await run(fail, variables) == "fail: ended with 3  ␛[31mno"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("x" * 200_000, "a text of the record is too long for a variable"),
        ("\ud800", "a text of the record is not valid Unicode"),
    ],
)
async def test_a_record_that_no_command_can_be_given_is_said_to_be_so(text: str, reason: str) -> None:
    variables = environment({"id": "inv_1", "description": text}, "invoices", "http://h")
    assert await run(OwnCommand("show", "f6", "true"), variables) == f"show cannot be run: {reason}"


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        ('key = "f6"', "commands.show.run: must be text in quotes"),
        ('run = "true"', "commands.show.key: must be text in quotes"),
        ('key = "f6"\nrun = "true"\nwhen = "x"', "commands.show.when: is not an entry of a command"),
        ('key = "f6"\nrun = "true"\nscreens = "invoices"', "commands.show.screens: must be a list of names"),
        (
            'key = "f6"\nrun = "true"\nscreens = ["bills"]',
            'screens: there is no screen "b',
        ),
        ('key = "q"\nrun = "true"', 'commands.show.key: "q" is already the key of quit'),
        ('key = "ctrl+p"\nrun = "true"', 'commands.show.key: "ctrl+p" is not a key that can be used'),
        ('key = "eff"\nrun = "true"', 'commands.show.key: "eff" is not a key that can be used'),
    ],
)
def test_a_mistake_in_a_command_is_named(table: str, reason: str) -> None:
    def check() -> None:
        config = parse_config(f"[commands.show]\n{table}", "f")
        command_bindings(config.commands, config.keys, "f")

    with pytest.raises(BadConfig) as bad:
        check()
    assert reason in str(bad.value)
