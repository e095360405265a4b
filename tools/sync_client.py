"""Write src/ledger_client/sync.py from aio.py: the same without `async` and `await`."""

import re
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent / "src" / "ledger_client"
WORDS = (
    (r"The asynchronous client\. `sync\.py` is made from it by `make client`\.",
     "The synchronous client, made from `aio.py` by `make client`: change that one."),
    (r"AsyncGenerator\[(.+?), None\]", r"Iterator[\1]"),
    (r"AsyncGenerator, AsyncIterator, Mapping", "Iterator, Mapping"),
    (r"import asyncio\n", ""),
    (r"from typing import Any", "from time import sleep\nfrom typing import Any"),
    (r"await asyncio\.sleep", "sleep"),
    (r"answers\.Client\(", "answers.SyncClient("),
    (r"event_stream\.events\(", "event_stream.sync_events("),
    (r"__aenter__", "__enter__"), (r"__aexit__", "__exit__"), (r"__aiter__", "__iter__"),
    (r"aclose\(\)", "close()"),
    (r"async (def|for|with)\b", r"\1"),
    (r"await ", ""),
    (r"for (\w+) in (.+):\n +yield \1\n", r"yield from \2\n"),
    (r"`async with`", "`with`"),
    (r"`async for", "`for"),
    (r"\bAsync([A-Z])", r"\1"),
)  # fmt: skip


def synchronous(text: str) -> str:
    for pattern, replacement in WORDS:
        text = re.sub(pattern, replacement, text)
    done = subprocess.run(
        [sys.executable, "-m", "ruff", "format", "--stdin-filename", "sync.py", "-"],
        input=text,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


if __name__ == "__main__":
    text = (FOLDER / "aio.py").read_text(encoding="utf-8")
    (FOLDER / "sync.py").write_text(synchronous(text), encoding="utf-8")
