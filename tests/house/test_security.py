"""docs/security.md names tests that there are, and each row of the OWASP list has one."""

import re
from pathlib import Path

ROWS = 10


def test_each_row_of_the_owasp_list_names_tests_that_there_are(
    root: Path, text_files: dict[Path, str]
) -> None:
    page = (root / "docs" / "security.md").read_text(encoding="utf-8")
    rows = re.findall(r"(?m)^\| (\d+) .+$", page)
    assert rows == [str(number) for number in range(1, ROWS + 1)]
    for row in re.findall(r"(?m)^\| \d+ .+$", page):
        assert re.search(r"`test_\w+`", row), row
    written = {
        name
        for path, text in text_files.items()
        if path.parts[0] == "tests"
        for name in re.findall(r"(?m)^\s*(?:async )?def (test_\w+)\(", text)
    }
    assert {*re.findall(r"`(test_\w+)`", page)} - written == set()
