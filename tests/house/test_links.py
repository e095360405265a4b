"""Links between the pages of the documentation, and citations of them in the code, lead to what is there."""

import re
from collections import Counter
from pathlib import Path

import pytest

from ledger_engine.asgi import app
from tests.house.pages import anchors, blocks, leads_somewhere, links, pages, prose
from tools.site import HELP

# A page that the code names, with the anchors behind it: `docs/oauth.md#errors and #the-pages`.
CITATION = re.compile(r"(?<![\w./-])((?:[\w-]+/)*[\w-]+\.md)((?:(?:,| and)?\s*#[a-z][\w-]*)*)")
# A section that is named without an anchor cannot be checked: `interface.md, Errors`, `decisions.md 4`.
UNCHECKED = re.compile(r"(?:interface|decisions)\.md(?:,\s+[A-Z]|,? \d)")
REQUEST = re.compile(r"\b(GET|POST|PATCH|DELETE) (/(?:v1|api|oauth)/[\w/{}.-]*)(?![\w…])")
THIS_FILE = Path("tests/house/test_links.py")


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_each_link_of_a_page_leads_somewhere(page: Path) -> None:
    assert [target for target in links(page) if not leads_somewhere(page, target)] == []


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_each_anchor_of_a_page_is_there_once(page: Path) -> None:
    if page.name != "CHANGELOG.md":  # each version has its own "Added" and "Fixed"
        assert [anchor for anchor, times in anchors(page).items() if times > 1] == []


def test_each_page_and_anchor_that_the_code_cites_is_there(root: Path, text_files: dict[Path, str]) -> None:
    known = {page.relative_to(root).as_posix(): anchors(page) for page in pages()}
    known |= {page.name: found for page, found in zip(pages(), known.values(), strict=True)}
    known[HELP] = Counter()  # the site alone has it
    missing = [
        f"{path}: {page}{anchor}"
        for path, text in text_files.items()
        if path.suffix == ".py" and path != THIS_FILE
        for page, behind in CITATION.findall(text)
        for anchor in re.findall(r"#[\w-]+", behind) or [""]
        if page not in known or (anchor and anchor[1:] not in known[page])
    ]
    assert missing == []


def test_a_section_of_the_contract_is_cited_by_its_anchor(text_files: dict[Path, str]) -> None:
    unchecked = [
        f"{path}: {found}"
        for path, text in text_files.items()
        if path.suffix in {".py", ".md"} and path != THIS_FILE
        for found in UNCHECKED.findall(text)
    ]
    assert unchecked == []


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_each_module_that_a_page_names_is_there(page: Path, text_files: dict[Path, str]) -> None:
    saved = {block.file for block in blocks(page)}  # which the reader of the page makes
    named = {*re.findall(r"`((?:\w+/)*[\w-]+\.py)`", prose(page))} - saved
    known = [f"/{path.as_posix()}" for path in text_files]
    if page.name != "CHANGELOG.md":  # which tells of what there was
        assert [name for name in named if not any(path.endswith(f"/{name}") for path in known)] == []


def test_each_request_that_a_page_names_is_an_operation() -> None:
    """Those of the test helpers are in no server without them."""
    rules = [
        (rule.methods or set(), re.compile(re.sub(r"<[^>]+>", "[^/]+", rule.rule) + "/?"))
        for rule in app.url_map.iter_rules()
    ]
    unknown = [
        f"{page.name}: {method} {path}"
        for page in pages()
        for method, path in REQUEST.findall(page.read_text(encoding="utf-8"))
        if not path.startswith("/v1/test_helpers")
        if not any(method in methods and rule.fullmatch(path.rstrip(".")) for methods, rule in rules)
    ]
    assert unknown == []
