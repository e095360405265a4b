"""docs/README.md lists each page once, and a page says itself of which kind it is."""

import re
from pathlib import Path

import pytest

KINDS = {
    "Tutorials": "Tutorial",
    "How-to guides": "How-to",
    "Reference": "Reference",
    "Background": "Background",
}


@pytest.fixture(scope="module")
def listed(root: Path) -> list[tuple[str, str]]:
    """Return the kind and the name of each page in the list."""
    page = (root / "docs" / "README.md").read_text(encoding="utf-8")
    kinds = [part.split("\n", 1) for part in re.split(r"(?m)^## ", page)[1:]]
    return [(kind, name) for kind, lines in kinds for name in re.findall(r"(?m)^- \[.+?\]\((\S+?)\)", lines)]


def test_each_page_is_listed_once(root: Path, listed: list[tuple[str, str]]) -> None:
    docs = root / "docs"
    pages = {*docs.glob("*.md"), *docs.glob("*/README.md")} - {docs / "README.md"}
    assert sorted(docs / name for _, name in listed) == sorted(pages)


def test_each_page_says_its_kind(root: Path, listed: list[tuple[str, str]]) -> None:
    silent = [
        name
        for kind, name in listed
        if f"\n{KINDS[kind]}: " not in (root / "docs" / name).read_text(encoding="utf-8")[:400]
    ]
    assert silent == []
