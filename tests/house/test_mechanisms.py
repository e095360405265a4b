"""Every package of `src` has a row in the register of mechanisms, and the rows are true."""

from __future__ import annotations

from tests.house.mechanisms import ROOT, files_by_mechanism, mechanisms

TOLERANCE = 0.2  # a row's number of lines may be off by a fifth before somebody has to write it again


def test_each_package_is_in_a_row_of_the_register() -> None:
    listed = {file.parent for files in files_by_mechanism().values() for file in files}
    packages = {file.parent for file in (ROOT / "src").rglob("*.py")}
    tops = {ROOT / "src" / name for name in ("ledger_engine", "ledger_tui")}  # their entry points alone
    assert sorted(packages - listed - tops) == []


def test_each_row_names_files_that_exist_and_their_number_of_lines() -> None:
    wrong = []
    for name, files in files_by_mechanism().items():
        (row,) = [row for row in mechanisms() if row.name == name]
        lines = sum(file.read_text(encoding="utf-8").count("\n") for file in files)
        if not all((ROOT / "src" / place).exists() for place in row.places):
            wrong.append(f"{name}: one of {row.places} does not exist")
        elif abs(lines - row.lines) > TOLERANCE * lines:
            wrong.append(f"{name}: {lines} lines, the register says {row.lines}")
    assert wrong == []


def test_each_row_names_a_test_that_exists() -> None:
    assert [row.name for row in mechanisms() if not (ROOT / row.test).exists()] == []
