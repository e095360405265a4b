"""The site that `make docs` builds from the pages: whole, with a search, and nothing from another host."""

import json
import re
from pathlib import Path

import pytest
from mkdocs.commands.build import build
from mkdocs.config import load_config

from tests.house.pages import ROOT, pages
from tools.site import HELP

LOADED = re.compile(
    r'<(?:script|img|iframe|source)\b[^>]*\bsrc="(\w+:[^"]*)"|<link\b[^>]*\bhref="(\w+:[^"]*)"'
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build it. A link or an anchor that leads nowhere, and a page in no navigation, raise an exception."""
    folder = tmp_path_factory.mktemp("site")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NO_MKDOCS_2_WARNING", "1")
        config = load_config(str(ROOT / "mkdocs.yml"), site_dir=str(folder))
        config.plugins.on_startup(command="build", dirty=False)
        build(config)
    return folder


def test_nothing_of_the_site_is_loaded_from_another_host(site: Path) -> None:
    built = [*site.rglob("*.html")]
    assert len(built) > 50
    assert [match[0] for page in built for match in LOADED.finditer(page.read_text(encoding="utf-8"))] == []
    assert "url(http" not in "".join(sheet.read_text(encoding="utf-8") for sheet in site.rglob("*.css"))


def test_the_search_finds_each_page(site: Path) -> None:
    index = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))
    found = {each["location"].partition("#")[0] for each in index["docs"]}
    docs = ROOT / "docs"
    written = [page.relative_to(docs) for page in pages() if docs in page.parents]
    built = {page.with_suffix(".html").as_posix().replace("README", "index") for page in written}
    assert built <= found


def test_a_link_to_a_file_outside_the_docs_leads_to_a_copy_of_it(site: Path) -> None:
    page = (site / "monitoring.html").read_text(encoding="utf-8")
    assert 'href="repository/deploy/alerts.yaml"' in page
    assert (site / "repository/deploy/alerts.yaml").read_bytes() == (ROOT / "deploy/alerts.yaml").read_bytes()


def test_the_site_has_the_help_of_each_command(site: Path) -> None:
    page = (site / HELP.replace(".md", ".html")).read_text(encoding="utf-8")
    assert "ledger-engine webhooks roll" in page
    assert "--read-only" in page
