"""Draw docs/pictures: screens of the dashboard on a temporary ledger with the demo's data set.

`python -m tools.pictures [FOLDER]` starts a real server, presses keys in the dashboard, and saves each screen
as SVG. The pictures show the dates of the day. The overview and the requests show the demo's live traffic.
Everything else is the same in each run.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from dataclasses import dataclass
from html import escape, unescape
from pathlib import Path

from ledger_tui.app.application import LedgerApp
from ledger_tui.server.embedded import EmbeddedServer
from ledger_tui.settings.config import Config, Options
from tools.block_shapes import rectangles, without_blocks
from tools.picture_history import paid_invoice

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "pictures"
DATA_SET = "roastery"
SIZE = (120, 34)
WIDE = (140, 34)  # wide enough to show descriptions and errors next to an object
PATIENCE_SECONDS = 20.0
# Readers may look at the pictures offline, so the pictures do not contain rich's reference to a web font.
_FONT_FACE = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)
# What rich writes for a piece of a line, and the size of a cell there; a line begins above its letters' base.
_TEXT = re.compile(r'<text class="([^"]*)" x="([\d.]+)" y="([\d.]+)" [^>]*>([^<]*)</text>')
_CELL_WIDTH, _CELL_HEIGHT, _LINE_TO_BASE = 12.2, 24.4, 18.5


@dataclass(frozen=True)
class Picture:
    """The keys that lead to a screen, and `until`, the text that the screen must show before it is drawn."""

    name: str
    keys: tuple[str, ...]
    until: str
    theme: str = "ledger"
    size: tuple[int, int] = SIZE
    mode: str = "test"
    wait_seconds: float = 0.5  # time to read names, the plot and other data after the last key


_BACK = ("colon", "a", "t", "space", "minus", "7", "d", "enter")
PICTURES = (
    Picture(
        "overview", ("tab", "tab", "down"), "of other clients", size=(120, 40), mode="demo", wait_seconds=25
    ),
    Picture(
        "past",
        ("1", *_BACK, "a", "d", "down", "down", "down"),
        "where it comes from",
        size=WIDE,
        wait_seconds=1,
    ),
    Picture("flows", ("colon", *"flows", "enter", "plus"), "outside", size=(120, 40), wait_seconds=2),
    Picture("accounts", ("1", "down", "down"), "balance"),
    Picture("transactions", ("2", "down", "down", "down"), "description", size=WIDE),
    Picture("invoice", ("3", "down", "enter"), "draft"),
    Picture("requests", ("8", "down", "down"), "POST", size=WIDE, mode="demo", wait_seconds=25),
    Picture("palette", ("1", "enter", "escape", "ctrl+p", *"accou"), "Accounts"),
    Picture("json", ("2", "J"), "balance_after"),
    Picture("form", ("2", "n"), "Post a transaction"),
    Picture("export", ("2", "ctrl+e"), "Export"),
    Picture("light", ("2", "down"), "description", theme="ledger-light", size=WIDE),
    Picture("contrast", ("1", "down"), "balance", theme="ledger-contrast"),
    Picture("small", ("2",), "credit", size=(80, 24)),
    Picture("live", ("1",), "LIVE", mode="live"),
)
# This picture comes last, because it needs a paid invoice. The other pictures must not show this invoice.
TRACE = Picture("trace", ("2", "T"), "invoice.paid", size=(132, 25), wait_seconds=2)


def main() -> int:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="ledger-pictures-") as scratch:
        os.environ["LEDGER_TUI_CONFIG"] = str(Path(scratch, "config.toml"))
        database = str(Path(scratch, "ledger.db"))
        _administer("seed", DATA_SET, "--database", database)
        server = EmbeddedServer(database)
        address = server.start()
        live = _administer("keys", "create", "--mode", "live", "--json", "--database", database)
        found = re.search(r"sk_live_\w+", live)
        assert found is not None
        keys = {"test": address.key, "live": found.group()}
        try:
            _open_live_accounts(address.url, keys["live"])
            for picture in PICTURES:
                config = Config(theme=picture.theme)
                if picture.mode == "demo":
                    options = Options(demo=True, config=config)
                else:
                    options = Options(url=address.url, key=keys[picture.mode], config=config)
                _draw(picture, options, folder)
            with paid_invoice(address.url, address.key):
                _draw(
                    TRACE, Options(url=address.url, key=address.key, config=Config(theme=TRACE.theme)), folder
                )
        finally:
            server.stop()
    return 0


def _draw(picture: Picture, options: Options, folder: Path) -> None:
    svg = asyncio.run(draw(picture, options))
    (folder / f"{picture.name}.svg").write_text(svg, encoding="utf-8")
    print(f"{picture.name}.svg", flush=True)


def _administer(*arguments: str) -> str:
    command = [sys.executable, "-m", "ledger_engine", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def _open_live_accounts(url: str, key: str) -> None:
    for name, currency in (("Operating account", "EUR"), ("Dollar account", "USD")):
        body = json.dumps({"name": name, "currency": currency}).encode()
        headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        urllib.request.urlopen(urllib.request.Request(f"{url}/v1/accounts", body, headers)).close()


async def draw(picture: Picture, options: Options) -> str:
    """Return the screen as SVG, after it shows the text `until` and the seconds to wait have passed."""
    app = LedgerApp(options)
    async with app.run_test(size=picture.size) as pilot:
        await _until(app, "online")
        for key in picture.keys:
            await pilot.press(key)
            await pilot.pause(0.3)
        await _until(app, picture.until)
        await pilot.pause(picture.wait_seconds)
        svg = app.export_screenshot(title="ledger-tui")
    return _TEXT.sub(_with_rectangles, _FONT_FACE.sub("", svg))


def _with_rectangles(found: re.Match[str]) -> str:
    name, x, y, escaped = found.groups()
    text = unescape(escaped)
    top = float(y) - _LINE_TO_BASE
    drawn = "".join(rectangles(text, float(x), top, _CELL_WIDTH, _CELL_HEIGHT))
    if not drawn:
        return found[0]
    letters = escape(without_blocks(text).replace("\xa0", " ")).replace(" ", "&#160;")
    words = found[0].replace(escaped, letters) if letters.replace("&#160;", "") else ""
    return f'<g class="{name}">{drawn}</g>{words}'


async def _until(app: LedgerApp, text: str) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while text.replace(" ", "&#160;") not in app.export_screenshot(simplify=True):
        if time.monotonic() > deadline:
            raise SystemExit(f"{text!r} never came to stand on the screen")
        await asyncio.sleep(0.05)


if __name__ == "__main__":
    os.chdir(tempfile.gettempdir())  # the picture of an export shows the folder in which the dashboard runs
    sys.exit(main())
