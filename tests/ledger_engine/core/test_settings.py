"""What a server must not be started with."""

from __future__ import annotations

import pwd
from pathlib import Path

import pytest

from ledger_engine.core.errors import StorageUnavailable
from ledger_engine.core.settings import BadSettings, ServeSettings, default_database, make_folder

DATABASE = Path("ledger.db")


@pytest.mark.parametrize("host", ["127.0.0.1", "127.5.5.5", "::1", "localhost"])
def test_loopback_needs_no_tls(host: str) -> None:
    ServeSettings(DATABASE, host).check()


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1"])
def test_beyond_loopback_takes_tls_or_a_word(host: str) -> None:
    with pytest.raises(BadSettings, match="--insecure"):
        ServeSettings(DATABASE, host).check()
    ServeSettings(DATABASE, host, insecure=True).check()
    ServeSettings(DATABASE, host, certfile=Path("cert.pem"), keyfile=Path("key.pem")).check()


def test_test_helpers_beyond_loopback_take_a_word_with_tls_too() -> None:
    tls = {"certfile": Path("cert.pem"), "keyfile": Path("key.pem")}
    with pytest.raises(BadSettings, match="--test-helpers"):
        ServeSettings(DATABASE, "0.0.0.0", test_helpers=True, **tls).check()
    ServeSettings(DATABASE, "0.0.0.0", test_helpers=True, insecure=True).check()
    ServeSettings(DATABASE, test_helpers=True).check()


def test_a_certificate_and_its_key_go_together() -> None:
    for half in ({"certfile": Path("cert.pem")}, {"keyfile": Path("key.pem")}):
        with pytest.raises(BadSettings, match="go together"):
            ServeSettings(DATABASE, **half).check()


@pytest.mark.parametrize("host", ["no.such.host.invalid", "999.1.1.1", "é..x", "a" * 70])
def test_a_host_that_cannot_be_found_is_a_bad_setting(host: str) -> None:
    with pytest.raises(BadSettings, match="not an address"):
        ServeSettings(DATABASE, host).check()


def test_the_scheme_tells_whether_there_is_tls() -> None:
    assert ServeSettings(DATABASE).scheme == "http"
    assert ServeSettings(DATABASE, certfile=Path("c"), keyfile=Path("k")).scheme == "https"


@pytest.mark.parametrize(
    ("issuer", "insecure", "good"),
    [
        ("https://ledger.example", False, True),
        ("https://ledger.example:8443/", False, True),
        ("https://[2001:db8::1]", False, True),
        ("http://localhost:8700", False, True),
        ("http://127.0.0.1", False, True),
        ("http://ledger.example", True, True),
        ("http://ledger.example", False, False),
        ("ledger.example", False, False),
        ("ftp://ledger.example", False, False),
        ("https://", False, False),
        ("https://ledger.example/path", False, False),
        ("https://ledger.example?x", False, False),
        ("https://ledger.example#x", False, False),
        ("https://a@ledger.example", False, False),
        ("https://ledger.example:0", False, False),
        ("https://ledger.example:65536", False, False),
        ("https://ledger.example\n", False, False),
    ],
)
def test_an_issuer_is_an_address_without_a_path(issuer: str, insecure: bool, good: bool) -> None:
    settings = ServeSettings(DATABASE, issuer=issuer, insecure=insecure)
    if good:
        settings.check()
    else:
        with pytest.raises(BadSettings, match="--issuer"):
            settings.check()


def test_a_user_without_a_home_directory_needs_a_database_and_no_home(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Such is a service of systemd with `DynamicUser=`."""

    def unknown(uid: int) -> pwd.struct_passwd:
        raise KeyError(uid)

    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    monkeypatch.setattr(pwd, "getpwuid", unknown)
    make_folder(tmp_path / "ledger.db")
    with pytest.raises(StorageUnavailable, match="name the database"):
        default_database()
