"""The pages of the documentation: their anchors, links and rules."""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_FENCED = re.compile(r"(?ms)^```.*?^```")
_BLOCK = re.compile(
    r"(?m)(?:^ *<!-- (?P<comment>(?:copies|file|needs|not run|open|press|prints|run by|type): .+) -->\n)?"
    r"(?:^(?P<margin> *)```(?P<fenced>\w*)\n(?P<body>(?s:.*?))^(?P=margin)```$"
    r"|(?<=\n\n)(?P<indented>(?: {4,}\S.*\n(?:\n(?= {4}))?)+))"
)
_HEADING = re.compile(r"(?m)^#+ (.+)$")
_ANCHOR = re.compile(r'<a id="([^"]+)"></a>')
_RULE = re.compile(r'<a id="([^"]+)"></a>\*\*(.+?)\*\*')
_LINK = re.compile(r"\]\(([^()\s]+)\)")


def pages() -> list[Path]:
    """Return every Markdown page at the root, in `docs` and in `tests`."""
    below = [page for folder in ("docs", "tests") for page in sorted((ROOT / folder).rglob("*.md"))]
    return [*sorted(ROOT.glob("*.md")), *below]


def prose(page: Path) -> str:
    """Return the text of a page without its blocks of code."""
    return _FENCED.sub("", page.read_text(encoding="utf-8"))


def links(page: Path) -> list[str]:
    """Return the targets of a page's links that lead to no other site."""
    return [target for target in _LINK.findall(prose(page)) if not re.match(r"[a-z]+:", target)]


def anchors(page: Path) -> Counter[str]:
    """Return what can follow `#` in a link to a page, and how often: its headings and its anchors."""
    text = prose(page)
    return Counter([*map(_slug, _HEADING.findall(text)), *_ANCHOR.findall(text)])


def rules() -> list[tuple[str, str]]:
    """Return the anchor and the name of every rule of the interface and of the decisions."""
    both = (ROOT / "docs" / "interface.md", ROOT / "docs" / "decisions.md")
    return [rule for page in both for rule in _RULE.findall(prose(page))]


def leads_somewhere(page: Path, target: str) -> bool:
    """Return whether a link on `page` to `target`, a path and perhaps an anchor, leads to something."""
    path, _, anchor = target.partition("#")
    file = (page.parent / path).resolve() if path else page
    return file.exists() and (not anchor or (file.suffix == ".md" and anchor in anchors(file)))


def _slug(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


@dataclass(frozen=True)
class Block:
    """A block of code of a page: fenced with a language, or indented and without one."""

    page: Path
    line: int
    language: str
    text: str
    copies: str | None = None
    file: str | None = None
    needs: str | None = None
    not_run: str | None = None
    open: str | None = None
    press: str | None = None
    prints: str | None = None
    run_by: str | None = None
    type: str | None = None

    @property
    def is_elsewhere(self) -> bool:
        """Return whether the test of the page leaves it out."""
        return bool(self.not_run or self.run_by)

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks(page: Path) -> list[Block]:
    """Return the blocks of code of a page, in order.

    The comment in the line above a block says of it what readers need not see:

    - `<!-- copies: export KEY=… -->`, the line of an earlier output that readers type before it;
    - `<!-- file: test.mjs -->`, that the text of the page has it saved under this name;
    - `<!-- needs: the Python index -->`, that it is left out where that cannot be reached;
    - `<!-- press: 2 sales | T trace -->`, the keys for the dashboard, and what is to be seen after each;
    - `<!-- prints: "id":"acc_ | "balance":0 -->`, what must be in its output, which may have errors;
    - `<!-- type: Password > a secret | again > a secret -->`, what each of its commands asks on a terminal;
    - `<!-- open: ada@example.com -->`, that it prints the address where this user signs in and allows an app;
    - `<!-- run by: tests/… -->`, the test that runs it, or `<!-- not run: why -->`.
    """
    found = []
    text = page.read_text(encoding="utf-8")
    for match in _BLOCK.finditer(text):
        fenced = match["fenced"] is not None
        said = match["comment"].split(": ", 1) if match["comment"] else []
        found.append(
            Block(
                page,
                text.count("\n", 0, match.start("body" if fenced else "indented")) + 1,
                match["fenced"] if fenced else "",
                textwrap.dedent(match["body"] if fenced else match["indented"]),
                **({said[0].replace(" ", "_"): said[1]} if said else {}),
            )
        )
    return found
