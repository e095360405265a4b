"""docs/decisions.md#credentials and #projects: API keys, projects, billing, and what a credential is."""

from __future__ import annotations

import re
from typing import Any

import httpx
import pytest

from tests.contract.clockwork import Clockwork
from tests.contract.conftest import MakeClient, MakeKey, MakeProject, Project, code_of, refusal
from tests.contract.rules import holds
from tests.contract.test_authentication import bearer, exchange

KEYS = "/v1/api_keys"
PROJECTS = "/v1/projects"
KEY = re.compile(r"sk_(test|live)_[A-Za-z0-9]{32}")


# API keys


@holds("auth-leaked-key", "credentials-token-revoked", "credentials-api-keys", "error-codes")
def test_a_revoked_key_ends_at_once_with_its_tokens(anyone: httpx.Client, api: httpx.Client) -> None:
    made = api.post(KEYS, json={}).json()
    tokens = exchange(anyone, made["key"]).json()
    for value in (made["key"], tokens["access_token"]):
        assert anyone.get("/v1/accounts", headers=bearer(value)).status_code == 200
    revoked = api.delete(f"{KEYS}/{made['id']}")
    assert revoked.status_code == 200
    at = revoked.json()["revoked_at"]
    assert at.endswith("Z")
    assert {**revoked.json(), "key": made["key"]} == {**made, "revoked_at": at}
    for refused in (
        *[
            anyone.get("/v1/accounts", headers=bearer(value))
            for value in (made["key"], tokens["access_token"])
        ],
        exchange(anyone, tokens["refresh_token"], "refresh_token"),
        exchange(anyone, made["key"]),
    ):
        assert code_of(refused) == (401, "revoked_credential")
    again = api.delete(f"{KEYS}/{made['id']}")
    assert (again.status_code, again.json()) == (200, revoked.json())


@holds("auth-leaked-key", "credentials-api-keys")
def test_a_rolled_key_is_replaced_once_by_one_of_the_same_rights(
    anyone: httpx.Client, api: httpx.Client
) -> None:
    old = api.post(KEYS, json={"name": "till", "role": "member", "scopes": ["read:users"]}).json()
    answer = api.post(f"{KEYS}/{old['id']}/roll")
    new = answer.json()
    assert (answer.status_code, new["name"], new["role"], new["scopes"]) == (
        201,
        "till",
        "member",
        ["read:users"],
    )
    assert new["key"] != old["key"]
    assert anyone.get("/api/users", headers=bearer(old["key"])).status_code == 401
    assert anyone.get("/api/users", headers=bearer(new["key"])).status_code == 200
    assert code_of(api.post(f"{KEYS}/{old['id']}/roll")) == (409, "not_recoverable")


@holds("credentials-key", "credentials-api-keys")
def test_a_keys_value_is_shown_once(api: httpx.Client) -> None:
    made = api.post(KEYS, json={"name": "Till"}).json()
    value = made.pop("key")
    assert KEY.fullmatch(value)
    created = made["created"]
    assert created.endswith("Z")
    assert made == {
        "id": made["id"],
        "object": "api_key",
        "name": "Till",
        "role": "admin",
        "scopes": None,
        "last4": value[-4:],
        "created": created,
        "livemode": False,
        "revoked_at": None,
    }
    listed = api.get(KEYS)
    assert value not in listed.text
    assert listed.json()["data"][0] == made


@holds("credentials-api-keys")
@pytest.mark.parametrize(
    ("body", "code", "param"),
    [
        ({"name": ""}, "invalid_value", "name"),
        ({"name": "x" * 256}, "invalid_value", "name"),
        ({"name": 5}, "invalid_value", "name"),
        ({"role": "root"}, "invalid_value", "role"),
        ({"scopes": []}, "invalid_value", "scopes"),
        ({"scopes": "read:users"}, "invalid_value", "scopes"),
        ({"scopes": ["read:users", "all"]}, "invalid_value", "scopes.1"),
        *[({field: "x"}, "unknown_field", field) for field in ("livemode", "mode", "project", "key")],
    ],
)
def test_another_key_is_refused(api: httpx.Client, body: dict[str, Any], code: str, param: str) -> None:
    assert refusal(api.post(KEYS, json=body)) == (400, code, param)
    assert len(api.get(KEYS).json()["data"]) == 1


