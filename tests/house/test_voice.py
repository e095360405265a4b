"""Pages, comments and names are plain English (CONTRIBUTING.md, "Words"), measured against limits."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.house.pages import ROOT, pages
from tests.house.voice import (
    bound_names,
    is_bare_participle,
    odd_turns_per_thousand_words,
    sentences_of_module,
    sentences_of_page,
)

ODD_TURNS_MAX = 6.0  # in a thousand words; below it most of what the patterns find is ordinary English
WORDS_MIN = 300  # a shorter page or package may exceed the rate by one sentence
PARTICIPLES_MAX = 1.5  # per cent of the names that a package binds
WORDS_OF_DOCS_MAX = 45_000
GENERATED = {"options.md", "events.md", "errors.md", "interface.md"}
YOU_MIN = 10.0  # in a thousand words of a page that speaks to the reader
PAGES = [page for page in pages() if page.name not in GENERATED and "tests" not in page.parts]
HOW_TOS = [
    page for page in PAGES if re.search(r"(?m)^(?:How-to|Tutorial):", page.read_text(encoding="utf-8"))
]
PACKAGES = sorted({file.parent for file in (ROOT / "src").rglob("*.py")})


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_is_read_without_a_stop(page: Path) -> None:
    sentences = list(sentences_of_page(page.read_text(encoding="utf-8")))
    stops = [f"{page.name}:{sentence.line}: {sentence.text}" for sentence in sentences if sentence.odd_turns]
    short = sum(len(sentence.text.split()) for sentence in sentences) < WORDS_MIN
    assert odd_turns_per_thousand_words(sentences) <= ODD_TURNS_MAX * (2 if short else 1), "\n".join(stops)


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: str(package.relative_to(ROOT / "src")))
def test_the_comments_of_a_package_are_read_without_a_stop(package: Path) -> None:
    sentences = [
        (file.name, sentence)
        for file in package.glob("*.py")
        for sentence in sentences_of_module(file.read_text(encoding="utf-8"))
    ]
    stops = [f"{name}:{sentence.line}: {sentence.text}" for name, sentence in sentences if sentence.odd_turns]
    rate = odd_turns_per_thousand_words([sentence for _, sentence in sentences])
    assert rate <= ODD_TURNS_MAX, "\n".join(stops)


def test_names_are_nouns_or_verb_phrases() -> None:
    names = [
        (str(file.relative_to(ROOT)), name)
        for file in sorted((ROOT / "src").rglob("*.py"))
        for name in bound_names(file.read_text(encoding="utf-8"))
    ]
    participles = [f"{file}: {name}" for file, name in names if is_bare_participle(name)]
    assert 100 * len(participles) <= PARTICIPLES_MAX * len(names), "\n".join(participles)


def test_the_pages_are_no_longer_than_a_reader_needs() -> None:
    texts = [page.read_text(encoding="utf-8") for page in PAGES if page.is_relative_to(ROOT / "docs")]
    assert sum(len(re.findall(r"\S*\w\S*", text)) for text in texts) <= WORDS_OF_DOCS_MAX


@pytest.mark.parametrize("page", HOW_TOS, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_how_to_speaks_to_the_reader(page: Path) -> None:
    text = " ".join(sentence.text for sentence in sentences_of_page(page.read_text(encoding="utf-8")))
    words = text.lower().replace("'", " ").split()
    said = sum(word.strip(".,:;()*`") in ("you", "your", "yours") for word in words)
    assert 1000 * said >= YOU_MIN * len(words)


@pytest.mark.parametrize(
    ("sentence", "stops"),
    [
        ("What was refused is not there.", 1),
        ("Headers are read by what comes first in place of the rule.", 2),
        ("You read those that remain.", 1),
        ("Every acknowledged change is stored; a refused one is not.", 0),
        ("What does a posting cost?", 0),
    ],
)
def test_odd_turns_are_seen_in_prose(sentence: str, stops: int) -> None:
    assert [part.odd_turns for part in sentences_of_page(sentence)] == [stops]


def test_bare_participles_are_seen_in_names() -> None:
    names = bound_names("found = 1\nclass Kept: ...\ncreated = speed = seeds = 2\ndef f(wanted): ...\n")
    assert sorted(name for name in names if is_bare_participle(name)) == ["found", "kept", "wanted"]
