"""OAuth as an app and a user's browser see it (docs/interface.md#oauth; docs/decisions.md#oauth).

Its attacks and races are in tests/ledger_engine/oauth, its pages in a real browser in tests/browser.
"""

from __future__ import annotations

import base64
import hashlib
import secrets
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx
import pytest

from tests.contract.conftest import Cli, Project, Server
from tests.contract.rules import holds
from tests.ledger_engine.access.oauth.conftest import hidden
from tests.ledger_engine.access.oauth.serving import PASSWORD

REDIRECT = "https://app.example/callback"


def parameters_of(answer: httpx.Response) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(answer.headers["Location"]).query).items()}


@dataclass
class Flow:
    """An app, and a user at a browser."""

    browser: httpx.Client
    client_id: str

    def __post_init__(self) -> None:
        self.state = secrets.token_urlsafe(16)
        self.verifier = secrets.token_urlsafe(48)
        digest = hashlib.sha256(self.verifier.encode()).digest()
        self.params = {
            "client_id": self.client_id,
            "redirect_uri": REDIRECT,
            "scope": "read:projects",
            "state": self.state,
            "code_challenge": base64.urlsafe_b64encode(digest).decode().rstrip("="),
        }

    def authorize(self, **changed: str) -> httpx.Response:
        return self.browser.get(f"/oauth/authorize?{urlencode({**self.params, **changed})}")

    def go(self) -> dict[str, str]:
        """Sign in, allow, and come back: what is brought."""
        form = hidden(self.authorize())
        answer = self.browser.post("/oauth/sign-in", data={**form, "email": EMAIL, "password": PASSWORD})
        assert answer.status_code == 303, answer.text
        form = hidden(self.browser.get(answer.headers["Location"]))
        answer = self.browser.post("/oauth/consent", data={**form, "decision": "allow"})
        assert answer.status_code == 303, answer.text
        assert answer.headers["Location"].startswith(REDIRECT)
        return parameters_of(answer)

    def exchange(self, **given: str) -> httpx.Response:
        return self.browser.post("/oauth/token", json=given)


EMAIL = "ada@example.com"


@pytest.fixture(scope="session")
def client_id(parent: Project, cli: Cli) -> str:
    """Return an app, in whose project and mode there is a member with a password."""
    made = parent.api.post("/api/users", json={"name": "Ada", "email": EMAIL, "role": "member"})
    assert made.status_code == 201, made.text
    words = ("users", "set-password", EMAIL, "--project", parent.id, "--password-stdin")
    cli(*words, stdin=PASSWORD)
    app = cli("apps", "create", "Planner", "--project", parent.id, "--redirect-uri", REDIRECT)
    return str(app["client_id"])


@pytest.fixture
def flow(anyone: httpx.Client, client_id: str) -> Flow:
    return Flow(anyone, client_id)


@holds("service-oauth", "oauth-authorize", "oauth-token", "auth-oauth", "oauth-pages", "oauth-whoami")
def test_an_app_acts_for_a_user_who_let_it_in(flow: Flow, server: Server) -> None:
    back = flow.go()
    assert back.keys() == {"code", "state", "iss"}
    assert (back["state"], back["iss"]) == (flow.state, server.url)
    answer = flow.exchange(code=back["code"], code_verifier=flow.verifier)
    assert answer.status_code == 200
    token: dict[str, Any] = answer.json()
    assert (token["token_type"], token["expires_in"]) == ("Bearer", 3600)
    headers = {"Authorization": f"Bearer {token['access_token']}"}
    shown = flow.browser.get("/v1/whoami", headers=headers).json()
    assert (shown["kind"], shown["id"]) == ("oauth_token", flow.client_id)
    assert (shown["role"], shown["scopes"], shown["mode"]) == ("member", ["read:projects"], "test")
    assert flow.browser.get("/v1/accounts", headers=headers).status_code == 200
    refused = flow.browser.post("/v1/accounts", json={"name": "A", "currency": "EUR"}, headers=headers)
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "missing_scope")


@holds("oauth-token", "oauth-exchange")
def test_the_exchange_takes_a_form_and_rotates_refresh_tokens(flow: Flow) -> None:
    given = {"code": flow.go()["code"], "code_verifier": flow.verifier}
    first = flow.browser.post("/oauth/token", data=given).json()
    second = flow.exchange(grant_type="refresh_token", refresh_token=first["refresh_token"])
    assert second.status_code == 200
    assert second.json()["refresh_token"] != first["refresh_token"]


