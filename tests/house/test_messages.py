"""Each message that docs/troubleshooting.md quotes is a text of the sources or of the system."""

import ast
import errno
import os
import re
from pathlib import Path

import pytest

# A message is a code span that contains a space and is in the first column of a table. `…` in a message
# stands for any value.
_FIRST_COLUMN = re.compile(r"(?m)^\|([^|]+)\|")
_SPAN = re.compile(r"`([^`]+ [^`]+)`")
_COMMANDS = ("kill -9",)  # code spans that are commands, not messages


@pytest.fixture(scope="module")
def texts(root: Path) -> str:
    """Return every text of the sources, and the messages of the operating system."""
    sources = sorted((root / "src").rglob("*.py"))
    nodes = (node for each in sources for node in ast.walk(ast.parse(each.read_text(encoding="utf-8"))))
    constants = [node.value for node in nodes if isinstance(node, ast.Constant)]
    strings = [value for value in constants if isinstance(value, str)]
    # "is not readable" is a message of click for a file that cannot be read.
    return "\n".join([*strings, *map(os.strerror, errno.errorcode), "is not readable"])


def test_each_message_on_the_page_is_in_the_sources(root: Path, texts: str) -> None:
    page = (root / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    quoted = [span for cell in _FIRST_COLUMN.findall(page) for span in _SPAN.findall(cell)]
    messages = [each for each in quoted if each not in _COMMANDS]
    assert len(messages) >= 12
    missing = [
        (message, part)
        for message in messages
        for part in re.split(r"…|: (?=[A-Z])", message)
        if part.strip(" .:()✕") and part.strip(" .:()✕") not in texts
    ]
    assert missing == []
