"""The command line understands lines, and explains why it does not understand others."""

from __future__ import annotations

import pytest

from ledger_tui.app.command_line import Choices, Command, CommandOffer, completions, parse_command, problem
from ledger_tui.client.names import AccountNames
from ledger_tui.resources.filtering import BadLine

TILL = "acc_01kafz0000000000000000000a"
SAFE = "acc_01kafz0000000000000000000b"
INVOICE = "inv_01kafz0000000000000000000a"


@pytest.fixture
def choices() -> Choices:
    names = AccountNames()
    names.learn([{"id": TILL, "name": "Till", "currency": "EUR"}])
    return Choices(["shop", "work"], ["ledger", "ledger-light"], names)


@pytest.mark.parametrize(
    ("line", "command"),
    [
        ("accounts", Command("screen", "accounts")),
        (":acc", Command("screen", "accounts")),
        ("inv paid", Command("screen", "invoices", {"status": "paid"})),
        ("invoices status:open Till", Command("screen", "invoices", {"status": "open", "account": TILL})),
        (f"txn {TILL}", Command("screen", "transactions", {"account": TILL})),
        ("txn debit", Command("screen", "transactions", {"type": "debit"})),
        ("txn 2026-11-20", Command("screen", "transactions", {"created_after": "2026-11-20"})),
        ("users admin", Command("screen", "users", {"role": "admin"})),
        ("req path:/v1/invoices", Command("screen", "requests", {"path": "/v1/invoices"})),
        (f"inv {INVOICE}", Command("object", INVOICE)),
        (INVOICE, Command("object", INVOICE)),
        ("key_01kafz0000000000000000000a", BadLine("No screen shows key_01kafz0000000000000000000a.")),
        ("0v", BadLine("There is no command “0v”; tab shows what there is.")),
        ("home", Command("screen", "overview")),
        ("hooks failed:yes", Command("screen", "events", {"failed": "yes"})),
        ("hooks failed", Command("screen", "events", {"failed": "yes"})),
        ("txns type:debit", Command("screen", "transactions", {"type": "debit"})),
        ("flows type:debit", BadLine("flows has no filters.")),
        ("profile shop", Command("profile", "shop")),
        ("prof sh", Command("profile", "shop")),
        ("theme ledger-light", Command("theme", "ledger-light")),
        ("save prod", Command("save", "prod")),
        ("key", Command("key")),
        ("q", Command("quit")),
        ("clock", Command("screen", "test_helpers")),
        ("re", Command("screen", "requests")),
        ("", BadLine("Type a screen, an id, or a command; tab completes it.")),
        ("t", BadLine("“t” may be transactions, token, theme; write more of it.")),
        (
            "profile prod",
            BadLine(
                "No profile is named “prod”. Save this connection with :save prod. Profiles: shop, work."
            ),
        ),
        ("theme grey", BadLine("No theme is named “grey”. Themes: ledger, ledger-light.")),
        ("txn type:de", Command("screen", "transactions", {"type": "debit"})),
        ("profile", BadLine("Which profile? Profiles: shop, work.")),
        ("save", BadLine("Name the profile: :save NAME")),
        ("orders lost", BadLine("“lost” is not one of status:open  user:Ada.")),
        ("token x", BadLine("token has no filters.")),
        ("inv Nobody", BadLine("No account is called “Nobody”; give its id, acc_….")),
    ],
)
def test_a_line_is_a_command_or_says_why_not(line: str, command: Command | BadLine, choices: Choices) -> None:
    if isinstance(command, BadLine):
        with pytest.raises(BadLine) as bad:
            parse_command(line, choices)
        assert str(bad.value) == str(command)
    else:
        assert parse_command(line, choices) == command


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("inv", ["invoices"]),
        ("tx", ["txn"]),
        ("invs", ["invoices"]),
        ("acct", ["accounts"]),
        ("inv p", ["inv paid"]),
        ("inv sta", ["inv status:"]),
        ("inv paid Ti", [f"inv paid account:{TILL}"]),
        ("profile w", ["profile work"]),
        ("theme ledger-", ["theme ledger-light"]),
        ("nothing ", []),
        ("at ", ["at -2h", "at 14:05", "at 2026-11-23 14:05", "at now"]),
        ("at -2", ["at -2h"]),
        (":2026-11-20", ["date 2026-11-20"]),
        ("2026-11-20 07:18", ["date 2026-11-20 07:18"]),
    ],
)
def test_a_typed_line_is_completed(line: str, found: list[str], choices: Choices) -> None:
    assert [text for text, _about in completions(line, choices)] == found


def test_every_completion_without_an_argument_is_understood(choices: Choices) -> None:
    for text, about in completions("", choices):
        assert about
        if text not in (
            "profile",
            "theme",
            "save",
            "at",
            "date",
            "snapshot",
            "restore",
            "drop",
            "fault",
            "trigger",
        ):
            parse_command(text, choices)


@pytest.mark.parametrize(
    ("line", "filters"),
    [
        ("inv pa", {"status": "paid"}),  # not the account, though it has these letters
        ("inv safe, berlin pa", {"account": SAFE, "status": "paid"}),
        ('inv account:"Paper safe, Berlin"', {"account": SAFE}),
    ],
)
def test_a_value_may_be_begun_and_a_name_have_several_words(
    line: str, filters: dict[str, str], choices: Choices
) -> None:
    choices.names.learn([{"id": SAFE, "name": "Paper safe, Berlin", "currency": "EUR"}])
    assert parse_command(line, choices) == Command("screen", "invoices", filters)


@pytest.mark.parametrize("line", ["2026-11-20", "2026-11-20 07:18", ":2026-11-20T07:18Z"])
def test_a_date_alone_goes_to_the_date(line: str, choices: Choices) -> None:
    assert parse_command(line, choices) == Command("date", line.lstrip(":"))


def test_a_whole_word_of_an_action_comes_before_a_part_of_another_offer() -> None:
    offers = [
        CommandOffer("Account Operating account", "acc_01kt5m5g58refund9qm9a60f0"),
        CommandOffer("Transaction Refunding", "txn_01"),
        CommandOffer("Reverse", "Transactions", also="refund undo"),
    ]
    assert min(offers, key=lambda each: each.rank("refund")).text == "Reverse"


@pytest.mark.parametrize(
    ("line", "start"),
    [
        ("at nonsense", "Write a time as 2026-11-23 14:05, 14:05, -2h or now."),
        ("theme grey", "No theme is named “grey”."),
        ("Coffee shop", "Nothing found."),
        ("nonsense", "Nothing found."),
    ],
)
def test_a_wrong_argument_of_a_command_shows_its_form_while_it_is_typed(
    line: str, start: str, choices: Choices
) -> None:
    assert problem(line, choices).startswith(start)
    assert not problem("at -10min", Choices([], [], choices.names, now_ms=10**12))
