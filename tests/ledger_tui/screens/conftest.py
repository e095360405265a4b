"""Each test of the screens opens a whole dashboard."""

from pathlib import Path

import pytest

from tests.marking import mark_folder


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    mark_folder(Path(__file__).parent, items, "dashboard")
