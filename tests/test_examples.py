"""The examples pass their own tests, in a pytest process as their readers run it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"
# Plugins of this environment that an example does not use; loading them would take as long as its tests.
UNUSED = ("schemathesis", "anyio", "asyncio", "hypothesispytest", "xdist", "syrupy", "cacheprovider")


@pytest.mark.process
@pytest.mark.parametrize("name", ["shop"])
def test_an_example_passes_its_tests(name: str) -> None:
    without = [word for plugin in UNUSED for word in ("-p", f"no:{plugin}")]
    ran = subprocess.run(
        # Name the plugin explicitly too, for an environment that was installed before the entry point
        # existed.
        [sys.executable, "-m", "pytest", "-q", "-p", "ledger_engine.testing.plugin", *without],
        cwd=EXAMPLES / name,
        capture_output=True,
        text=True,
        timeout=240,
        env={name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")},
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
