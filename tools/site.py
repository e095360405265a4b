"""Hooks of MkDocs for `make docs`: the navigation, the commands' help, and linked files outside docs/."""

import re
import subprocess
import sys
from pathlib import Path
from posixpath import dirname, normpath, relpath
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent
OUTSIDE = "repository/"  # the site's folder for files that the repository has outside docs/
HELP = "options.md"  # the page with every command's help, which is in the site but not in docs/
_LISTED = re.compile(r"(?m)^- \[(.+?)\]\((\S+?\.md)\)")
_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\((?![a-z]+:|#)([^)#\s]+)(#[^)\s]*)?\)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Make the navigation from the list in docs/README.md: a tab for each kind of page."""
    listed = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    kinds = [part.split("\n", 1) for part in re.split(r"(?m)^## ", listed)[1:]]
    design = [f"design/{file.name}" for file in sorted((ROOT / "docs" / "design").glob("[a-z]*.md"))]
    tabs = {kind: _for_each_reader(pages) for kind, pages in kinds}
    tabs["Reference"].append({"Every command's help": HELP})
    config.nav = ["README.md", *({kind: pages} for kind, pages in tabs.items())]
    tabs["Background"].append({"The design pages": design})
    return config


def _for_each_reader(pages: str) -> list[Any]:
    """Return the pages of one kind, in groups: a line such as `For a server:` begins a group of this name."""
    first, *others = re.split(r"(?m)^(For .+):$", pages)
    groups = [{reader: _listed(below)} for reader, below in zip(others[::2], others[1::2], strict=True)]
    return [*_listed(first), *groups]


def _listed(lines: str) -> list[Any]:
    return [{title: path} for title, path in _LISTED.findall(lines)]


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the commands' help, and each file outside docs/ that a page or an added file links to."""
    program = (sys.executable, "-m", "tools.command_page")
    help_page = subprocess.run(program, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    files.append(File.generated(config, HELP, content=help_page))
    to_read = list(files.documentation_pages())
    while to_read:
        page = to_read.pop()
        for _, target, _ in _LINK.findall(page.content_string):
            path = _in_site(page, target)
            if path is not None and path.startswith(OUTSIDE) and path not in files.src_uris:
                added = File.generated(config, path, abs_src_path=str(ROOT / path.removeprefix(OUTSIDE)))
                files.append(added)
                to_read += [added] if added.is_documentation_page() else []
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Make links to files outside docs/ lead to their copies in the site.

    A link to a folder that has no README.md becomes plain text.
    """

    def rewritten(match: re.Match[str]) -> str:
        text, target, anchor = match.groups()
        path = _in_site(page.file, target)
        if path is None:
            return text
        return f"[{text}]({relpath(path, dirname(page.file.src_uri))}{anchor or ''})"

    return _LINK.sub(rewritten, markdown)


def _in_site(page: File, target: str) -> str | None:
    """Return the path in the site of a link's target; None if the target is a folder without a README.md."""
    in_repository = page.src_uri.removeprefix(OUTSIDE)
    if in_repository == page.src_uri:
        in_repository = f"docs/{page.src_uri}"
    path = normpath(f"{dirname(in_repository)}/{target}".lstrip("/"))
    if (ROOT / path).is_dir():
        path += "/README.md"
        if not (ROOT / path).is_file():
            return None
    return path.removeprefix("docs/") if path.startswith("docs/") else OUTSIDE + path
