"""The dashboard writes files that only their user can read."""

import os
from pathlib import Path

import pytest

from ledger_tui.settings.config import write_private


def test_a_path_that_is_no_regular_file_is_not_replaced(tmp_path: Path) -> None:
    """As `/dev/null` would be, which some name to have no config file."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(OSError) as raised:
        write_private(pipe, "theme = 'ledger'\n")
    assert str(raised.value) == f"{pipe} is not a regular file"
    assert pipe.is_fifo()