@holds("credentials-api-keys", "error-codes")
def test_a_key_makes_none_with_more_rights_than_its_own(with_key: MakeKey) -> None:
    assert code_of(with_key("member").post(KEYS, json={})) == (403, "missing_role")
    admin = with_key("admin")
    assert code_of(admin.post(KEYS, json={"role": "owner"})) == (403, "missing_role")
    restricted = with_key("admin", ["write:projects", "read:users"])
    assert code_of(restricted.post(KEYS, json={})) == (403, "missing_scope")
    assert code_of(restricted.post(KEYS, json={"scopes": ["admin:billing"]})) == (403, "missing_scope")
    assert restricted.post(KEYS, json={"scopes": ["read:users"]}).status_code == 201


@holds("credentials-api-keys")
def test_a_key_revokes_itself_but_none_of_more_rights(api: httpx.Client, with_key: MakeKey) -> None:
    owners = api.get("/v1/whoami").json()["id"]
    admin = with_key("admin")
    for refused in (admin.delete(f"{KEYS}/{owners}"), admin.post(f"{KEYS}/{owners}/roll")):
        assert code_of(refused) == (403, "missing_role")
    assert admin.delete(f"{KEYS}/{admin.get('/v1/whoami').json()['id']}").status_code == 200
    assert admin.get("/v1/whoami").status_code == 401
    assert api.get("/v1/whoami").status_code == 200


@holds("credentials-api-keys", "projects-modes")
def test_a_key_makes_keys_of_its_own_mode_and_project(
    anyone: httpx.Client, live: httpx.Client, project: Project
) -> None:
    made = live.post(KEYS, json={}).json()
    assert (made["livemode"], made["key"][:8]) == (True, "sk_live_")
    whoami = anyone.get("/v1/whoami", headers=bearer(made["key"])).json()
    assert (whoami["project"], whoami["mode"]) == (project.id, "live")


# What a credential is


@holds("credentials-whoami")
def test_a_credential_can_ask_what_it_is(clockwork: Clockwork) -> None:
    project = clockwork.project("enterprise", 1_000_000, 1_000_000)
    for livemode, mode in ((False, "test"), (True, "live")):
        key = clockwork.key(project, livemode=livemode, role="member")
        whoami = clockwork.client(key).get("/v1/whoami").json()
        id = whoami.pop("id")
        assert id.startswith("key_")
        assert whoami == {
            "object": "credential",
            "kind": "api_key",
            "user": None,
            "project": project.id,
            "plan": "enterprise",
            "mode": mode,
            "role": "member",
            "scopes": None,
            "rate_limit": 1_000_000,
            "burst": 1_000_000,
            "stored_objects_max": None,
            "webhook_endpoints_max": None,
            "created": "2026-11-20T12:00:00.000Z",
            "expires_at": None,
            "livemode": livemode,
        }
    clockwork.advance(1)
    token = exchange(clockwork.client(), key).json()["access_token"]
    assert clockwork.client(token).get("/v1/whoami").json() == {
        "id": id,
        **whoami,
        "kind": "access_token",
        "created": "2026-11-20T12:00:01.000Z",
        "expires_at": "2026-11-20T13:00:01.000Z",
    }


# Projects


@holds("credentials-projects", "scope-read-projects", "scope-write-projects")
def test_a_project_is_created_with_a_key_changed_and_listed(
    anyone: httpx.Client, api: httpx.Client, live: httpx.Client, project: Project
) -> None:
    answer = api.post(PROJECTS, json={"name": "Harbour", "plan": "free", "overdraft": "refuse"})
    assert answer.status_code == 201
    made = answer.json()
    key = made.pop("api_key")
    assert made == {
        "id": made["id"],
        "object": "project",
        "name": "Harbour",
        "plan": "free",
        "rate_limit": None,
        "burst": None,
        "overdraft": "refuse",
        "parent": project.id,
        "created": made["created"],
        "archived_at": None,
        "livemode": False,
    }
    path = f"{PROJECTS}/{made['id']}"
    assert api.get(path).json() == made
    assert live.get(path).json() == {**made, "livemode": True}
    for change in ({"name": "Harbours"}, {"overdraft": "allow"}, {}):
        made |= change
        changed = api.patch(path, json=change)
        assert (changed.status_code, changed.json()) == (200, made)
    assert [each["id"] for each in api.get(PROJECTS).json()["data"]] == [made["id"], project.id]
    whoami = anyone.get("/v1/whoami", headers=bearer(key["key"])).json()
    assert (whoami["project"], whoami["id"], whoami["mode"]) == (made["id"], key["id"], "test")
    assert anyone.get(f"{PROJECTS}/{project.id}", headers=bearer(key["key"])).status_code == 404


