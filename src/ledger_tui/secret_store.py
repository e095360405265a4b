"""Where the secrets of profiles are kept: the system's keyring or, without one, a file for the user alone.

A profile has one entry, a JSON object: its API key, or the tokens of a sign-in.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from io import StringIO
from pathlib import Path
from typing import IO, Any

from ledger_tui.config import BadConfig, config_file

TURN_SECONDS = 10.0
_SERVICE = "ledger-tui"
_TEXTS = ("api_key", "access_token", "refresh_token")


@dataclass(frozen=True, slots=True)
class Secrets:
    """What a profile signs its requests with. `expires_at` is when the access token ends, in Unix time."""

    api_key: str | None = None
    access_token: str | None = None
    refresh_token: str | None = None
    expires_at: float | None = None

    def __repr__(self) -> str:
        kinds = [name for name in self.__slots__ if getattr(self, name) is not None]
        return f"Secrets({', '.join(kinds)})"  # a log or a crash report shows which, never what


class SecretStore:
    """`file` is the fallback; the keyring is asked first. Its calls may block: use a thread beside a loop."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def get(self, profile: str) -> Secrets | None:
        """The secrets of a profile, None if none are kept. Raises BadConfig for a file others may read."""
        text = _from_keyring(profile)
        entry = _decoded(text) if text is not None else self._read_file().get(profile)
        if not isinstance(entry, dict):
            return None
        texts = {name: entry[name] for name in _TEXTS if isinstance(entry.get(name), str)}
        expires_at = entry.get("expires_at")
        return Secrets(**texts, expires_at=expires_at if isinstance(expires_at, int | float) else None)

    def put(self, profile: str, secrets: Secrets) -> str:
        """Keep them; where, in words."""
        entry = {name: value for name, value in asdict(secrets).items() if value is not None}
        if _to_keyring(profile, json.dumps(entry)):
            self._change_file(profile, None)  # an older copy must not stay behind
            return "the keyring"
        self._change_file(profile, entry)
        return str(self._file)

    def delete(self, profile: str) -> None:
        """Forget them, wherever they are."""
        _out_of_keyring(profile)
        self._change_file(profile, None)

    def take_turn(self, profile: str) -> IO[str]:
        """Wait until no other process has its turn with this profile, but not for long; close what this
        gives to end it. For what has to be read, changed and put back as one."""
        return self._lock(f".{profile}.lock")

    def _lock(self, name: str) -> IO[str]:
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            turn: IO[str] = self._file.with_name(name).open("a", encoding="utf-8")
        except OSError:
            return StringIO()  # then nothing can be kept either, and that is told
        deadline = time.monotonic() + TURN_SECONDS
        while not _locked(turn) and time.monotonic() < deadline:
            time.sleep(0.05)
        return turn

    # ------------------------------------------------------------------ the file

    def _read_file(self) -> dict[str, Any]:
        try:
            descriptor = os.open(self._file, os.O_RDONLY)
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise BadConfig(f"{self._file}: cannot be read: {error.strerror}.") from None
        with os.fdopen(descriptor, encoding="utf-8") as stream:
            if os.name == "posix" and os.fstat(descriptor).st_mode & 0o077:
                raise BadConfig(f"{self._file}: others may read it: chmod 600 it, and change its keys.")
            try:
                entries = json.load(stream)
            except ValueError:
                raise BadConfig(f"{self._file}: is no JSON.") from None
        return entries if isinstance(entries, dict) else {}

    def _change_file(self, profile: str, entry: dict[str, Any] | None) -> None:
        if entry is None and not self._file.exists():
            return
        # A turn is a profile's, and the file is all profiles': two of them would undo each other's changes.
        with self._lock(f"{self._file.name}.lock"):
            self._change_entry(profile, entry)

    def _change_entry(self, profile: str, entry: dict[str, Any] | None) -> None:
        entries = self._read_file()
        if entry is None and profile not in entries:
            return
        entries.pop(profile, None)
        if entry is not None:
            entries[profile] = entry
        self._file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor, temporary = tempfile.mkstemp(dir=self._file.parent, prefix=".secrets-")  # made 0600
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
                json.dump(entries, stream, indent=1)
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(temporary, self._file)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise


if sys.platform == "win32":  # pragma: no cover

    def _locked(turn: IO[str]) -> bool:
        return True

else:
    import fcntl

    def _locked(turn: IO[str]) -> bool:
        try:
            fcntl.flock(turn, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:  # a file system without locks
            return True
        return True


def secret_store() -> SecretStore:
    """The user's: the file of last resort lies beside the config file."""
    return SecretStore(config_file().with_name("secrets.json"))


# ---------------------------------------------------------------------- the keyring
# On a box without one, every call raises, each backend in its own way: then there is none.


def _from_keyring(profile: str) -> str | None:
    import keyring

    try:
        return keyring.get_password(_SERVICE, profile)
    except Exception:
        return None


def _to_keyring(profile: str, text: str) -> bool:
    import keyring

    try:
        keyring.set_password(_SERVICE, profile, text)
        return keyring.get_password(_SERVICE, profile) == text  # a null backend takes it and keeps nothing
    except Exception:
        return False


def _out_of_keyring(profile: str) -> None:
    import contextlib

    import keyring

    with contextlib.suppress(Exception):
        keyring.delete_password(_SERVICE, profile)


def _decoded(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return {"api_key": text}  # put there by hand, with the keyring's own program
