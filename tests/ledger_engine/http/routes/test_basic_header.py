"""A client_id in a Basic header (RFC 6749, 2.3.1; docs/decisions.md#oauth-exchange)."""

from __future__ import annotations

import base64

import httpx
import pytest


@pytest.mark.parametrize("value", [b":", b":secret", b"a\0:", b"\xff:", b"app%FF:", "é:".encode()])
async def test_a_basic_header_without_a_readable_client_id_is_invalid_client(
    api: httpx.AsyncClient, value: bytes
) -> None:
    for sent in (base64.b64encode(value).decode(), value.decode("latin-1") if value[0] > 127 else "?"):
        headers = [(b"Authorization", f"Basic {sent}".encode("latin-1"))]
        for path, form in (("token", {"code": "c", "code_verifier": "v" * 43}), ("revoke", {"token": "t"})):
            answer = await api.post(f"/oauth/{path}", data=form, headers=headers)
            assert (answer.status_code, answer.json()["error"]) == (401, "invalid_client")
            assert answer.headers["WWW-Authenticate"].startswith("Basic")
