"""The whole way against a real process: another implementation as the app, and nothing secret left behind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from authlib.integrations.requests_client import OAuth2Session
from authlib.oauth2.rfc8414 import AuthorizationServerMetadata

from ledger_engine.core.settings import Location
from tests.ledger_engine.access.oauth.conftest import hidden, redirect_query
from tests.ledger_engine.access.oauth.serving import EMAIL, PASSWORD, Serving
from tests.locations import stored_bytes

pytestmark = pytest.mark.process

REDIRECT = "http://127.0.0.1:49152/callback"
VERIFIER = "a-verifier-that-is-long-enough-for-rfc-7636-and-random"
CHALLENGE = "NRv6D8YopVaTtpgAxJrUayNePqPYJhjDgCnetwGUF90"


@pytest.fixture
def serving(tmp_path: Path, location: Location) -> Iterator[Serving]:
    running = Serving(tmp_path, location)
    running.start("--auth-rate-limit", "1000/1000")
    yield running
    running.stop()


@pytest.fixture
def client_id(serving: Serving) -> str:
    uris = ("--redirect-uri", "http://127.0.0.1/callback", "--redirect-uri", "https://app.example/callback")
    return str(serving.cli("apps", "create", "Café Planner", "--native", *uris)["client_id"])


def sign_in_and_decide(url: str, decision: str = "allow") -> tuple[str, list[str]]:
    """Do what a user's browser does; return the last address it is sent to, and the secrets it saw."""
    with httpx.Client(follow_redirects=False) as browser:
        base = f"{urlsplit(url).scheme}://{urlsplit(url).netloc}"
        page = browser.get(url)
        [cookie] = browser.cookies.values()
        secrets = [hidden(page)["token"], cookie]
        answer = browser.post(
            f"{base}/oauth/sign-in", data={**hidden(page), "email": EMAIL, "password": PASSWORD}
        )
        assert answer.status_code == 303, answer.text
        page = browser.get(base + answer.headers["Location"])
        [cookie] = browser.cookies.values()
        secrets += [hidden(page)["token"], cookie]
        answer = browser.post(f"{base}/oauth/consent", data={**hidden(page), "decision": decision})
        assert answer.status_code == 303, answer.text
        return answer.headers["Location"], secrets


# Another implementation (Authlib) as the app


def test_a_client_that_knows_the_address_alone_gets_all_the_way(serving: Serving, client_id: str) -> None:
    serving.make_user()
    answer = httpx.get(f"{serving.url}/.well-known/oauth-authorization-server")
    metadata = AuthorizationServerMetadata(answer.json())
    # It asks for https everywhere, which a server on this machine alone does without.
    secure = {
        name: value.replace("http://", "https://") if isinstance(value, str) else value
        for name, value in metadata.items()
    }
    AuthorizationServerMetadata(secure).validate()
    assert metadata["issuer"] == serving.url
    assert metadata["code_challenge_methods_supported"] == ["S256"]
    assert metadata["authorization_response_iss_parameter_supported"] is True

    with OAuth2Session(
        client_id,
        token_endpoint_auth_method="none",
        redirect_uri=REDIRECT,
        scope="read:projects",
        code_challenge_method="S256",
        token_endpoint=metadata["token_endpoint"],
    ) as client:
        url, state = client.create_authorization_url(
            metadata["authorization_endpoint"], code_verifier=VERIFIER
        )
        back, _ = sign_in_and_decide(url)
        assert back.startswith(REDIRECT)
        assert redirect_query(httpx.Response(303, headers={"Location": back}))["iss"] == metadata["issuer"]
        token = client.fetch_token(
            metadata["token_endpoint"], authorization_response=back, state=state, code_verifier=VERIFIER
        )
        assert token["scope"] == "read:projects"
        whoami = client.get(f"{serving.url}/v1/whoami")
        assert (whoami.status_code, whoami.json()["id"]) == (200, client_id)
        newer = client.refresh_token(metadata["token_endpoint"])
        assert newer["refresh_token"] != token["refresh_token"]
        assert (client.get(f"{serving.url}/v1/accounts")).status_code == 200
        revoked = client.revoke_token(metadata["revocation_endpoint"], token=newer["refresh_token"])
        assert revoked.status_code == 200
        client.token = {**newer, "expires_at": None}
        assert (client.get(f"{serving.url}/v1/accounts")).status_code == 401


# Nothing secret in clear


def left_behind(folder: Path) -> dict[str, bytes]:
    """Every file there is, by its name: database, write-ahead log, backup, what the process said."""
    return {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_no_secret_is_in_clear_in_a_log_an_error_the_database_or_a_backup(
    serving: Serving, client_id: str, tmp_path: Path, location: Location
) -> None:
    key = serving.make_user()
    params = {
        "client_id": client_id,
        "redirect_uri": REDIRECT,
        "scope": "read:projects write:projects",
        "state": "a-state-of-the-app",
        "code_challenge": CHALLENGE,
    }
    url = str(httpx.URL(f"{serving.url}/oauth/authorize", params=params))
    back, secrets = sign_in_and_decide(url)
    code = redirect_query(httpx.Response(303, headers={"Location": back}))["code"]
    secrets += [PASSWORD, VERIFIER, code, key]
    errors: list[str] = []

    # With a key, so that what is sent could come to stand in the request log as well.
    with httpx.Client(base_url=serving.url, headers={"Authorization": f"Bearer {key}"}) as client:

        def send(path: str, *, form: bool, **given: Any) -> dict[str, Any]:
            answer = client.post(path, data=given) if form else client.post(path, json=given)
            if not answer.is_success:
                errors.append(answer.text)
            answered: dict[str, Any] = answer.json() if "json" in answer.headers["Content-Type"] else {}
            return answered

        def exchange(form: bool, **given: str) -> dict[str, Any]:
            token = send("/oauth/token", form=form, **given)
            secrets.extend(token[name] for name in ("access_token", "refresh_token") if name in token)
            return token

        send("/oauth/sign-in", form=True, **params, email=EMAIL, password=PASSWORD, token=secrets[0])
        for form in (True, False):
            exchange(form, code=code, code_verifier=VERIFIER + "-wrong")
        first = exchange(False, code=code, code_verifier=VERIFIER)
        second = exchange(True, grant_type="refresh_token", refresh_token=first["refresh_token"])
        for token in (first, second):
            bearer = {"Authorization": f"Bearer {token['access_token']}"}
            assert client.get("/v1/accounts", headers=bearer).status_code == 200
            assert client.post("/v1/accounts", json={}, headers=bearer).status_code == 400
        exchange(False, grant_type="refresh_token", refresh_token=first["refresh_token"])
        exchange(True, code=code, code_verifier=VERIFIER)
        send("/oauth/revoke", form=True, token=second["access_token"])
        client.get("/v1/accounts", params={"access_token": second["access_token"]})

    assert len(secrets) == 12
    assert len(errors) == 5
    found = {**left_behind(tmp_path), "errors": "".join(errors).encode(), "stored": stored_bytes(location)}
    if isinstance(location, Path):
        serving.run("backup", str(tmp_path / "copy.db"))
        found |= left_behind(tmp_path)
        assert {"ledger.db", "copy.db"} <= set(found)
    assert "said.log" in found
    clear = [
        (name, secret) for name, content in found.items() for secret in secrets if secret.encode() in content
    ]
    assert clear == []
    stored = found.get("copy.db", found["stored"])
    assert client_id.encode() in stored  # what is no secret is found like this
