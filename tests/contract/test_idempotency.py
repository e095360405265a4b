"""docs/interface.md#create-idempotency, #create-duplicate; docs/decisions.md#idempotency."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from tests.contract.clockwork import Clockwork
from tests.contract.conftest import Cli, code_of
from tests.contract.raw import Wire
from tests.contract.rules import holds
from tests.house.pages import ROOT, blocks

TILL = {"name": "Till", "currency": "EUR"}


def with_key(key: str) -> dict[str, str]:
    return {"Idempotency-Key": key}


@holds(
    "create-idempotency", "create-duplicate", "idempotency-second", "error-param", "errors-409", "error-codes"
)
def test_a_second_use_is_409_and_names_the_first_object(api: httpx.Client) -> None:
    first = api.post("/v1/accounts", json=TILL, headers=with_key("a-1"))
    assert first.status_code == 201
    second = api.post("/v1/accounts", json=TILL, headers=with_key("a-1"))
    assert second.status_code == 409
    error = second.json()["error"]
    assert (error["type"], error["code"]) == ("conflict", "duplicate_idempotency_key")
    assert error["param"] == "Idempotency-Key"
    assert first.json()["id"] in error["message"]
    assert second.headers["Idempotency-Original"] == first.json()["id"]
    assert len(api.get("/v1/accounts").json()["data"]) == 1


@pytest.mark.parametrize(
    "second",
    [
        {"json": {"name": "a"}},
        {"json": {"name": "a", "currency": "ZZZ"}},
        {"json": {"name": 5, "more": 6}},
        {"content": b"{"},
        {"content": b"", "headers": {"Content-Type": "text/plain"}},
        {"json": TILL, "params": {"x": "1"}},
    ],
)
def test_a_second_use_is_409_whatever_comes_with_it(api: httpx.Client, second: dict[str, Any]) -> None:
    def post(key: str) -> httpx.Response:
        return api.post("/v1/accounts", **{**second, "headers": with_key(key) | second.get("headers", {})})

    first = api.post("/v1/accounts", json=TILL, headers=with_key("whatever"))
    answer = post("whatever")
    assert (answer.status_code, answer.headers["Idempotency-Original"]) == (409, first.json()["id"])
    assert post("another").status_code == 400


@pytest.mark.parametrize("object", ["api_keys/x/roll", "events/x/resend", "invoices/x/pay", "nothing/x"])
def test_a_second_use_is_409_for_an_object_that_is_not_there_too(api: httpx.Client, object: str) -> None:
    first = api.post("/v1/accounts", json=TILL, headers=with_key("somewhere"))
    answer = api.post(f"/v1/{object}", headers=with_key("somewhere"))
    if object.startswith("nothing"):  # a path that is none takes no keys
        assert answer.status_code == 404
    else:
        assert (answer.status_code, answer.headers["Idempotency-Original"]) == (409, first.json()["id"])
    assert api.post(f"/v1/{object}", headers=with_key("another")).status_code == 404


@holds("idempotency-second")
def test_a_second_use_is_409_for_what_the_caller_may_not_create_too(api: httpx.Client, cli: Cli) -> None:
    project = api.get("/v1/whoami").json()["project"]
    key = cli("keys", "create", "--project", project, "--mode", "test", "--role", "member")["key"]
    first = api.post("/v1/accounts", json=TILL, headers=with_key("used"))
    owner = {"name": "Ada", "email": "ada@example.com", "role": "owner"}
    headers = {"Authorization": f"Bearer {key}"}
    answer = api.post("/api/users", json=owner, headers=headers | with_key("used"))
    assert (answer.status_code, answer.headers["Idempotency-Original"]) == (409, first.json()["id"])
    assert api.post("/api/users", json=owner, headers=headers | with_key("new")).status_code == 403


@holds("idempotency-space", "create-duplicate")
def test_one_key_serves_one_create_of_any_kind(api: httpx.Client) -> None:
    account = api.post("/v1/accounts", json=TILL).json()["id"]
    user = api.post("/api/users", json={"name": "Ada", "email": "ada@example.com"}).json()["id"]
    posting = {"account": account, "amount": 1, "type": "credit"}
    posted = api.post("/v1/transactions", json=posting, headers=with_key("k")).json()["id"]
    invoice = api.post("/v1/invoices", json={"account": account, "customer": "C", "amount": 1}).json()["id"]
    for path, body in [
        ("/v1/accounts", TILL),
        ("/v1/transactions", posting),
        ("/v1/transactions/batch", {"transactions": [posting]}),
        (f"/v1/transactions/{posted}/reverse", None),
        ("/v1/invoices", {"account": account, "customer": "C", "amount": 1}),
        (f"/v1/invoices/{invoice}/finalize", None),
        ("/api/users", {"name": "Bob", "email": "bob@example.com"}),
        (f"/api/users/{user}/restore", None),
        ("/api/orders", {"user_id": user, "items": [{}]}),
        ("/v1/api_keys", {}),
        ("/v1/projects", {"name": "Harbour"}),
        ("/v1/webhook_endpoints", {"url": "http://127.0.0.1:9/"}),
    ]:
        answer = api.post(path, json=body, headers=with_key("k"))
        assert code_of(answer) == (409, "duplicate_idempotency_key"), path
        assert answer.headers["Idempotency-Original"] == posted


@holds("idempotency-space", "projects-modes")
def test_each_mode_and_project_has_keys_of_its_own(
    api: httpx.Client, live: httpx.Client, make_project: Any
) -> None:
    for client in (api, live, make_project().api):
        assert client.post("/v1/accounts", json=TILL, headers=with_key("k")).status_code == 201


@holds("idempotency-same-request")
def test_a_second_use_is_told_whether_it_is_the_same_request(api: httpx.Client) -> None:
    def same(method: str, path: str, body: bytes) -> object:
        answer = api.request(method, path, content=body, headers=with_key("k"))
        assert answer.status_code == 409
        fields = answer.json()
        return (fields["error"] if isinstance(fields["error"], dict) else fields)["same_request"]

    body = b'{"name": "Till", "currency": "EUR"}'
    assert api.post("/v1/accounts", content=body, headers=with_key("k")).status_code == 201
    assert same("POST", "/v1/accounts", body) is True
    assert same("POST", "/v1/accounts", body.replace(b"EUR", b"USD")) is False
    assert same("POST", "/v1/accounts", b"{") is False
    assert same("POST", "/v1/invoices", body) is False
    assert same("POST", "/v1/accounts?x=1", body) is False
    assert same("POST", "/api/users", body) is False


@holds("idempotency-originals")
def test_a_second_use_names_all_that_the_first_made(api: httpx.Client) -> None:
    def twice(path: str, body: object = None) -> tuple[Any, httpx.Response]:
        first = api.post(path, json=body, headers=with_key(path)).raise_for_status().json()
        again = api.post(path, json=body, headers=with_key(path))
        assert (again.status_code, again.json()["error"]["same_request"]) == (409, True)
        return first, again

    def named(answer: httpx.Response) -> list[str]:
        assert answer.headers["Idempotency-Originals"] == ",".join(answer.json()["error"]["originals"])
        return answer.headers["Idempotency-Originals"].split(",")

    account = api.post("/v1/accounts", json=TILL).json()["id"]
    other = api.post("/v1/accounts", json=TILL).json()["id"]
    posting = {"account": account, "amount": 1, "type": "credit"}
    transfer = {**posting, "destination": other}
    batch, again = twice("/v1/transactions/batch", {"transactions": [posting, transfer, posting]})
    assert named(again) == [each["id"] for each in batch["data"]]
    assert again.headers["Idempotency-Original"] == batch["data"][0]["id"]
    undone, again = twice(f"/v1/transactions/{batch['data'][0]['id']}/reverse")
    assert named(again) == [batch["data"][0]["id"], undone["id"]]
    invoice = api.post("/v1/invoices", json={"account": account, "customer": "C", "amount": 1}).json()["id"]
    assert api.post(f"/v1/invoices/{invoice}/finalize").status_code == 200
    paid, again = twice(f"/v1/invoices/{invoice}/pay")
    assert named(again) == [invoice, paid["transaction"]]
    key = api.post("/v1/api_keys", json={}).json()["id"]
    rolled, again = twice(f"/v1/api_keys/{key}/roll")
    assert named(again) == [key, rolled["id"]]


@holds("idempotency-originals")
@pytest.mark.parametrize("count", [100, 101, 1000])
def test_a_batch_is_named_in_the_body_and_up_to_100_in_a_header(api: httpx.Client, count: int) -> None:
    account = api.post("/v1/accounts", json=TILL).json()["id"]
    body = {"transactions": [{"account": account, "amount": 1, "type": "credit"}] * count}
    made = api.post("/v1/transactions/batch", json=body, headers=with_key("long")).json()["data"]
    again = api.post("/v1/transactions/batch", json=body, headers=with_key("long"))
    ids = [each["id"] for each in made]
    assert again.json()["error"]["originals"] == ids
    assert again.headers["Idempotency-Original"] == ids[0]
    assert again.headers.get("Idempotency-Originals") == (",".join(ids) if count <= 100 else None)


class LosingFirstAnswer(httpx.HTTPTransport):
    """A network that breaks off after the first request has arrived."""

    lost = False

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        answer = super().handle_request(request)
        if not self.lost:
            self.lost = True
            answer.close()
            raise httpx.ReadError("The connection was cut.")
        return answer


@pytest.mark.parametrize(
    ("path", "body", "other"),
    [
        ("/v1/accounts", TILL, TILL | {"name": "Another"}),
        (
            "/api/users",
            {"name": "Ada", "email": "ada@example.com"},
            {"name": "Ada", "email": "a@example.com"},
        ),
    ],
)
def test_the_recipe_of_the_documentation_finds_what_was_created(
    api: httpx.Client, path: str, body: dict[str, str], other: dict[str, str]
) -> None:
    [recipe] = [
        block.text for block in blocks(ROOT / "docs" / "idempotency.md") if block.file == "post_once.py"
    ]
    names: dict[str, Any] = {}
    exec(recipe, names)
    with httpx.Client(base_url=api.base_url, headers=api.headers, transport=LosingFirstAnswer()) as client:
        made = names["post_once"](client, path, body, "recipe")
        assert made == api.get(f"{path}/{made['id']}").json()
        with pytest.raises(httpx.HTTPStatusError):
            names["post_once"](client, path, other, "recipe")


@holds("idempotency-failed")
def test_a_request_that_failed_takes_no_key(api: httpx.Client) -> None:
    assert api.post("/v1/accounts", json={"name": "Till"}, headers=with_key("k")).status_code == 400
    unknown = {"account": "acc_none", "amount": 1, "type": "credit"}
    assert api.post("/v1/transactions", json=unknown, headers=with_key("k")).status_code == 404
    assert api.post("/v1/accounts", json=TILL, headers=with_key("k")).status_code == 201


@holds("idempotency-key", "error-param")
@pytest.mark.parametrize("key", [b"", b"k" * 256, b"caf\xe9", b"a\tb", b"\x7f", "schlüssel".encode()])
def test_a_key_is_1_to_255_printable_ascii_characters(wire: Wire, key: bytes) -> None:
    post = wire.post("/v1/accounts", b'{"name": "Till", "currency": "EUR"}', "Idempotency-Key: KEY")
    answer = wire.ask(post.replace(b"KEY", key))
    assert answer.status == 400
    assert answer.json()["error"]["param"] == "Idempotency-Key"
    assert wire.ask(wire.head("GET", "/v1/accounts")).json()["data"] == []


@holds("idempotency-key")
@pytest.mark.parametrize("key", ["k", "k" * 255, "with space", "!~{}'\"\\"])
def test_any_printable_ascii_is_a_key(api: httpx.Client, key: str) -> None:
    assert api.post("/v1/accounts", json=TILL, headers=with_key(key)).status_code == 201
    assert api.post("/v1/accounts", json=TILL, headers=with_key(key)).status_code == 409


@holds("idempotency-race", "create-idempotency")
def test_fifty_creates_at_once_with_one_key_make_one(api: httpx.Client) -> None:
    account = api.post("/v1/accounts", json=TILL).json()["id"]
    body = {"account": account, "amount": 7, "type": "credit"}

    def post(_: int) -> httpx.Response:
        return api.post("/v1/transactions", json=body, headers=with_key("race"))

    with ThreadPoolExecutor(50) as callers:
        answers = [*callers.map(post, range(50))]
    assert sorted(answer.status_code for answer in answers) == [201] + [409] * 49
    assert api.get(f"/v1/accounts/{account}").json()["balance"] == 7
    [posted] = api.get("/v1/transactions").json()["data"]
    refused = [answer for answer in answers if answer.status_code == 409]
    assert {answer.headers["Idempotency-Original"] for answer in refused} == {posted["id"]}


@holds("idempotency-for-ever")
def test_keys_do_not_expire(clockwork: Clockwork) -> None:
    api = clockwork.client(clockwork.key(clockwork.project()))
    assert api.post("/v1/accounts", json=TILL, headers=with_key("k")).status_code == 201
    clockwork.advance(10 * 365 * 86_400)
    assert api.post("/v1/accounts", json=TILL, headers=with_key("k")).status_code == 409
