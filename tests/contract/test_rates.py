"""docs/interface.md#rate-limits, #quotas-and-retention; docs/decisions.md#projects and #rate-limits."""

from __future__ import annotations

from collections.abc import Callable

import httpx
import pytest

from ledger_engine.core.settings import Location
from tests.contract.clockwork import NOON_S, Clockwork
from tests.contract.conftest import Cli, Project, code_of, start_server, stop_server
from tests.contract.raw import Answer, Wire, chunked
from tests.contract.rules import holds

TILL = b'{"name": "Till", "currency": "EUR"}'


def limits_of(answer: httpx.Response) -> tuple[int, int, int]:
    """Limit, remaining and reset."""
    names = ("X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset")
    limit, remaining, reset = (int(answer.headers[name]) for name in names)
    return limit, remaining, reset


def ask(client: httpx.Client, times: int) -> list[int]:
    return [client.get("/v1/accounts").status_code for _ in range(times)]


@holds("rates-free", "rates-pro", "rates-per-key", "rate-limits-windows")
@pytest.mark.parametrize(("plan", "per_minute", "burst"), [("free", 60, 10), ("pro", 600, 50)])
def test_each_plan_has_its_requests_a_minute_and_in_a_second(
    clockwork: Clockwork, plan: str, per_minute: int, burst: int
) -> None:
    api = clockwork.client(clockwork.key(clockwork.project(plan)))
    for second in range(per_minute // burst):
        assert ask(api, burst) == [200] * burst
        assert ask(api, 1) == [429]
        clockwork.now_s = NOON_S + second + 1
    assert limits_of(api.get("/v1/accounts")) == (per_minute, 0, NOON_S + 60)
    clockwork.now_s = NOON_S + 59.999
    assert ask(api, 1) == [429]
    clockwork.now_s = NOON_S + 60
    assert limits_of(api.get("/v1/accounts")) == (per_minute, per_minute - 1, NOON_S + 120)


@holds("rates-enterprise")
def test_the_enterprise_plan_has_6000_requests_a_minute_and_200_in_a_second(clockwork: Clockwork) -> None:
    api = clockwork.client(clockwork.key(clockwork.project("enterprise")))
    assert limits_of(api.get("/v1/accounts")) == (6000, 5999, NOON_S + 60)
    assert ask(api, 199) == [200] * 199
    assert ask(api, 1) == [429]
    clockwork.now_s = NOON_S + 1
    assert limits_of(api.get("/v1/accounts")) == (6000, 5799, NOON_S + 60)


@holds("rates-enterprise", "quotas-enterprise", "projects-enterprise")
def test_an_enterprise_project_has_limits_of_its_own(cli: Cli, anyone: httpx.Client) -> None:
    made = cli("projects", "create", "Big", "--plan", "enterprise", "--rate-limit", "7000", "--burst", "3")
    key = cli("keys", "create", "--project", made["id"], "--mode", "test", "--role", "owner")["key"]
    answer = anyone.get("/v1/whoami", headers={"Authorization": f"Bearer {key}"})
    assert limits_of(answer)[0] == 7000
    assert (answer.json()["burst"], answer.json()["stored_objects_max"]) == (3, None)


@holds(
    "rates-over", "rates-retry-after", "rates-reset", "errors-429", "errors-rate-limit-body", "error-codes"
)
def test_over_the_minute_it_is_429_until_the_window_resets(clockwork: Clockwork) -> None:
    key = clockwork.key(clockwork.project("free"))
    api = clockwork.client(key)
    for second in range(6):
        clockwork.now_s = NOON_S + second
        assert ask(api, 10) == [200] * 10
    clockwork.now_s = NOON_S + 20
    for path in ("/v1/accounts", "/api/users", "/v1/nothing", "/openapi.json"):
        refused = api.get(path)
        assert refused.status_code == 429
        assert refused.headers["Retry-After"] == "40"
        assert limits_of(refused) == (60, 0, NOON_S + 60)
        assert refused.json()["error"] == "rate_limited"
        assert "40 seconds" in refused.json()["message"]
    clockwork.now_s = NOON_S + 60
    answer = api.get("/v1/accounts")
    assert (answer.status_code, "Retry-After" in answer.headers) == (200, False)


@holds("rate-limits-burst", "errors-rate-limit-body")
def test_a_burst_is_refused_for_a_second_and_uses_up_no_minute(clockwork: Clockwork) -> None:
    api = clockwork.client(clockwork.key(clockwork.project("free")))
    assert ask(api, 10) == [200] * 10
    for _ in range(5):
        refused = api.get("/v1/accounts")
        assert (refused.status_code, refused.headers["Retry-After"]) == (429, "1")
        assert limits_of(refused)[1] == 0
        assert "1 second" in refused.json()["message"]
    clockwork.now_s += 1
    assert limits_of(api.get("/v1/accounts"))[1] == 60 - 11


@holds("rates-per-key")
def test_each_key_of_a_project_has_its_own_count(clockwork: Clockwork) -> None:
    project = clockwork.project("free")
    first, second = (clockwork.client(clockwork.key(project)) for _ in range(2))
    assert ask(first, 11) == [200] * 10 + [429]
    assert ask(second, 1) == [200]


@holds("rate-limits-tokens")
def test_a_token_counts_on_its_key(clockwork: Clockwork) -> None:
    key = clockwork.key(clockwork.project("free"))
    body = {"grant_type": "api_key", "api_key": key}
    token = clockwork.client().post("/v1/auth/token", json=body).json()["access_token"]
    assert ask(clockwork.client(token), 10) == [200] * 10
    assert ask(clockwork.client(key), 1) == [429]


@holds("rate-limits-tokens", "rates-per-key")
def test_without_a_credential_the_address_counts_at_free_limits(clockwork: Clockwork) -> None:
    assert ask(clockwork.client(), 11) == [401] * 10 + [429]
    assert ask(clockwork.client("sk_test_" + "0" * 32), 1) == [429]
    assert ask(clockwork.client(clockwork.key(clockwork.project())), 1) == [200]


@holds("rates-auth", "rate-limits-auth")
def test_the_token_endpoint_has_a_stricter_limit_per_address(clockwork: Clockwork) -> None:
    key = clockwork.key(clockwork.project())
    body = {"grant_type": "api_key", "api_key": key}

    def exchange(**headers: str) -> httpx.Response:
        return clockwork.client().post("/v1/auth/token", json=body, headers=headers)

    for second in range(4):
        clockwork.now_s = NOON_S + second
        assert [exchange().status_code for _ in range(6)] == [200] * 5 + [429]
    clockwork.now_s = NOON_S + 30
    refused = exchange(Authorization=f"Bearer {key}")
    assert (refused.status_code, refused.headers["Retry-After"]) == (429, "30")
    assert limits_of(refused) == (20, 0, NOON_S + 60)
    assert ask(clockwork.client(key), 1) == [200]


@holds("rates-auth")
@pytest.mark.parametrize(
    "target", ["http://ledger/v1/auth/token", "/v1/auth/%74oken", "/v1/auth/token?x=1", "/%761/auth/token"]
)
def test_no_spelling_of_the_path_goes_around_the_stricter_limit(clockwork: Clockwork, target: str) -> None:
    wire = clockwork.wire()
    statuses = [wire.ask(wire.post(target, b"{}")).status for _ in range(6)]
    assert statuses == [400] * 5 + [429]


@holds("rates-auth")
@pytest.mark.parametrize(
    "target", ["//v1/auth/token", "/v1//auth/token", "/v1/auth/token/", "/v1/auth/./token"]
)
def test_another_path_is_not_the_token_endpoint(clockwork: Clockwork, target: str) -> None:
    wire = clockwork.wire(clockwork.key(clockwork.project("free")))
    assert wire.ask(wire.post(target, b"{}")).status == 404


Ask = Callable[[Wire], Answer]
ANSWERS: dict[str, tuple[int, Ask]] = {
    "200": (200, lambda wire: wire.ask(wire.head("GET", "/v1/accounts"))),
    "201": (201, lambda wire: wire.ask(wire.post("/v1/accounts", TILL))),
    "head": (200, lambda wire: wire.ask(wire.head("HEAD", "/v1/accounts"), of="HEAD")),
    "health": (200, lambda wire: wire.ask(wire.head("GET", "/api/health", key=""))),
    "reference": (200, lambda wire: wire.ask(wire.head("GET", "/openapi.json", key=""))),
    "400 json": (400, lambda wire: wire.ask(wire.post("/v1/accounts", b"{"))),
    "400 conflict": (
        400,
        lambda wire: wire.ask(
            wire.head("GET", "/v1/accounts", "Content-Length: 0", "Transfer-Encoding: chunked")
        ),
    ),
    "400 not http": (400, lambda wire: wire.ask(b"not http at all\r\n\r\n")),
    "400 no host": (400, lambda wire: wire.ask(b"GET /v1/accounts HTTP/1.1\r\n\r\n")),
    "401": (401, lambda wire: wire.ask(wire.head("GET", "/v1/accounts", key=""))),
    "401 directory": (401, lambda wire: wire.ask(wire.head("GET", "/api/users", key=""))),
    "404 object": (404, lambda wire: wire.ask(wire.head("GET", "/v1/accounts/acc_none"))),
    "404 path": (404, lambda wire: wire.ask(wire.head("GET", "/nothing"))),
    "405": (405, lambda wire: wire.ask(wire.head("PUT", "/v1/accounts"))),
    "405 connect": (405, lambda wire: wire.ask(wire.head("CONNECT", "ledger:443"))),
    "413": (413, lambda wire: wire.ask(wire.post("/v1/accounts", b" " * (1024 * 1024 + 1)))),
    "414": (414, lambda wire: wire.ask(wire.head("GET", "/" + "x" * 9000))),
    "431": (431, lambda wire: wire.ask(wire.head("GET", "/v1/accounts", "X: " + "x" * 17_000))),
    "431 endless": (431, lambda wire: wire.ask(wire.head("GET", "/v1/accounts", "X: " + "x" * 300_000))),
    "broken body": (
        400,
        lambda wire: wire.ask(wire.head("POST", "/v1/accounts", "Transfer-Encoding: chunked"), b"xyz\r\n"),
    ),
}


@holds("rates-headers", "conventions-request-id", "rates-retry-after")
@pytest.mark.parametrize(("status", "send"), ANSWERS.values(), ids=list(ANSWERS))
def test_every_answer_carries_the_rate_limit_and_a_request_id(wire: Wire, status: int, send: Ask) -> None:
    answer = send(wire)
    assert answer.status == status
    limit, remaining, reset = (
        int(answer.headers[f"x-ratelimit-{name}"]) for name in ("limit", "remaining", "reset")
    )
    assert limit >= 60
    assert 0 <= remaining < limit or remaining == limit == 60
    assert reset % 60 == 0
    assert answer.headers["request-id"].startswith("req_")
    assert len(answer.headers["request-id"]) == 30
    assert "retry-after" not in answer.headers


@holds("rates-over")
def test_a_refused_request_does_nothing_and_leaves_its_connection_usable(clockwork: Clockwork) -> None:
    key = clockwork.key(clockwork.project("free"))
    wire = clockwork.wire(key)
    connection = wire.connect()
    for _ in range(10):
        connection.ask(wire.head("GET", "/v1/accounts"))
    for body in (
        wire.post("/v1/accounts", TILL),
        wire.head("POST", "/v1/accounts", "Transfer-Encoding: chunked") + chunked(TILL, 5),
    ):
        refused = connection.ask(body)
        assert (refused.status, refused.headers["retry-after"]) == (429, "1")
        assert "connection" not in refused.headers
    clockwork.now_s += 1
    assert connection.ask(wire.post("/v1/accounts", TILL)).status == 201
    assert len(connection.ask(wire.head("GET", "/v1/accounts")).json()["data"]) == 1
    wire.close()


@holds("quotas-stored", "projects-quota", "projects-stored", "projects-modes", "error-codes", "errors-403")
def test_a_free_project_stores_10_000_objects_in_each_mode(clockwork: Clockwork) -> None:
    project = clockwork.project("free")
    api, live = (clockwork.client(clockwork.key(project, livemode=mode)) for mode in (False, True))

    def create(client: httpx.Client, path: str, body: object) -> httpx.Response:
        clockwork.advance(60)
        return client.post(path, json=body)

    account = create(api, "/v1/accounts", {"name": "Till", "currency": "EUR"}).json()["id"]
    posting = {"account": account, "amount": 1, "type": "credit"}
    user = create(api, "/api/users", {"name": "Ada", "email": "ada@example.com"}).json()["id"]
    assert create(api, "/v1/invoices", {"account": account, "customer": "C", "amount": 1}).status_code == 201
    assert create(api, "/api/orders", {"user_id": user, "items": [{}]}).status_code == 201
    for size in [1000] * 9 + [996]:
        batch = {"transactions": [posting] * size}
        assert create(api, "/v1/transactions/batch", batch).status_code == 201
    for path, body in [
        ("/v1/accounts", {"name": "Till", "currency": "EUR"}),
        ("/v1/transactions", posting),
        ("/v1/invoices", {"account": account, "customer": "C", "amount": 1}),
        ("/api/users", {"name": "Bob", "email": "bob@example.com"}),
        ("/api/orders", {"user_id": user, "items": [{}]}),
    ]:
        assert code_of(create(api, path, body)) == (403, "quota_exceeded"), path
    clockwork.advance(60)
    assert api.get(f"/v1/accounts/{account}").json()["balance"] == 9996
    assert create(live, "/v1/accounts", {"name": "Till", "currency": "EUR"}).status_code == 201


@holds("quotas-stored", "projects-enterprise")
def test_pro_stores_500_000_and_enterprise_as_many_as_it_likes(clockwork: Clockwork) -> None:
    for plan, most in (("free", 10_000), ("pro", 500_000), ("enterprise", None)):
        api = clockwork.client(clockwork.key(clockwork.project(plan)))
        assert api.get("/v1/billing").json()["stored_objects_max"] == most
        assert api.get("/v1/whoami").json()["stored_objects_max"] == most


@holds("rate-limits-windows", "rates-reset")
def test_the_window_is_the_wall_clocks_own_minute(project: Project) -> None:
    assert limits_of(project.api.get("/v1/accounts"))[2] % 60 == 0


@holds("rate-limits-auth")
def test_the_limit_of_authentication_endpoints_can_be_set(location: Location) -> None:
    server = start_server(location, "--auth-rate-limit", "7/3")
    try:
        answers = [httpx.post(f"{server.url}/v1/auth/token", json={}) for _ in range(2)]
        assert limits_of(answers[0])[0] == 7
        assert {answer.status_code for answer in answers} == {400}
    finally:
        stop_server(server)