@holds("credentials-projects", "auth-one-project")
def test_a_parent_does_not_see_the_objects_of_a_child(anyone: httpx.Client, api: httpx.Client) -> None:
    key = api.post(PROJECTS, json={"name": "Branch"}).json()["api_key"]
    body = {"name": "Till", "currency": "EUR"}
    account = anyone.post("/v1/accounts", json=body, headers=bearer(key["key"])).json()["id"]
    assert api.get(f"/v1/accounts/{account}").status_code == 404
    assert api.get("/v1/accounts").json()["data"] == []
    assert key["id"] not in api.get(KEYS).text


@holds("credentials-projects")
@pytest.mark.parametrize(
    ("body", "code", "param"),
    [
        ({}, "missing_field", "name"),
        ({"name": None}, "invalid_value", "name"),
        ({"name": ""}, "invalid_value", "name"),
        ({"name": "x" * 256}, "invalid_value", "name"),
        ({"name": "x", "plan": "gold"}, "invalid_value", "plan"),
        ({"name": "x", "overdraft": True}, "invalid_value", "overdraft"),
        *[
            ({"name": "x", field: None}, "unknown_field", field)
            for field in ("rate_limit", "parent", "archived_at")
        ],
    ],
)
def test_another_project_is_refused(api: httpx.Client, body: dict[str, Any], code: str, param: str) -> None:
    assert refusal(api.post(PROJECTS, json=body)) == (400, code, param)
    assert len(api.get(PROJECTS).json()["data"]) == 1


@holds("credentials-projects", "projects-overdraft")
def test_a_change_counts_from_the_next_request_and_another_is_refused(project: Project) -> None:
    api, path = project.api, f"{PROJECTS}/{project.id}"
    for body, code, param in [
        ({"name": None}, "invalid_value", "name"),
        ({"name": ""}, "invalid_value", "name"),
        ({"overdraft": None}, "invalid_value", "overdraft"),
        ({"plan": "enterprise"}, "unknown_field", "plan"),
    ]:
        assert refusal(api.patch(path, json=body)) == (400, code, param)
    account = api.post("/v1/accounts", json={"name": "Till", "currency": "EUR"}).json()["id"]
    debit = {"account": account, "amount": 1, "type": "debit"}
    assert api.post("/v1/transactions", json=debit).status_code == 201
    assert api.patch(path, json={"overdraft": "refuse"}).status_code == 200
    assert code_of(api.post("/v1/transactions", json=debit)) == (400, "insufficient_funds")


@holds("credentials-projects")
def test_an_archived_project_ends_with_its_credentials(anyone: httpx.Client, api: httpx.Client) -> None:
    made = api.post(PROJECTS, json={"name": "Branch"}).json()
    path, key = f"{PROJECTS}/{made['id']}", made.pop("api_key")["key"]
    credentials = [bearer(value) for value in (key, exchange(anyone, key).json()["access_token"])]
    for each in credentials:
        assert anyone.get("/v1/accounts", headers=each).status_code == 200
    archived = api.delete(path)
    assert archived.status_code == 200
    assert archived.json() == {**made, "archived_at": archived.json()["archived_at"]}
    assert archived.json()["archived_at"].endswith("Z")
    for each in credentials:
        assert code_of(anyone.get("/v1/accounts", headers=each)) == (401, "revoked_credential")
    again = api.delete(path)
    assert (again.status_code, again.json()) == (200, archived.json())
    assert api.get(PROJECTS).json()["data"][0] == archived.json()


@holds("credentials-projects", "service-test-keys")
def test_a_project_in_live_use_is_archived_with_a_live_key(live: httpx.Client, project: Project) -> None:
    path = f"{PROJECTS}/{project.id}"
    refused = project.api.delete(path)
    assert (refused.status_code, refused.json()["error"]["type"]) == (403, "permission_error")
    assert live.get("/v1/accounts").status_code == 200
    assert live.delete(path).status_code == 200
    assert project.api.get(PROJECTS).status_code == 401


