"""A reader of the documentation who types its blocks into one shell, statement by statement.

What a page leaves for its reader to fill in is filled in as a reader would: `acc_…` by the last id of this
kind that was shown, the names of servers and folders by those of this machine. The programs are forked
from a process that has imported everything (`forking`), as starting one takes half a second of CPU time.
"""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from tests.forking import forker_socket
from tests.house.pages import Block
from tests.terminal import Terminal

PROGRAMS = {"ledger-engine": "", "ledger-tui": "from ledger_tui.cli import main; main()"}
FORKED_PROGRAM = Path(__file__).with_name("forked_program.py")
PATIENCE_S = 120
RUN_BY = {"python": ("python", "py"), "javascript": ("node", "mjs")}
_SHOWN = re.compile(r"\b([a-z]{2,5}(?:_test)?)_[0-9A-Za-z]{24,}")
_TO_FILL_IN = re.compile(r"\b([a-z]{2,5}(?:_test)?)_…")
# These stay in the foreground: a reader goes on in another terminal once they have said that they are ready.
_STAYS = re.compile(r"^[\w./-]*ledger-engine (?:serve|listen|tail)\b[^&]*$")
_READY = re.compile(r"(?m)^Listening (?:on|to) ")
_DRAWS = re.compile(r"^[\w./-]*ledger-tui\b(?! profiles)")
_COMMENT = re.compile(r"(?:^|\s)#\s.*")
_CRON_LINE = re.compile(r"(?m)^(?:\S+ +){5}(.+)$")
_ERROR = re.compile(r'"error":(?! ?null)')
_STATUS_FORESEEN = re.compile(r"#.*\b4\d\d\b")
_END = "\x01"


