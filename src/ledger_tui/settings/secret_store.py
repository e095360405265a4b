"""Storage for the secrets of profiles: the system's keyring, or else a file that only the user can read.

A profile has one entry, a JSON object: its API key, or the tokens of a sign-in.
"""

from __future__ import annotations

import json
import os
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ledger_tui.settings.config import BadConfig, config_file, write_private

LOCK_SECONDS = 10.0
_SERVICE = "ledger-tui"
_TEXTS = ("api_key", "access_token", "refresh_token")


@dataclass(frozen=True, slots=True)
class Secrets:
    """The secrets of a profile, with which the dashboard authenticates its requests.

    `expires_at` is the Unix time at which the access token expires.
    """

    api_key: str | None = None
    access_token: str | None = None
    refresh_token: str | None = None
    expires_at: float | None = None

    def __repr__(self) -> str:
        kinds = [name for name in self.__slots__ if getattr(self, name) is not None]
        # a log or a crash report shows the names of the secrets, never their values
        return f"Secrets({', '.join(kinds)})"


class SecretStore:
    """The secrets of all profiles.

    The store uses the keyring, or the file if the keyring does not work. The methods can block, so call them
    in a thread if there is an event loop.
    """

    def __init__(self, file: Path) -> None:
        self._file = file

    def get(self, profile: str) -> Secrets | None:
        """Return the secrets of a profile; None if none are stored.

        Raises BadConfig if other users can read the file.
        """
        text = _read_keyring(profile)
        entry = _decode_entry(text) if text is not None else self._read_file().get(profile)
        if not isinstance(entry, dict):
            return None
        texts = {name: entry[name] for name in _TEXTS if isinstance(entry.get(name), str)}
        expires_at = entry.get("expires_at")
        return Secrets(**texts, expires_at=expires_at if isinstance(expires_at, int | float) else None)

    def put(self, profile: str, secrets: Secrets) -> str:
        """Store the secrets, and return the place in words: the keyring or the file's path."""
        entry = {name: value for name, value in asdict(secrets).items() if value is not None}
        if _write_keyring(profile, json.dumps(entry)):
            self._change_file(profile, None)  # delete an older copy in the file
            return "the keyring"
        self._change_file(profile, entry)
        return str(self._file)

    def delete(self, profile: str) -> None:
        """Delete the secrets from the keyring and from the file."""
        _delete_from_keyring(profile)
        self._change_file(profile, None)

    def acquire_lock(self, profile: str) -> AbstractContextManager[object]:
        """Wait up to LOCK_SECONDS for the profile's lock; the end of the context releases the lock.

        Hold the lock while you read, change and write secrets, so that no other process changes them.
        """
        return self._lock(f".{profile}.lock")

    def _lock(self, name: str) -> AbstractContextManager[object]:
        """Wait for the lock of this name; the returned context holds the lock.

        After LOCK_SECONDS, or if locks are not available, continue without the lock.
        """
        from filelock import FileLock  # imported here: it takes 80 ms to load

        try:
            self._file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            lock = FileLock(
                self._file.with_name(name),
                LOCK_SECONDS,
                mode=0o600,
                # one thread acquires the lock, and another thread can release it
                thread_local=False,
                fallback_to_soft=False,
            )
            return lock.acquire()
        # The lock's Timeout is an OSError too. If the folder cannot be created, writing the file will fail
        # later and report this.
        except OSError:
            return nullcontext()

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
                raise BadConfig(
                    f"{self._file}: other users can read it: run chmod 600 on it, and replace its keys."
                )
            try:
                entries = json.load(stream)
            except ValueError:
                raise BadConfig(f"{self._file}: is not JSON.") from None
        return entries if isinstance(entries, dict) else {}

    def _change_file(self, profile: str, entry: dict[str, Any] | None) -> None:
        if entry is None and not self._file.exists():
            return
        # A profile's lock is not enough, because all profiles share the file: two processes with different
        # profiles could undo each other's changes.
        with self._lock(f"{self._file.name}.lock"):
            self._change_entry(profile, entry)

    def _change_entry(self, profile: str, entry: dict[str, Any] | None) -> None:
        entries = self._read_file()
        if entry is None and profile not in entries:
            return
        entries.pop(profile, None)
        if entry is not None:
            entries[profile] = entry
        write_private(self._file, json.dumps(entries, indent=1))


def secret_store() -> SecretStore:
    """Return the user's store; its fallback file is next to the config file."""
    return SecretStore(config_file().with_name("secrets.json"))


# ---------------------------------------------------------------------- the keyring
# Without a keyring, every call raises an exception of some kind, and the store uses the file.


def _read_keyring(profile: str) -> str | None:
    import keyring

    try:
        return keyring.get_password(_SERVICE, profile)
    except Exception:
        return None


def _write_keyring(profile: str, text: str) -> bool:
    import keyring

    try:
        keyring.set_password(_SERVICE, profile, text)
        # read the secret back, because a null backend accepts it and stores nothing
        return keyring.get_password(_SERVICE, profile) == text
    except Exception:
        return False


def _delete_from_keyring(profile: str) -> None:
    import contextlib

    import keyring

    with contextlib.suppress(Exception):
        keyring.delete_password(_SERVICE, profile)


def _decode_entry(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return {"api_key": text}  # the user may have added the bare key with the keyring's own program