@holds("credentials-projects")
def test_a_plan_above_the_own_one_takes_an_owner(make_client: MakeClient, make_project: MakeProject) -> None:
    owner = make_project(plan="pro").api
    admin = make_client(owner.post(KEYS, json={"role": "admin"}).json()["key"])
    kiosk = {"name": "Kiosk", "plan": "enterprise"}
    assert code_of(admin.post(PROJECTS, json=kiosk)) == (403, "missing_role")
    for client, plan in ((admin, "free"), (owner, "enterprise")):
        made = client.post(PROJECTS, json={**kiosk, "plan": plan})
        assert (made.status_code, made.json()["plan"]) == (201, plan)


# Billing


@holds("scope-admin-billing", "credentials-billing")
def test_billing_is_for_owners(with_key: MakeKey, project: Project) -> None:
    admin = with_key("admin")
    for refused in (admin.get("/v1/billing"), admin.patch("/v1/billing", json={"plan": "pro"})):
        assert code_of(refused) == (403, "missing_role")
    assert project.api.get("/v1/billing").status_code == 200


@holds("credentials-billing")
def test_billing_shows_the_plan_and_what_a_mode_uses_of_it(clockwork: Clockwork) -> None:
    project = clockwork.project("enterprise", 7_000, 300)
    api, live = (
        clockwork.client(clockwork.key(project, livemode=mode, role="owner")) for mode in (False, True)
    )
    assert api.post("/v1/accounts", json={"name": "Till", "currency": "EUR"}).status_code == 201
    shown = {
        "id": project.id,
        "object": "billing",
        "plan": "enterprise",
        "rate_limit": 7_000,
        "burst": 300,
        "stored_objects": 1,
        "stored_objects_max": None,
        "webhook_endpoints_max": None,
        "created": "2026-11-20T12:00:00.000Z",
        "livemode": False,
    }
    assert api.get("/v1/billing").json() == shown
    assert live.get("/v1/billing").json() == shown | {"stored_objects": 0, "livemode": True}


@holds("credentials-billing")
@pytest.mark.parametrize(
    ("plan", "figures"),
    [
        ("free", (60, 10, 10_000, 5)),
        ("pro", (600, 50, 500_000, 50)),
        ("enterprise", (1_000_000, 1_000_000, None, None)),
    ],
)
def test_another_plan_counts_from_the_next_request(
    api: httpx.Client, plan: str, figures: tuple[int | None, ...]
) -> None:
    answer = api.patch("/v1/billing", json={"plan": plan})
    shown = answer.json()
    names = ("rate_limit", "burst", "stored_objects_max", "webhook_endpoints_max")
    assert (answer.status_code, shown["plan"]) == (200, plan)
    assert tuple(shown[name] for name in names) == figures
    after = api.get("/v1/billing")
    assert (after.json(), after.headers["X-RateLimit-Limit"]) == (shown, str(figures[0]))
    assert api.patch("/v1/billing", json={}).json() == shown
    assert api.get("/v1/whoami").json()["plan"] == plan


@holds("credentials-billing")
def test_another_billing_is_refused(api: httpx.Client) -> None:
    for body, code, param in [
        ({"plan": None}, "invalid_value", "plan"),
        ({"plan": "gold"}, "invalid_value", "plan"),
        ({"rate_limit": 10**6}, "unknown_field", "rate_limit"),
        ({"stored_objects": 0}, "unknown_field", "stored_objects"),
    ]:
        assert refusal(api.patch("/v1/billing", json=body)) == (400, code, param)
    assert api.get("/v1/billing").json()["plan"] == "enterprise"


@holds("credentials-billing", "service-test-keys")
def test_a_test_key_cannot_change_the_plan_that_live_keys_rest_on(
    api: httpx.Client, live: httpx.Client
) -> None:
    assert refusal(api.patch("/v1/billing", json={"plan": "free"})) == (403, "missing_live_key", None)
    assert api.patch("/v1/billing", json={"plan": "enterprise"}).status_code == 200
    assert live.patch("/v1/billing", json={"plan": "pro"}).json()["plan"] == "pro"
