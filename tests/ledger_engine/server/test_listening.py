"""What is said of a certificate or an address that cannot be used."""

from __future__ import annotations

import ipaddress
from pathlib import Path

import pytest
from cryptography import x509

from ledger_engine.core.settings import BadSettings, ServeSettings
from ledger_engine.server.listening import configure
from tests.certificates import make_certificate

HOST = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
BROKEN = "-----BEGIN {0}-----\nAAAA\n-----END {0}-----\n"


def refusal(certfile: Path, keyfile: Path) -> str:
    with pytest.raises(BadSettings) as refused:
        configure(ServeSettings(None, certfile=certfile, keyfile=keyfile))
    return str(refused.value)


@pytest.mark.parametrize("text", ["", "no PEM", BROKEN.format("CERTIFICATE")])
def test_a_certificate_that_cannot_be_read_is_named(tmp_path: Path, text: str) -> None:
    certfile, keyfile = make_certificate(tmp_path, HOST)
    certfile.write_text(text)
    said = refusal(certfile, keyfile)
    assert said == f"--certfile {certfile} contains no readable certificate; it must be a PEM file."


@pytest.mark.parametrize("text", ["", "no PEM", BROKEN.format("PRIVATE KEY")])
def test_a_key_that_cannot_be_read_is_named(tmp_path: Path, text: str) -> None:
    certfile, keyfile = make_certificate(tmp_path, HOST)
    keyfile.write_text(text)
    said = refusal(certfile, keyfile)
    assert said == f"--keyfile {keyfile} contains no readable private key; it must be a PEM file."


def test_the_key_of_another_certificate_is_named(tmp_path: Path) -> None:
    certfile, _ = make_certificate(tmp_path, HOST)
    (tmp_path / "other").mkdir()
    _, keyfile = make_certificate(tmp_path / "other", HOST)
    said = refusal(certfile, keyfile)
    assert said == f"--keyfile {keyfile} does not match the certificate in {certfile}."


def test_a_key_with_a_password_is_not_asked_for_it(tmp_path: Path) -> None:
    certfile, keyfile = make_certificate(tmp_path, HOST)
    keyfile.write_text(BROKEN.format("ENCRYPTED PRIVATE KEY"))
    assert refusal(certfile, keyfile) == (
        f"--keyfile {keyfile} is encrypted: give the key without a password."
    )