class Reader:
    """A shell in `folder`, and what the reader has seen on its screen.

    `stands_for` says what texts of the pages are on this machine; `seen` has what was shown, by kind. The
    programs are forked, or if `installed` those of the environment's PATH.
    """

    def __init__(
        self,
        folder: Path,
        environment: Mapping[str, str],
        stands_for: Mapping[str, str],
        seen: dict[str, str],
        installed: bool = False,
    ) -> None:
        self._folder = folder
        self._stands_for = stands_for
        self._seen = seen
        self._screen = ""  # since the last statement
        path = environment["PATH"] if installed else self._path_with_forked_programs()
        self._shell = subprocess.Popen(
            ["bash", "--norc", "--noprofile"],
            cwd=folder,
            env={**environment, "PATH": path, "HOME": str(folder), "PYTHONUNBUFFERED": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            pass_fds=() if installed else [forker_socket().fileno()],
        )

    def _path_with_forked_programs(self) -> str:
        programs = self._folder / ".programs"
        programs.mkdir(exist_ok=True)
        asking = forker_socket().fileno()
        for name, text in PROGRAMS.items():
            forked = f"exec {sys.executable} -SEs {FORKED_PROGRAM} {asking} '{text}'"
            (programs / name).write_text(f'#!/bin/sh\n{forked} "$@"\n')
            (programs / name).chmod(0o755)
        return os.pathsep.join([str(programs), str(Path(sys.executable).parent), os.environ["PATH"]])

    def leave(self) -> None:
        """End the shell and what it started in the background."""
        os.killpg(self._shell.pid, signal.SIGTERM)
        assert self._shell.stdin is not None
        assert self._shell.stdout is not None
        self._shell.stdin.close()
        self._shell.kill()
        # The last of them to end closes the stream.
        self._shell.stdout.read()
        self._shell.stdout.close()
        self._shell.wait()

    def follow(self, block: Block) -> None:
        """Save the block as the file it is, or run it. Raises AssertionError when it does not work."""
        if block.file is not None:
            (self._folder / block.file).write_text(self._filled_in(block.text))
        elif block.language in RUN_BY:
            program, suffix = RUN_BY[block.language]
            file = f"block-{block.line}.{suffix}"
            (self._folder / file).write_text(self._filled_in(block.text))
            self._type(f"{program} {file}", f"{block}: ")
        else:
            script = block.text
            if block.language == "cron":
                script = _CRON_LINE.sub(r"(\1)", script).replace(r"\%", "%")
            for statement in statements(script):
                if _DRAWS.match(statement):
                    self._look_at(statement, block)
                else:
                    self._type(statement, f"{block}: {statement}\n")

    def _look_at(self, statement: str, block: Block) -> None:
        """Open the dashboard in a terminal, with the shell's variables; press the block's keys, and quit."""
        terminal = Terminal(self._folder, 120, 40)
        self._type("env -0 > .variables", f"{block}: ")
        named = (self._folder / ".variables").read_text().split("\0")
        variables = dict(each.split("=", 1) for each in named if "=" in each) | {"TERM": "tmux-256color"}
        # tmux lets nothing through by which a program could be forked, and has a PATH of its own.
        path = variables["PATH"].removeprefix(f"{self._folder / '.programs'}{os.pathsep}")
        command = f"PATH={path}; cd {self._folder}; {self._filled_in(_COMMENT.sub('', statement))}"
        try:
            terminal.start(["bash", "-c", command], **variables)
            terminal.sees(" TEST ")
            for pressed in block.press.split(" | ") if block.press else []:
                key, then_seen = pressed.split(" ", 1)
                terminal.press(key)
                terminal.sees(then_seen)
            terminal.press("q")
            assert terminal.exit_code() == 0
        finally:
            terminal.end()

    def _type(self, statement: str, where: str) -> None:
        assert self._shell.stdin is not None
        command = _COMMENT.sub("", statement)
        # A server may show its key only after it has said that it is ready.
        self._wait(where, lambda: self._seen.keys() >= set(_TO_FILL_IN.findall(command)))
        stays = _STAYS.match(command) is not None
        filled_in = self._filled_in(command)
        if stays:  # what stays and was started before is ended first
            filled_in = f"[ -z $staying ] || {{ kill $staying; wait $staying; }}\n{filled_in} & staying=$!"
        (self._folder / ".statement").write_text(f"{filled_in}\n")
        self._screen = ""
        typed = f". {self._folder}/.statement < /dev/null; printf '{_END}%s{_END}\\n' $?\n"
        self._shell.stdin.write(typed.encode())
        self._shell.stdin.flush()
        self._wait(where, lambda: self._screen.count(_END) == 2)
        if stays:
            self._wait(where, lambda: _READY.search(self._screen))
        assert f"{_END}0{_END}" in self._screen, f"{where}{self._screen}"
        assert _STATUS_FORESEEN.search(statement) or not _ERROR.search(self._screen), f"{where}{self._screen}"

    def _wait(self, where: str, is_so: Callable[[], object]) -> None:
        """Read what is shown until it is so."""
        assert self._shell.stdout is not None
        until = time.monotonic() + PATIENCE_S
        while not is_so():
            ready, _, _ = select.select([self._shell.stdout], [], [], max(0, until - time.monotonic()))
            part = os.read(self._shell.stdout.fileno(), 65536) if ready else b""
            assert part, f"{where}{self._screen}\nknown: {self._seen}"
            self._screen += part.decode(errors="replace")
            for match in _SHOWN.finditer(self._screen):
                self._seen[match[1]] = match[0]

    def _filled_in(self, text: str) -> str:
        for name, here in self._stands_for.items():
            text = text.replace(name, here)
        return _TO_FILL_IN.sub(lambda match: self._seen.get(match[1], match[0]), text)


def draws(block: Block) -> bool:
    """Return whether a block has a command that draws on a terminal."""
    return block.language == "sh" and any(map(_DRAWS.match, statements(block.text)))


def statements(script: str) -> Iterator[str]:
    """Yield the complete statements of a shell script."""
    lines: list[str] = []
    for line in script.splitlines():
        lines.append(line)
        statement = "\n".join(lines)
        if not line.endswith("\\") and _is_complete(statement):
            if _COMMENT.sub("", statement).strip():
                yield statement
            lines = []
    assert not lines, f"no complete statement: {lines}"


def _is_complete(statement: str) -> bool:
    return subprocess.run(["bash", "-n", "-c", statement], capture_output=True).returncode == 0
