"""The tree carries no unfinished work and nothing of the machine it was written on."""

import re
from pathlib import Path

import pytest

UNFINISHED = ["TODO", "FIXME", "XXX", "NotImplementedError", "type: ignore", "noqa"]
# Where packages come from is for the reader's own configuration to say; paths of one machine help nobody.
ELSEWHERE = ["pypi.org", "pythonhosted.org", "npmjs.org", "/work/", "/root/", "/tmp/probe", "/Users/"]
THIS_FILE = Path("tests/house/test_marks.py")


@pytest.mark.parametrize("mark", UNFINISHED)
def test_the_sources_carry_no_mark_of_unfinished_work(mark: str, sources: list[Path]) -> None:
    word = re.compile(rf"\b{mark}\b")
    marked = [
        f"{file}:{number}"
        for file in sources
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1)
        if word.search(line)
    ]
    assert marked == []


@pytest.mark.parametrize("name", ELSEWHERE)
def test_no_file_names_a_package_index_or_a_path_of_one_machine(
    name: str, text_files: dict[Path, str]
) -> None:
    naming = [
        f"{path}:{number}"
        for path, text in text_files.items()
        if path != THIS_FILE and name in text
        for number, line in enumerate(text.splitlines(), 1)
        if name in line
    ]
    assert naming == []
