"""CHANGELOG.md in the form of Keep a Changelog, and the version told the same everywhere."""

import re
from pathlib import Path

import ledger_client
import ledger_engine
import ledger_tui

KINDS = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}


def test_the_changelog_begins_with_what_is_unreleased(root: Path) -> None:
    versions = re.findall(r"(?m)^## \[(.+?)\]", (root / "CHANGELOG.md").read_text(encoding="utf-8"))
    assert versions[0] == "Unreleased"


def test_the_changelog_has_only_the_known_kinds_of_change(root: Path) -> None:
    kinds = re.findall(r"(?m)^### (.+)$", (root / "CHANGELOG.md").read_text(encoding="utf-8"))
    assert kinds
    assert set(kinds) <= KINDS


def test_each_kind_of_change_stands_once_in_a_version(root: Path) -> None:
    for version in (root / "CHANGELOG.md").read_text(encoding="utf-8").split("\n## ")[1:]:
        kinds = re.findall(r"(?m)^### (.+)$", version)
        assert len(kinds) == len(set(kinds))


def test_both_programs_and_the_client_have_one_version() -> None:
    assert ledger_tui.__version__ == ledger_engine.__version__ == ledger_client.__version__
