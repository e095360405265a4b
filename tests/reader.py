"""Acts like a reader of the documentation who types its blocks into one shell, statement by statement.

It fills in the gaps of a page like a reader: `acc_…` by the last id of this kind that was shown, the names of
servers and folders by those of this machine. The programs are forked from a process that has imported all
modules (`forking`), because starting one takes half a second of CPU time.
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

import httpx

from tests.forking import forker_socket
from tests.house.pages import Block
from tests.ledger_tui.signing_in import form_of
from tests.terminal import Terminal

PROGRAMS = {"ledger-engine": "", "ledger-tui": "from ledger_tui.cli import main; main()"}
FORKED_PROGRAM = Path(__file__).with_name("forked_program.py")
PATIENCE_S = 120
RUN_BY = {"python": ("python", "py"), "javascript": ("node", "mjs")}
_SHOWN = re.compile(r"\b([a-z]{2,5}(?:_test)?)_[0-9A-Za-z]{24,}")
_TO_FILL_IN = re.compile(r"\b([a-z]{2,5}(?:_test)?)_…")
# These programs stay in the foreground: a reader continues in another terminal once they have printed that
# they are ready.
_STAYS = re.compile(r"^[\w./-]*(?:ledger-engine (?:serve|listen|tail)|ledger-tui .*--web|datasette)\b[^&]*$")
_READY = re.compile(r"(?m)^Listening (?:on|to) |\b(?:running on|Open) http")
_DRAWS = re.compile(r"^[\w./-]*ledger-tui\b(?! profiles)(?!.*--web)")
_ASSIGNMENTS = re.compile(r"^(?:\w+=\S* )+")
_COMMENT = re.compile(r"(?:^|\s)#\s.*")
_OUTPUT = re.compile(r"(?m)^# prints (.+)")  # below a statement; … stands for any text
_CRON_LINE = re.compile(r"(?m)^(?:\S+ +){5}(.+)$")
_ERROR = re.compile(r'"error":(?! ?null)')
_NO_INDEX = re.compile(
    "No matching distribution found|Could not find a version|ENOTFOUND|ECONNREFUSED|ETIMEDOUT|EAI_AGAIN|E404"
)
_SIGN_IN = re.compile(r"http://\S+/oauth/authorize\?\S+")
_END = "\x01"
_END_STAYING = "kill $staying; wait $staying || true"


class NotReached(Exception):
    """The package index that a block needs cannot be reached, or lacks the packages."""


class Reader:
    """A shell in `folder`, and the output that the reader has seen.

    `stands_for` maps texts of the pages to their values on this machine; `seen` contains the last shown id of
    each kind. The programs are forked; with `installed` they are the programs on the PATH.
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
        self._stays = False  # whether a program that stays in the foreground was started
        path = (
            environment["PATH"]
            if installed
            else f"{self._forked_programs()}{os.pathsep}{environment['PATH']}"
        )
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

    def _forked_programs(self) -> Path:
        programs = self._folder / ".programs"
        programs.mkdir(exist_ok=True)
        asking = forker_socket().fileno()
        for name, text in PROGRAMS.items():
            forked = f"exec {sys.executable} -SEs {FORKED_PROGRAM} {asking} '{text}'"
            (programs / name).write_text(f'#!/bin/sh\n{forked} "$@"\n')
            (programs / name).chmod(0o755)
        return programs

    def leave(self) -> None:
        """End the shell and the programs that it started in the background."""
        if self._stays:  # by its first process alone, which ends the others
            self._type(_END_STAYING, "at the end of the page: ")
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
        """Save the block as its file, or run it. Raises AssertionError if it does not work."""
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
            if block.copies is not None:
                self._type(block.copies, f"{block}: {block.copies}\n")
            shown = ""
            for statement in statements(script):
                if block.type:
                    self._answer(statement, block)
                elif _DRAWS.match(statement):
                    self._look_at(statement, block)
                elif block.needs:
                    self._install(statement, block)
                else:
                    self._type(statement, f"{block}: {statement}\n", may_fail=block.prints is not None)
                    shown += self._screen
            for output in block.prints.split(" | ") if block.prints else []:
                assert output in shown, f"{block}: {output!r} is not in {shown}"
            if block.open:
                self._sign_in(block.open)

    def _install(self, statement: str, block: Block) -> None:
        """Type a statement that installs packages from an index. Raises NotReached."""
        try:
            self._type(statement, f"{block}: {statement}\n")
        except AssertionError:
            if _NO_INDEX.search(self._screen):
                raise NotReached(block.needs) from None
            raise

    def _sign_in(self, email: str) -> None:
        """Open the printed address like a browser, sign in, allow the app, and read the code."""
        *_, address = _SIGN_IN.findall(self._screen)
        root = address.partition("/oauth/")[0]
        with httpx.Client(trust_env=False, follow_redirects=True) as browser:
            where, fields = form_of(browser.get(address).text, root)
            secret = (self._folder / "password").read_text().strip()
            page = browser.post(where, data={**fields, "email": email, "password": secret})
            where, fields = form_of(page.text, root)
            back = browser.post(where, data={**fields, "decision": "allow"}, follow_redirects=False)
        self._see(back.headers["Location"])

    def _answer(self, statement: str, block: Block) -> None:
        """Type a statement into a terminal, and the answers to its questions."""
        assert block.type is not None
        terminal = Terminal(self._folder, 120, 40)
        try:
            self._start_in(terminal, statement, block)
            for asked in block.type.split(" | "):
                prompt, answer = asked.split(" > ", 1)
                terminal.sees(prompt)
                terminal.press(answer, "Enter")
            assert terminal.exit_code() == 0, f"{block}: {terminal.text()}"
        finally:
            terminal.end()

    def _start_in(self, terminal: Terminal, statement: str, block: Block) -> None:
        """Start a command in a terminal, with the shell's variables."""
        self._type("env -0 > .variables; declare -p | grep '^declare -- ' > .shell", f"{block}: ")
        named = (self._folder / ".variables").read_text().split("\0")
        variables = dict(each.split("=", 1) for each in named if "=" in each) | {"TERM": "tmux-256color"}
        # tmux passes on no descriptor with which a program could be forked, and sets a PATH of its own.
        path = variables["PATH"].removeprefix(f"{self._folder / '.programs'}{os.pathsep}")
        command = (
            f"cd {self._folder}; . ./.shell; PATH={path}; {self._filled_in(_COMMENT.sub('', statement))}"
        )
        # It also adds variables of this process that tests of the dashboard have set.
        alone = ["env", "-i", *(f"{name}={value}" for name, value in variables.items())]
        terminal.start([*alone, "bash", "-c", command])

    def _look_at(self, statement: str, block: Block) -> None:
        """Open the dashboard in a terminal; press the block's keys, and quit."""
        terminal = Terminal(self._folder, 120, 40)
        try:
            self._start_in(terminal, statement, block)
            terminal.sees(" TEST ")
            for pressed in block.press.split(" | ") if block.press else []:
                key, then_seen = pressed.split(" ", 1)
                terminal.press(key)
                terminal.sees(then_seen)
            terminal.press("q")
            assert terminal.exit_code() == 0
        finally:
            terminal.end()

    def _type(self, statement: str, where: str, may_fail: bool = False) -> None:
        """Type a statement. An answer of the server must not be an error, unless the page expects errors."""
        assert self._shell.stdin is not None
        command = _COMMENT.sub("", statement)
        # A server may show its key only after it has said that it is ready.
        self._wait(where, lambda: self._seen.keys() >= set(_TO_FILL_IN.findall(command)))
        stays = _STAYS.match(command) is not None
        filled_in = self._filled_in(command)
        if stays:  # what stays and was started before is ended first
            filled_in = f"{_END_STAYING if self._stays else ''}\n{filled_in} & staying=$!"
            self._stays = True
        (self._folder / ".statement").write_text(f"{filled_in}\n")
        self._screen = ""
        typed = f". {self._folder}/.statement < /dev/null; printf '{_END}%s{_END}\\n' $?\n"
        self._shell.stdin.write(typed.encode())
        self._shell.stdin.flush()
        self._wait(where, lambda: self._screen.count(_END) == 2)
        if stays:
            self._wait(where, lambda: _READY.search(self._screen))
        assert f"{_END}0{_END}" in self._screen, f"{where}{self._screen}"
        assert may_fail or not _ERROR.search(self._screen), f"{where}{self._screen}"
        for output in _OUTPUT.findall(statement):
            expected = re.escape(self._filled_in(output)).replace("…", ".*")
            assert re.search(f"(?m)^{expected}", self._screen), f"{where}{self._screen}"

    def _wait(self, where: str, is_so: Callable[[], object]) -> None:
        """Read the output until the condition is true."""
        assert self._shell.stdout is not None
        until = time.monotonic() + PATIENCE_S
        while not is_so():
            ready, _, _ = select.select([self._shell.stdout], [], [], max(0, until - time.monotonic()))
            part = os.read(self._shell.stdout.fileno(), 65536) if ready else b""
            assert part, f"{where}{self._screen}\nknown: {self._seen}"
            self._screen += part.decode(errors="replace")
            self._see(self._screen)

    def _see(self, text: str) -> None:
        """Remember the last id of each kind in a text."""
        for match in _SHOWN.finditer(text):
            self._seen[match[1]] = match[0]

    def _filled_in(self, text: str) -> str:
        for name, here in self._stands_for.items():
            text = text.replace(name, here)
        return _TO_FILL_IN.sub(lambda match: self._seen.get(match[1], match[0]), text)


def programs_of(block: Block) -> set[str]:
    """Return the programs that a block's commands begin with, and tmux if one of them draws on a terminal."""
    if block.language != "sh":
        return {"node"} if block.language == "javascript" else set()
    commands = [_ASSIGNMENTS.sub("", each) for each in statements(block.text)]
    terminal = {"tmux"} if block.type or any(map(_DRAWS.match, commands)) else set()
    return terminal | {each.split()[0] for each in commands}


def serves(block: Block) -> bool:
    """Return whether a block starts a server of the ledger."""
    return block.language == "sh" and "ledger-engine serve" in block.text


def statements(script: str) -> Iterator[str]:
    """Yield the complete statements of a shell script, each with the lines about its output below it."""
    lines: list[str] = []
    for line in re.split(r"\n(?!# prints )", script.rstrip("\n")):
        lines.append(line)
        statement = "\n".join(lines)
        if not line.endswith("\\") and _is_complete(statement):
            if _COMMENT.sub("", statement).strip():
                yield statement
            lines = []
    assert not lines, f"no complete statement: {lines}"


def _is_complete(statement: str) -> bool:
    return subprocess.run(["bash", "-n", "-c", statement], capture_output=True).returncode == 0
