"""Finds the programs of other projects that the tests run."""

import os
import shutil
import sys
from pathlib import Path


def path_of(program: str) -> str | None:
    """Return the path of a program of this environment or of the machine; None if there is none."""
    return shutil.which(program, path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