@holds("oauth-exchange")
def test_a_client_id_in_a_basic_header_is_checked(flow: Flow) -> None:
    given = {"code": flow.go()["code"], "code_verifier": flow.verifier}

    def basic(name: str, password: str = "") -> dict[str, str]:
        return {"Authorization": f"Basic {base64.b64encode(f'{name}:{password}'.encode()).decode()}"}

    def refused(headers: dict[str, str], **more: str) -> tuple[int, str]:
        answer = flow.browser.post("/oauth/token", data={**given, **more}, headers=headers)
        if answer.status_code == 401:
            assert answer.headers["WWW-Authenticate"].startswith("Basic")
        return answer.status_code, answer.json()["error"]

    assert refused(basic("app_none")) == (401, "invalid_client")
    assert refused(basic(flow.client_id), client_id="app_other") == (400, "invalid_request")
    taken = flow.browser.post("/oauth/token", data=given, headers=basic(flow.client_id.replace("_", "%5F")))
    assert taken.status_code == 200, "no refused request has used up the code"
    token = {"token": taken.json()["access_token"]}
    answer = flow.browser.post("/oauth/revoke", data=token, headers=basic("app_none"))
    assert (answer.status_code, answer.json()["error"]) == (401, "invalid_client")
    headers = {"Authorization": f"Bearer {token['token']}"}
    assert flow.browser.get("/v1/whoami", headers=headers).status_code == 200


@holds("oauth-once")
@pytest.mark.parametrize("again", ["code", "refresh_token"])
def test_a_second_use_is_refused_and_ends_what_came_of_the_first(flow: Flow, again: str) -> None:
    given = {"code": flow.go()["code"], "code_verifier": flow.verifier}
    first = flow.exchange(**given).json()
    refresh = {"grant_type": "refresh_token", "refresh_token": first["refresh_token"]}
    second = flow.exchange(**refresh).json()
    refused = flow.exchange(**(given if again == "code" else refresh))
    assert (refused.status_code, refused.json()["error"]) == (400, "invalid_grant")
    for token in (first, second):
        headers = {"Authorization": f"Bearer {token['access_token']}"}
        assert flow.browser.get("/v1/accounts", headers=headers).status_code == 401


@holds("oauth-refused")
@pytest.mark.parametrize(
    "changed", [{"client_id": "app_x"}, {"redirect_uri": REDIRECT + "/"}, {"redirect_uri": "//evil.example"}]
)
def test_an_unknown_app_or_address_is_an_error_page(flow: Flow, changed: dict[str, str]) -> None:
    answer = flow.authorize(**changed)
    assert (answer.status_code, "Location" in answer.headers) == (400, False)
    assert answer.headers["Content-Type"].startswith("text/html")


@holds("oauth-refused", "oauth-billing")
@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"code_challenge_method": "plain"}, "invalid_request"),
        ({"response_type": "token"}, "unsupported_response_type"),
        ({"state": ""}, "invalid_request"),
        ({"scope": "everything"}, "invalid_scope"),
    ],
)
def test_any_other_mistake_is_returned_to_the_app(flow: Flow, changed: dict[str, str], error: str) -> None:
    answer = flow.authorize(**changed)
    assert answer.status_code == 302
    assert parameters_of(answer)["error"] == error


@holds("oauth-billing")
def test_billing_is_not_a_members_to_give(flow: Flow) -> None:
    form = hidden(flow.authorize(scope="admin:billing"))
    answer = flow.browser.post("/oauth/sign-in", data={**form, "email": EMAIL, "password": PASSWORD})
    answer = flow.browser.get(answer.headers["Location"])
    assert parameters_of(answer)["error"] == "invalid_scope"


@holds("oauth-metadata")
def test_a_library_finds_all_it_needs_and_an_app_gives_back(flow: Flow, server: Server) -> None:
    metadata = flow.browser.get("/.well-known/oauth-authorization-server").json()
    assert metadata["issuer"] == server.url
    token = flow.exchange(code=flow.go()["code"], code_verifier=flow.verifier).json()
    revoked = flow.browser.post(metadata["revocation_endpoint"], data={"token": token["refresh_token"]})
    assert revoked.status_code == 200
    headers = {"Authorization": f"Bearer {token['access_token']}"}
    assert flow.browser.get("/v1/accounts", headers=headers).status_code == 401
