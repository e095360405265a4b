"""No folder of tests is left out because of its name."""

from fnmatch import fnmatch
from pathlib import Path

import pytest


def test_pytest_reads_every_folder_that_has_tests(pytestconfig: pytest.Config) -> None:
    tests = Path(__file__).parents[1]
    folders = {
        folder for file in tests.rglob("test_*.py") for folder in file.parents if tests in folder.parents
    }
    left_out = pytestconfig.getini("norecursedirs")
    assert [str(each) for each in folders if any(fnmatch(each.name, name) for name in left_out)] == []
