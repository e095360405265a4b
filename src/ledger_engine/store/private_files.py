"""Files beside a ledger that only its owner may read, written in one step."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def write_private(file: Path, text: str) -> None:
    """Write the text to a file of mode 0600, in place of one that is there. Raises OSError."""
    try:
        descriptor, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")  # mode 0600
    except OSError as error:  # which names a file that nobody knows
        raise OSError(error.errno, error.strerror, str(file.parent.resolve())) from error
    try:
        with open(descriptor, "w", encoding="utf-8") as written:
            written.write(text)
            written.flush()
            os.fsync(written.fileno())
        os.replace(name, file)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
