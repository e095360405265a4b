"""A real terminal for programs that draw on one."""

from __future__ import annotations

import subprocess
import time
from itertools import count
from pathlib import Path

PATIENCE_SECONDS = 60.0
_NUMBERS = count()


class Terminal:
    """A real terminal of a given size, run by tmux, with a command in it."""

    def __init__(self, folder: Path, columns: int, rows: int) -> None:
        # The tmux server of an earlier terminal in this folder may still be ending, and would answer instead.
        self._tmux = ["tmux", "-S", str(folder / f"tmux-{next(_NUMBERS)}"), "-f", "/dev/null"]
        self._size = ["-x", str(columns), "-y", str(rows)]
        self._exit_code = folder / "exit-code"

    def start(self, command: list[str], **environment: str) -> None:
        self._exit_code.unlink(missing_ok=True)
        settings = [part for name, value in environment.items() for part in ("-e", f"{name}={value}")]
        # A shell notes the exit code: tmux now and then loses the end of its child.
        reporting = ["sh", "-c", '"$@"; echo $? > "$0"', str(self._exit_code)]
        self._do("new-session", "-d", *self._size, *settings, *reporting, *command)
        self._do("set-option", "remain-on-exit", "on")

    def press(self, *keys: str) -> None:
        self._do("send-keys", *keys)

    def reset(self) -> None:
        """Clear it, and set its modes as in a new terminal."""
        self._do("send-keys", "-R")

    def text(self) -> str:
        return self._do("capture-pane", "-p")

    def whole_text(self) -> str:
        """With what has scrolled away (tmux scrolls when a command ends)."""
        return self._do("capture-pane", "-p", "-S", "-")

    def sees(self, text: str) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while text not in self.text():
            assert time.monotonic() < deadline, f"{text!r} never came to stand on\n{self.text()}"
            time.sleep(0.02)

    def sees_no_more(self, text: str) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while text in self.text():
            assert time.monotonic() < deadline, f"{text!r} stays on\n{self.text()}"
            time.sleep(0.02)

    def is_taken(self, taken: bool) -> None:
        """Wait until the alternate screen and mouse reports are both on, or both off."""
        wanted = "1 1" if taken else "0 0"
        deadline = time.monotonic() + PATIENCE_SECONDS
        while (
            modes := self._do("display-message", "-p", "#{alternate_on} #{mouse_any_flag}").strip()
        ) != wanted:
            assert time.monotonic() < deadline, f"the modes are {modes}"
            time.sleep(0.02)

    def exit_code(self) -> int:
        """Wait until the command has ended."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not (self._exit_code.exists() and (status := self._exit_code.read_text()).endswith("\n")):
            assert time.monotonic() < deadline, f"it does not end\n{self.text()}"
            time.sleep(0.02)
        return int(status)

    def end(self) -> None:
        subprocess.run([*self._tmux, "kill-server"], capture_output=True, check=False)

    def _do(self, *words: str) -> str:
        done = subprocess.run([*self._tmux, *words], capture_output=True, text=True)
        assert done.returncode == 0, f"tmux {words[0]}: {done.stderr}"
        return done.stdout
