"""Files beside a ledger that only its owner may read, written in one step."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO


def write_private(file: Path, text: str) -> None:
    """Write the text to a file of mode 0600, in place of one that is there. Raises OSError."""
    with private_file(file) as written:
        written.write(text)


@contextmanager
def private_file(file: Path) -> Iterator[TextIO]:
    """Open a file of mode 0600 that takes its place, also that of another one, once all is written.

    Raises OSError.
    """
    try:
        descriptor, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")  # mode 0600
    except OSError as error:  # which names a file that nobody knows
        raise OSError(error.errno, error.strerror, str(file.parent.resolve())) from error
    try:
        with open(descriptor, "w", encoding="utf-8") as written:
            yield written
            written.flush()
            os.fsync(written.fileno())
        os.replace(name, file)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
