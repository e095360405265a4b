"""The processes that a program starts: their environment, and whether they run the same version of it.

The files of a program may be replaced while it runs.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import ledger_engine

# The exit status of a process that was started from files of another version (EX_PROTOCOL).
OTHER_PROGRAM = 76


def without_settings(*keep: str) -> dict[str, str]:
    """Return our environment without the variables `LEDGER_…`, which have secrets, except those to `keep`."""
    return {
        name: value for name, value in os.environ.items() if name in keep or not name.startswith("LEDGER_")
    }


def fingerprint() -> str:
    """Return a digest of the package's files as they are now. It takes some milliseconds."""
    package = Path(ledger_engine.__file__).parent
    digest = hashlib.blake2b(digest_size=16)
    for file in sorted(package.rglob("*.py")):
        digest.update(f"{file.relative_to(package)}\0{file.stat().st_size}\0".encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()
