"""docs/interface.md#the-service, #versioning; docs/decisions.md#conventions."""

from __future__ import annotations

import re
import ssl
from pathlib import Path

import httpx

from ledger_engine.core.settings import Location
from tests.contract.conftest import Project, start_server, stop_server
from tests.contract.rules import holds

TIME = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z")
ID = re.compile(r"[a-z]{3}_[0-9a-hjkmnp-tv-z]{26}")


def create_all(api: httpx.Client) -> dict[str, httpx.Response]:
    """One object of each kind, by its prefix."""
    account = api.post("/v1/accounts", json={"name": "Till", "currency": "EUR"})
    id = account.json()["id"]
    posting = {"account": id, "amount": 100, "type": "credit"}
    user = api.post("/api/users", json={"name": "Ada", "email": "ada@example.com", "role": "member"})
    return {
        "acc": account,
        "txn": api.post("/v1/transactions", json=posting),
        "inv": api.post("/v1/invoices", json={"account": id, "customer": "Café Nord", "amount": 500}),
        "usr": user,
        "ord": api.post("/api/orders", json={"user_id": user.json()["id"], "items": [{"name": "beans"}]}),
        "key": api.post("/v1/api_keys", json={}),
        "prj": api.post("/v1/projects", json={"name": "Harbour shop"}),
    }


@holds("service-https")
def test_the_service_is_spoken_to_over_tls(location: Location, certificate: tuple[Path, Path]) -> None:
    certfile, keyfile = certificate
    server = start_server(location, "--certfile", str(certfile), "--keyfile", str(keyfile))
    try:
        assert server.url.startswith("https://")
        trusting = ssl.create_default_context(cafile=certfile)
        with httpx.Client(base_url=f"https://localhost:{server.port}", verify=trusting) as client:
            assert client.get("/api/health").json()["ok"] is True
            refused = client.get("/v1/accounts")
            assert refused.status_code == 401
            assert refused.headers["Request-Id"].startswith("req_")
    finally:
        stop_server(server)


@holds("conventions-success")
def test_a_post_that_creates_is_201_and_everything_else_200(api: httpx.Client) -> None:
    created = create_all(api)
    assert {answer.status_code for answer in created.values()} == {201}
    invoice = f"/v1/invoices/{created['inv'].json()['id']}"
    for method, path in [
        ("PATCH", invoice),
        ("POST", invoice + "/finalize"),
        ("POST", invoice + "/pay"),
        ("GET", invoice),
        ("GET", "/v1/invoices"),
        ("DELETE", f"/api/users/{created['usr'].json()['id']}"),
    ]:
        assert api.request(method, path, json={} if method == "PATCH" else None).status_code == 200, path


@holds("service-times", "conventions-times", "conventions-ids", "conventions-objects")
def test_every_object_has_its_id_kind_time_and_mode(api: httpx.Client) -> None:
    kinds = {
        "acc": "account",
        "txn": "transaction",
        "inv": "invoice",
        "usr": "user",
        "ord": "order",
        "key": "api_key",
        "prj": "project",
    }
    for prefix, answer in create_all(api).items():
        made = answer.json()
        assert ID.fullmatch(made["id"]), made
        assert made["id"].startswith(prefix + "_")
        assert made["object"] == kinds[prefix]
        assert TIME.fullmatch(made["created"])
        assert made["livemode"] is False


@holds("conventions-ids")
def test_ids_sort_by_time(api: httpx.Client) -> None:
    body = {"name": "Till", "currency": "EUR"}
    ids = [api.post("/v1/accounts", json=body).json()["id"] for _ in range(5)]
    assert ids == sorted(ids)


@holds("service-test-keys", "service-live-keys", "projects-modes")
def test_a_test_key_moves_no_live_balance(api: httpx.Client, project: Project, live: httpx.Client) -> None:
    assert project.key.startswith("sk_test_")
    assert live.headers["Authorization"].startswith("Bearer sk_live_")
    account = live.post("/v1/accounts", json={"name": "Real", "currency": "EUR"}).json()
    assert account["livemode"] is True
    posting = {"account": account["id"], "amount": 100, "type": "credit"}
    assert api.post("/v1/transactions", json=posting).status_code == 404
    assert live.get(f"/v1/accounts/{account['id']}").json()["balance"] == 0
    assert api.get("/v1/accounts").json()["data"] == []


@holds("version-directory", "get-api-health", "directory-health")
def test_the_directory_shows_its_version(anyone: httpx.Client) -> None:
    answer = anyone.get("/api/health")
    assert answer.status_code == 200
    assert answer.json()["ok"] is True
    assert answer.json()["version"] == "1.4.2"
