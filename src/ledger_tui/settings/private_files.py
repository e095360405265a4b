"""Files that only the user may read, written in one step."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def write_private(file: Path, text: str) -> None:
    """Write the text to a file of mode 0600, in place of one that is there; its folder is made if necessary.

    Raises OSError, which names the folder, or a target that is no file, such as `/dev/null`.
    """
    target = file.resolve()
    if os.path.exists(target) and not os.path.isfile(target):
        raise OSError(f"{target} is not a regular file")
    try:
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}-")  # mode 0600
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8", newline="") as stream:
                stream.write(text)
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(temporary, target)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
    except OSError as error:  # which names a file that nobody knows, or none
        raise OSError(f"{target.parent} cannot be written: {error.strerror}") from error
