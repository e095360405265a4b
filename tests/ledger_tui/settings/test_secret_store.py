"""Secrets are stored in a keyring, or without one in a file that only the user can read."""

import json
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from threading import Thread

import keyring
import pytest
from filelock import BaseFileLock
from keyring.backend import KeyringBackend
from keyring.backends.fail import Keyring as NoKeyring

from ledger_tui.settings import secret_store
from ledger_tui.settings.config import BadConfig
from ledger_tui.settings.secret_store import Secrets, SecretStore
from tests.permissions import bound_by_permissions

SECRET = "sk_live_0123456789abcdefghijklmnopqrstuv"


class Drawer(KeyringBackend):
    """A keyring that keeps what it is given."""

    priority = 1.0

    def __init__(self) -> None:
        super().__init__()
        self.saved: dict[tuple[str, str], str] = {}

    def get_password(self, service: str, username: str) -> str | None:
        return self.saved.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self.saved[service, username] = password

    def delete_password(self, service: str, username: str) -> None:
        del self.saved[service, username]


class Sieve(Drawer):
    """A keyring that accepts every secret and stores none."""

    def set_password(self, service: str, username: str, password: str) -> None:
        pass


@pytest.fixture(autouse=True)
def backend() -> Iterator[None]:
    before = keyring.get_keyring()
    keyring.set_keyring(NoKeyring())
    yield
    keyring.set_keyring(before)


@pytest.fixture
def store(tmp_path: Path) -> SecretStore:
    return SecretStore(tmp_path / "deep" / "secrets.json")


def test_a_keyring_is_used_where_there_is_one(store: SecretStore, tmp_path: Path) -> None:
    keyring.set_keyring(Drawer())
    assert store.put("shop", Secrets(api_key=SECRET)) == "the keyring"
    assert store.get("shop") == Secrets(api_key=SECRET)
    assert not (tmp_path / "deep").exists()
    store.delete("shop")
    assert store.get("shop") is None


@pytest.mark.parametrize("backend_class", [NoKeyring, Sieve])
def test_without_one_it_is_a_file_for_the_user_alone(
    store: SecretStore, tmp_path: Path, backend_class: type[KeyringBackend]
) -> None:
    keyring.set_keyring(backend_class())
    file = tmp_path / "deep" / "secrets.json"
    secrets = Secrets(access_token="at_1", refresh_token="rt_1", expires_at=1e9)
    assert store.put("shop", secrets) == str(file)
    assert file.stat().st_mode & 0o777 == 0o600
    assert store.get("shop") == secrets
    assert store.get("other") is None
    store.put("home", Secrets(api_key=SECRET))
    store.delete("shop")
    assert json.loads(file.read_text(encoding="utf-8")) == {"home": {"api_key": SECRET}}
    assert sorted(os.listdir(file.parent)) == ["secrets.json", "secrets.json.lock"]


def test_a_keyring_that_comes_later_takes_the_secret_out_of_the_file(
    store: SecretStore, tmp_path: Path
) -> None:
    store.put("shop", Secrets(api_key="old"))
    keyring.set_keyring(Drawer())
    store.put("shop", Secrets(api_key="new"))
    assert "old" not in (tmp_path / "deep" / "secrets.json").read_text(encoding="utf-8")
    assert store.get("shop") == Secrets(api_key="new")


def test_a_file_that_others_may_read_is_refused(store: SecretStore, tmp_path: Path) -> None:
    store.put("shop", Secrets(api_key=SECRET))
    (tmp_path / "deep" / "secrets.json").chmod(0o640)
    with pytest.raises(BadConfig, match="other users can read it"):
        store.get("shop")


def test_a_folder_that_cannot_be_written_is_named(store: SecretStore, tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir(mode=0o500)
    with pytest.raises(OSError) as raised:
        bound_by_permissions(lambda: store.put("shop", Secrets(api_key=SECRET)))
    assert str(raised.value) == f"{tmp_path / 'deep'} cannot be written: Permission denied"


def test_a_damaged_file_is_said_without_its_content(store: SecretStore, tmp_path: Path) -> None:
    store.put("shop", Secrets(api_key=SECRET))
    file = tmp_path / "deep" / "secrets.json"
    file.write_text(file.read_text(encoding="utf-8")[:-3], encoding="utf-8")
    with pytest.raises(BadConfig, match="is not JSON") as bad:
        store.get("shop")
    assert SECRET not in str(bad.value)


def test_a_secret_put_in_the_keyring_by_hand_is_a_key(store: SecretStore) -> None:
    drawer = Drawer()
    drawer.set_password("ledger-tui", "shop", SECRET)
    keyring.set_keyring(drawer)
    assert store.get("shop") == Secrets(api_key=SECRET)


def test_secrets_do_not_show_in_their_own_text() -> None:
    assert SECRET not in repr(Secrets(api_key=SECRET, refresh_token="rt_1"))
    assert "rt_1" not in f"{Secrets(refresh_token='rt_1')}"


def test_processes_of_one_profile_take_turns(store: SecretStore) -> None:
    second: list[AbstractContextManager[object]] = []
    waiting = Thread(target=lambda: second.append(store.acquire_lock("shop")))
    with store.acquire_lock("shop"):
        waiting.start()
        with store.acquire_lock("another"):
            pass
        assert second == []
    waiting.join(30)
    with second.pop():
        pass


def test_profiles_kept_at_once_do_not_undo_each_other(store: SecretStore) -> None:
    keyring.set_keyring(NoKeyring())

    def rotate(profile: str, found: list[Secrets | None]) -> None:
        for number in range(50):
            store.put(profile, Secrets(refresh_token=f"rt_{number}"))
            found.append(store.get(profile))

    kept: dict[str, list[Secrets | None]] = {"one": [], "other": [], "third": []}
    threads = [Thread(target=rotate, args=each) for each in kept.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for found in kept.values():
        assert found == [Secrets(refresh_token=f"rt_{number}") for number in range(50)]


def test_a_turn_taken_in_one_thread_ends_in_another(store: SecretStore) -> None:
    turns: list[AbstractContextManager[object]] = []
    for _ in range(2):
        taking = Thread(target=lambda: turns.append(store.acquire_lock("shop")))
        taking.start()
        taking.join(30)
        with turns.pop() as lock:
            assert isinstance(lock, BaseFileLock)
            assert lock.is_locked


def test_a_turn_that_nobody_ends_is_not_waited_for_for_ever(
    store: SecretStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(secret_store, "LOCK_SECONDS", 0.0)
    with store.acquire_lock("shop"), store.acquire_lock("shop"):
        pass
