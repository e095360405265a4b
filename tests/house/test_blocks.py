"""Every block of code of the pages is run (tests/test_pages.py) or read, or its page says why not."""

import json
import re
from collections import Counter
from pathlib import Path

import pytest
import yaml

from ledger_tui.cli import read_checked
from tests.house.pages import ROOT, Block, blocks, pages

RUN = ("sh", "cron", "python", "javascript")
READ = ("json", "toml", "yaml")
# What no test can run, by the reason that its page gives.
NOT_RUN = {"containers": 3, "a demo": 1}
PROGRAMS = "ledger-engine|ledger-tui|make|pip|npm|npx|curl|docker|datasette|sqlite-utils|createdb"
FOR_DEVELOPERS = (ROOT / "CONTRIBUTING.md", ROOT / "tests" / "README.md", ROOT / "tests/trust/RESULTS.md")
EVERY = [block for page in pages() for block in blocks(page)]


def in_language(*languages: str) -> list[Block]:
    return [block for block in EVERY if block.language in languages]


def test_each_block_in_a_language_is_run_or_read_or_is_counted() -> None:
    assert Counter(block.not_run for block in EVERY if block.not_run) == NOT_RUN
    assert [block for block in EVERY if block.not_run and block.language in READ] == []
    shown = [
        str(block) for block in EVERY if block.language not in ("", "http", *RUN, *READ) and not block.file
    ]
    assert shown == []


@pytest.mark.parametrize("block", [each for each in EVERY if each.run_by], ids=str)
def test_a_test_that_runs_a_block_is_there_and_says_of_what_page(block: Block) -> None:
    assert block.run_by is not None
    test = (ROOT / block.run_by).read_text(encoding="utf-8")
    assert block.page.name in test


def test_a_command_to_type_is_in_a_block_that_is_run() -> None:
    """A block without a language has the forms of commands, with what one gives in capitals, or an output."""
    typed = [
        str(block)
        for block in in_language("")
        if block.page not in FOR_DEVELOPERS
        and re.match(rf"(?:\S+=\S+ )*(?:\S*/)?(?:{PROGRAMS}) ", block.text)
        and not re.search(r"\[--|\b[A-Z]{2,}\b", block.text)
    ]
    assert typed == []


def test_no_comment_is_in_a_block_that_zsh_may_run() -> None:
    """zsh takes `#` as a word, so `key=… # why` runs the program `#`, and `key` stays empty.

    The production pages, and others with `# prints`, are typed by root, whose shell is bash.
    """
    wrong = [
        str(block)
        for block in in_language("sh")
        if block.page not in FOR_DEVELOPERS
        and "production" not in block.page.name
        and re.search(r"(?m)(?:^|\s)#\s(?!prints )", block.text)
    ]
    assert wrong == []


@pytest.mark.parametrize("block", in_language("json", "yaml"), ids=str)
def test_a_block_of_data_can_be_read(block: Block) -> None:
    if block.language == "yaml":
        assert yaml.safe_load(block.text)
    else:
        assert json.loads(re.sub(r"\A// \d{3}\n", "", block.text))


@pytest.mark.parametrize("block", in_language("toml"), ids=str)
def test_an_example_of_a_config_file_is_taken(block: Block, tmp_path: Path) -> None:
    assert block.page.name == "dashboard-configuration.md"
    (tmp_path / "config.toml").write_text(block.text)
    config = read_checked(tmp_path / "config.toml")
    assert config.profiles
    assert config.commands


def test_nothing_is_installed_from_an_index_by_our_names(text_files: dict[Path, str]) -> None:
    """The names are nobody's there, so a stranger could take them."""
    ours = r"['\"]?ledger(?:[-_](?:client|engine|tui))?(?:\[| |'|`|\n|$)"
    by_name = re.compile(rf"(?:(?:pipx?|tool) install|uvx|pipx run)\b[^\n#]* {ours}")
    naming = [f"{path}: {match[0]}" for path, text in text_files.items() for match in by_name.finditer(text)]
    assert naming == []
