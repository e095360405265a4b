"""Every command and option is described to people: in README.md or docs/, and in its own --help."""

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

import ledger_engine.cli
import ledger_tui.cli

PROGRAMS = {"ledger-engine": ledger_engine.cli.main, "ledger-tui": ledger_tui.cli.command}


def commands(command: click.Command, name: str) -> Iterator[tuple[str, click.Command]]:
    """Yield the command and those below it, with the words that one types for each."""
    yield name, command
    if isinstance(command, click.Group):
        context = click.Context(command, **command.context_settings)
        for word in command.list_commands(context):
            below = command.get_command(context, word)
            assert below is not None
            yield from commands(below, f"{name} {word}")


def names(pages: str, words: str) -> bool:
    """Whether the pages have these words, and not only as the beginning of longer ones."""
    return re.search(rf"{re.escape(words)}(?![\w-])", pages) is not None


EVERY = [each for name, program in PROGRAMS.items() for each in commands(program, name)]


LINE = re.compile(
    r"(?<!# prints )(?:(?<=[`\s/(])|^)(ledger-engine|ledger-tui)((?: (?:[^\s`#&|;)]|(?<=\w)\|(?=\w))+)+)"
)
DEPLOYED = ("ledger.service", "compose.yaml", "compose-postgres.yaml", "Containerfile")


def unknown(program: str, words: list[str]) -> list[str]:
    """Return the words of a command line that are no command and no option of the program."""
    command: click.Command = PROGRAMS[program]
    found = []
    is_value = False
    for word in (each.strip("[]….,:'\"") for each in words):
        if word.startswith("--") and not word.isupper():
            options = {
                name: each
                for each in command.get_params(click.Context(command, **command.context_settings))
                for name in each.opts
            }
            option = options.get(word)
            found += [] if isinstance(option, click.Option) else [word]
            is_value = isinstance(option, click.Option) and not option.is_flag
        elif is_value:
            is_value = False
        elif isinstance(command, click.Group) and word:
            below = command.get_command(click.Context(command, **command.context_settings), word)
            if below is None:
                return [*found, word]
            command = below
    return found


def written(root: Path) -> list[Path]:
    """Return the pages that describe the programs to their users."""
    return [root / "README.md", *sorted((root / "docs").rglob("*.md"))]


@pytest.fixture(scope="module")
def pages(root: Path) -> str:
    files = written(root)
    return "\n".join(file.read_text(encoding="utf-8") for file in files)


@pytest.mark.parametrize(("name", "command"), EVERY, ids=[name for name, _ in EVERY])
def test_a_command_is_documented(name: str, command: click.Command, pages: str) -> None:
    assert names(pages, name)


@pytest.mark.parametrize(("name", "command"), EVERY, ids=[name for name, _ in EVERY])
def test_each_option_of_a_command_is_documented(name: str, command: click.Command, pages: str) -> None:
    options = {
        max(parameter.opts, key=len)
        for parameter in command.params
        if isinstance(parameter, click.Option) and not parameter.hidden
    }
    assert {option for option in options if not names(pages, option)} == set()


@pytest.mark.parametrize(("name", "command"), EVERY, ids=[name for name, _ in EVERY])
def test_a_command_and_its_options_say_what_they_are_for(name: str, command: click.Command) -> None:
    assert command.help
    silent = [
        parameter.name
        for parameter in command.params
        if isinstance(parameter, click.Option) and not parameter.help
    ]
    assert silent == []


def test_each_command_line_names_commands_and_options_that_exist(root: Path) -> None:
    files = [*written(root), *(root / "deploy" / name for name in DEPLOYED)]
    wrong = [
        f"{file.name}: {match[0]}: {words}\n"
        for file in files
        for match in LINE.finditer(file.read_text(encoding="utf-8"))
        if (words := unknown(match[1], match[2].split()))
    ]
    assert wrong == []


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_page_of_commands_lists_each_command(program: str, root: Path) -> None:
    """Its table of a program has each command in the first column, and a group by its subcommands."""
    page = (root / "docs" / "commands.md").read_text(encoding="utf-8")
    table = page.split(f"| `{program}` | ")[1].split("\n\n")[0]
    listed = [name for row in table.splitlines()[2:] for name in re.findall(r"`([^`]+)`", row.split("|")[1])]
    commands_of_it = {name for name, command in EVERY if not isinstance(command, click.Group)}
    assert sorted(f"{program} {name}" for name in listed) == sorted(
        name for name in commands_of_it if name.startswith(program)
    )
