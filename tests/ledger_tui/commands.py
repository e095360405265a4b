"""Runs calls of `ledger-tui` that open no dashboard in this process; a new process takes 0.1 s of CPU
time.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping

import pytest
from click.testing import CliRunner

from ledger_tui.cli import main


def call(
    *arguments: str, environment: Mapping[str, str | None], stdin: str = ""
) -> subprocess.CompletedProcess[str]:
    """Call the program with these variables set (None: not set), and return the result of a finished
    process.
    """
    status = 0
    with (
        pytest.MonkeyPatch.context() as patch,
        CliRunner().isolation(stdin, dict(environment)) as (stdout, stderr, _both),
    ):
        patch.setattr(sys, "argv", ["ledger-tui", *arguments])
        try:
            main()
        except SystemExit as ended:
            status = int(ended.code or 0)
    shown = [stream.getvalue().decode() for stream in (stdout, stderr)]
    return subprocess.CompletedProcess(arguments, status, *shown)
