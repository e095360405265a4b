"""The reference: a valid document, of every route, that every answer keeps to.

The clients of the whole contract suite hold each answer they get against it (conftest.py).
"""

from __future__ import annotations

import gzip
import html.parser
import re
from typing import Any

import httpx
import pytest
from jsonschema import ValidationError
from openapi_spec_validator import OpenAPIV31SpecValidator

from ledger_engine.core.tenant import SCOPES
from ledger_engine.http.app import RESOURCES, create_app
from ledger_engine.http.errors import CODES
from ledger_engine.http.openapi.documentation import document
from ledger_engine.http.openapi.pages import SCRIPT
from ledger_engine.http.openapi.texts import EXAMPLES, TERMS
from ledger_engine.sandbox import routes as test_helpers
from tests.contract.clockwork import Clockwork
from tests.contract.documented import Documented
from tests.contract.rules import holds

# What is for browsers, and not for programs that read this document.
PAGES = ("/docs", "/openapi.json", "/oauth/", "/.well-known/")


@pytest.fixture(scope="module")
def reference() -> dict[str, Any]:
    return document(RESOURCES)


@pytest.fixture(scope="module")
def with_helpers() -> dict[str, Any]:
    """Return the document of a server with the test helpers, which is that of every server and more."""
    return document([*RESOURCES, test_helpers.routes])


def test_the_document_is_valid_openapi_3_1(reference: dict[str, Any]) -> None:
    assert reference["openapi"].startswith("3.1.")
    OpenAPIV31SpecValidator(reference).validate()


def test_the_document_is_served_to_anybody(anyone: httpx.Client, reference: dict[str, Any]) -> None:
    answer = anyone.get("/openapi.json")
    assert (answer.status_code, answer.headers["Content-Type"]) == (200, "application/json")
    assert answer.json() == reference


def test_every_route_is_in_the_document(clockwork: Clockwork, reference: dict[str, Any]) -> None:
    routes = {
        (method, rule.rule.replace("<path:", "<").replace("<", "{").replace(">", "}"))
        for rule in create_app(clockwork.engine).url_map.iter_rules()
        for method in (rule.methods or set()) - {"HEAD"}
        if not rule.rule.startswith(PAGES) and rule.rule != "/"
    }
    documented = {
        (method.upper(), path)
        for path, methods in reference["paths"].items()
        for method in methods
        if not path.startswith(PAGES)
    }
    assert routes == documented
    assert len(documented) >= 35


def test_each_operation_says_what_it_needs(reference: dict[str, Any]) -> None:
    for resource in RESOURCES:
        for operation in resource.operations:
            path = operation.path.replace("<path:", "<").replace("<", "{").replace(">", "}")
            documented = reference["paths"][path][operation.method.lower()]
            assert documented["summary"]
            assert documented.get("x-required-scope") == operation.needs
            assert documented.get("x-required-role") == (None if operation.public else operation.role)
            assert documented.get("x-beyond-contract", False) is not operation.in_contract
            assert (documented.get("security") == []) is operation.public
            headers = {"$ref": "#/components/parameters/IdempotencyKey"} in documented.get("parameters", [])
            assert headers is (operation.method == "POST" and not operation.public)
            if operation.needs is not None:
                assert operation.needs in documented["description"]


def test_every_field_and_parameter_is_explained_and_nothing_else(with_helpers: dict[str, Any]) -> None:
    unexplained: set[str] = set()
    met: set[str] = set()

    def meet(parent: str, name: str, described: dict[str, Any]) -> None:
        met.update({name, f"{parent}.{name}"})
        if not {"description", "$ref", "const"} & set(described):
            unexplained.add(f"{parent}.{name}")

    def walk(parent: str, schema: dict[str, Any]) -> None:
        for name, member in schema.get("properties", {}).items():
            meet(parent, name, member)
            walk(f"{parent}.{name}", member)
        if isinstance(schema.get("items"), dict):
            walk(parent, schema["items"])

    for name, schema in with_helpers["components"]["schemas"].items():
        walk(name, schema)
    for path, methods in with_helpers["paths"].items():
        for method, operation in methods.items():
            for parameter in operation.get("parameters", []):
                if "name" in parameter:
                    meet(f"{method.upper()} {path}", parameter["name"], parameter)
    assert unexplained == set()
    assert set(TERMS) - met - {"data", "has_more", "next_cursor"} == set()


def test_a_body_has_no_default_which_generators_take_for_a_field_that_must_be_sent(
    reference: dict[str, Any],
) -> None:
    defaults = [
        f"{name}.{field}"
        for name, schema in reference["components"]["schemas"].items()
        for field, member in schema.get("properties", {}).items()
        if "default" in member
    ]
    assert defaults == []


def test_a_body_has_one_media_type_because_generated_clients_mix_up_two(reference: dict[str, Any]) -> None:
    types = {
        operation["operationId"]: list(operation["requestBody"]["content"])
        for path in reference["paths"].values()
        for operation in path.values()
        if "requestBody" in operation
    }
    form = ["application/x-www-form-urlencoded"]
    assert {name for name, listed in types.items() if listed == form} == {
        "exchange_code",
        "revoke_oauth_token",
    }
    assert all(listed in (form, ["application/json"]) for listed in types.values())


def test_each_alternative_of_a_schema_defines_what_it_demands(reference: dict[str, Any]) -> None:
    schemas = reference["components"]["schemas"]
    alternatives = {
        each["$ref"].rpartition("/")[2]
        for name in ("TokenRequest", "OAuthTokenRequest")
        for each in [*schemas[name].get("oneOf", []), *schemas[name].get("anyOf", [])]
    }
    assert alternatives == {"ApiKeyGrant", "RefreshTokenGrant", "CodeExchange", "TokenRefresh"}
    for name in alternatives:
        assert set(schemas[name]["required"]) <= set(schemas[name]["properties"])
    documented = Documented(reference)
    for name, good, value in (
        ("TokenRequest", True, {"grant_type": "api_key", "api_key": "sk_test_"}),
        ("TokenRequest", True, {"grant_type": "refresh_token", "refresh_token": "rt_"}),
        ("TokenRequest", False, {"grant_type": "api_key", "refresh_token": "rt_"}),
        ("TokenRequest", False, {"grant_type": "api_key"}),
        ("TokenRequest", False, {"api_key": "sk_test_"}),
        ("OAuthTokenRequest", True, {"code": "ac_", "code_verifier": "v"}),
        (
            "OAuthTokenRequest",
            True,
            {"grant_type": "authorization_code", "code": "ac_", "code_verifier": "v"},
        ),
        ("OAuthTokenRequest", True, {"grant_type": "refresh_token", "refresh_token": "rt_", "resource": "x"}),
        ("OAuthTokenRequest", False, {"grant_type": "refresh_token", "code": "ac_", "code_verifier": "v"}),
        ("OAuthTokenRequest", False, {"refresh_token": "rt_"}),
    ):
        if good:
            documented.validate(f"/components/schemas/{name}", value)
        else:
            with pytest.raises(ValidationError):
                documented.validate(f"/components/schemas/{name}", value)


def test_dates_and_times_have_their_format_and_fields_their_own_description(
    reference: dict[str, Any],
) -> None:
    schemas = reference["components"]["schemas"]
    for name in ("Invoice", "CreateInvoice", "ChangeInvoice"):
        assert schemas[name]["properties"]["due_date"]["format"] == "date"
    attempt = schemas["Delivery"]["properties"]["attempts"]["items"]["properties"]
    assert attempt["attempted_at"]["format"] == "date-time"
    documented = {name: member["description"] for name, member in attempt.items() if "description" in member}
    assert "invoice" not in documented["number"]
    assert len(set(documented.values())) == len(documented)
    assert "programs" in schemas["OAuthError"]["properties"]["error"]["description"]
    assert "info.version" in schemas["Health"]["properties"]["version"]["description"]
    assert all(f"| {status} |" in reference["info"]["description"] for status in CODES)


# The names of texts by people, other programs and the network, and of secrets.
FREE = re.compile(
    "name|description|customer|message|error_description|notice|metadata|body|headers|error|param|path|query"
    "|key|api_key|secret|access_token|refresh_token|token|token_type_hint|last4|code|code_verifier|credential"
    "|client_id|redirect_uri|scope|state|code_challenge|response_type|code_challenge_method|address|method"
    "|header|request_body|response_body|error_code|idempotency_key|tile"
)
# A filter by an id that nobody has is answered with an empty list, and a fault of an endpoint or a type that
# nobody has never happens.
UNCHECKED = {
    *("get /v1/invoices account", "get /v1/transactions account", "get /v1/events object"),
    *(f"{schema}.{name}" for schema in ("SetFaultMatch", "Fault.match") for name in ("endpoint", "type")),
    "TriggerEvent.type",
}


def test_each_text_has_a_format_a_pattern_or_its_values_unless_it_is_free(
    with_helpers: dict[str, Any],
) -> None:
    bare: set[str] = set()
    texts = 0

    def look(place: str, name: str, schema: dict[str, Any]) -> None:
        nonlocal texts
        kinds = schema.get("type", [])
        if "string" in ([kinds] if isinstance(kinds, str) else kinds):
            texts += 1
            if not {"format", "pattern", "enum", "const"} & set(schema) and not FREE.fullmatch(name):
                bare.add(place)
        for member, inner in schema.get("properties", {}).items():
            look(f"{place}.{member}", member, inner)
        for part in ("items", "additionalProperties"):
            if isinstance(schema.get(part), dict):
                look(f"{place}.{part}", name, schema[part])

    for name, schema in with_helpers["components"]["schemas"].items():
        look(name, name, schema)
    for path, methods in with_helpers["paths"].items():
        for method, operation in methods.items():
            for parameter in operation.get("parameters", []):
                if "name" in parameter:
                    look(f"{method} {path} {parameter['name']}", parameter["name"], parameter["schema"])
    assert bare == UNCHECKED
    assert texts > 300


def test_a_request_that_was_accepted_is_held_against_the_document(
    api: httpx.Client, reference: dict[str, Any]
) -> None:
    account = api.post("/v1/accounts", json={"name": "Till", "currency": "eur"})
    listed = api.get("/v1/transactions", params={"created_after": "2026-11-20", "limit": 1})
    schemas, paths = reference["components"]["schemas"], reference["paths"]
    currency = schemas["CreateAccount"]["properties"]["currency"]
    [after] = [
        each for each in paths["/v1/transactions"]["get"]["parameters"] if each.get("name") == "created_after"
    ]
    for schema, answer in ((currency, account), (after["schema"], listed)):
        Documented(reference).check(answer)
        pattern, schema["pattern"] = schema["pattern"], "^[A-Z]+$"
        with pytest.raises(ValidationError, match="does not match"):
            Documented(reference).check(answer)
        schema["pattern"] = pattern


ACCOUNT = "acc_01kafzrhwaez1c3e5g7k9n1q3s"
INVOICE = {"account": ACCOUNT, "customer": "C"}
USER = {"name": "Ada", "email": "ada@example.com"}


@pytest.mark.parametrize(
    ("schema", "base", "good", "bad"),
    [
        ("CreateAccount", {"name": "Till"}, {"currency": "eUr"}, {"currency": "AAA"}),
        (
            "CreateInvoice",
            INVOICE,
            {"amount": 5, "metadata": {"a": ""}},
            {"amount": 5, "metadata": {"": "a"}},
        ),
        ("CreateUser", USER, {"email": "é@example"}, {"email": "a\x80@example"}),
        (
            "PlaceOrder",
            {"user_id": ACCOUNT.replace("acc", "usr")},
            {"items": [{}]},
            {"items": [{"quantity": 0}]},
        ),
        ("CreateWebhookEndpoint", {}, {"url": "https://a.example:/?b=@"}, {"url": "https://b@a.example/"}),
        ("ResendFailed", {}, {"since": "2026W015T23Z"}, {"since": "2026-13-01"}),
        ("RevocationRequest", {}, {"token": "x", "client_id": ""}, {"token": ""}),
        (
            "OAuthTokenRequest",
            {"code": "a"},
            {"code_verifier": "b"},
            {"code_verifier": "b", "client_id": None},
        ),
    ],
)
def test_a_body_that_no_state_of_the_ledger_accepts_does_not_fit_its_schema(
    reference: dict[str, Any], schema: str, base: dict[str, Any], good: dict[str, Any], bad: dict[str, Any]
) -> None:
    documented = Documented(reference)
    documented.validate(f"/components/schemas/{schema}", base | good)
    with pytest.raises(ValidationError):
        documented.validate(f"/components/schemas/{schema}", base | bad)


LINKS = {
    "create_account": {"get_account", "get_balance", "get_statement"},
    "post_transaction": {"get_transaction", "reverse_transaction", "list_related_transactions"},
    "create_invoice": {"get_invoice", "change_invoice", "finalize_invoice", "pay_invoice", "void_invoice"},
    "create_user": {"get_user", "deactivate_user", "restore_user"},
    "place_order": {"get_order", "pay_order", "ship_order"},
    "create_api_key": {"get_api_key", "roll_api_key", "revoke_api_key"},
    "create_project": {"get_project", "change_project", "archive_project"},
    "create_webhook_endpoint": {"get_webhook_endpoint", "disable_webhook_endpoint", "list_deliveries"},
    "take_snapshot": {"restore_snapshot", "delete_snapshot"},
    "set_fault": {"delete_fault"},
}


def test_each_operation_that_creates_an_object_links_to_the_operations_on_it(
    with_helpers: dict[str, Any],
) -> None:
    operations = {
        each["operationId"]: each for path in with_helpers["paths"].values() for each in path.values()
    }
    for name, expected in LINKS.items():
        links = operations[name]["responses"]["201"]["links"]
        assert links.keys() >= expected
        for link in links.values():
            parameters = operations[link["operationId"]]["parameters"]
            names = {each["name"] for each in parameters if each.get("in") == "path"}
            assert link["parameters"].keys() == names


def test_a_program_that_follows_the_links_finalizes_and_pays_the_invoice_it_created(
    api: httpx.Client, reference: dict[str, Any]
) -> None:
    paths = {
        operation["operationId"]: (method.upper(), path)
        for path, methods in reference["paths"].items()
        for method, operation in methods.items()
    }

    def follow(answer: httpx.Response, name: str) -> dict[str, Any]:
        created = reference["paths"][answer.request.url.path]["post"]["responses"]["201"]
        link = created["links"][name]
        values = {
            parameter: answer.json()[expression.removeprefix("$response.body#/")]
            for parameter, expression in link["parameters"].items()
        }
        method, path = paths[link["operationId"]]
        followed = api.request(method, path.format(**values))
        assert followed.status_code in (200, 201), followed.text
        shown: dict[str, Any] = followed.json()
        return shown

    account = api.post("/v1/accounts", json={"name": "Till", "currency": "EUR"})
    body = {"account": account.json()["id"], "customer": "C", "amount": 5}
    invoice = api.post("/v1/invoices", json=body)
    assert follow(invoice, "finalize_invoice")["status"] == "open"
    paid = follow(invoice, "pay_invoice")
    assert paid["status"] == "paid"
    assert follow(invoice, "get_invoice") == paid
    assert follow(account, "get_balance")["balance"] == 5


def test_a_term_of_one_place_is_taken_before_the_one_of_its_name(with_helpers: dict[str, Any]) -> None:
    schemas = with_helpers["components"]["schemas"]
    match = schemas["Fault"]["properties"]["match"]["properties"]
    assert match["key"]["description"] == "Id of an API key or app, with its tokens."
    assert "shown only this once" in schemas["ApiKeyWithValue"]["properties"]["key"]["description"]


def test_the_scopes_of_an_app_are_all_scopes(reference: dict[str, Any]) -> None:
    [flow] = reference["components"]["securitySchemes"]["oauth"]["flows"].values()
    assert tuple(flow["scopes"]) == SCOPES


@pytest.mark.parametrize("kind", ["bodies", "records"])
def test_each_example_is_of_a_schema_and_fits_it(with_helpers: dict[str, Any], kind: str) -> None:
    documented = Documented(with_helpers)
    for name, example in EXAMPLES[kind].items():
        documented.validate(f"/components/schemas/{name}", example)


def test_a_mismatch_with_the_document_is_noticed(with_helpers: dict[str, Any]) -> None:
    documented = Documented(with_helpers)
    for name, example in EXAMPLES["records"].items():
        with pytest.raises(Exception, match=r"was unexpected"):
            documented.validate(f"/components/schemas/{name}", {**example, "surplus": 1})
    account = EXAMPLES["records"]["Account"]
    for wrong in ({"balance": "0"}, {"created": "2026-11-20"}, {"object": "invoice"}, {"metadata": {"k": 1}}):
        with pytest.raises(Exception, match=r"is not of type|does not match|was expected"):
            documented.validate("/components/schemas/Account", {**account, **wrong})


@holds("service-json")
def test_the_success_of_every_operation_is_as_documented(
    api: httpx.Client, anyone: httpx.Client, reference: dict[str, Any]
) -> None:
    documented = Documented(reference)
    key = api.headers["Authorization"].removeprefix("Bearer ")

    def do(method: str, path: str, body: Any = None, *, client: httpx.Client = api) -> Any:
        answer = client.request(method, path, json=body)
        assert answer.is_success, answer.text
        documented.check(answer)
        return answer.json()

    account = do("POST", "/v1/accounts", EXAMPLES["bodies"]["CreateAccount"])["id"]
    posting = {"account": account, "amount": 5, "type": "credit"}
    posted = do("POST", "/v1/transactions", posting)["id"]
    do("POST", "/v1/transactions/batch", {"transactions": [posting]})
    do("POST", f"/v1/transactions/{posted}/reverse")
    lines = [{"description": "d", "quantity": 1, "unit_amount": 1}]
    invoice = {"account": account, "customer": "C", "lines": lines}
    invoices = [f"/v1/invoices/{do('POST', '/v1/invoices', invoice)['id']}" for _ in range(2)]
    do("PATCH", invoices[0], {"customer": "D"})
    for path in invoices:
        do("POST", path + "/finalize")
    do("POST", invoices[0] + "/pay")
    do("DELETE", invoices[1])
    user = do("POST", "/api/users", EXAMPLES["bodies"]["CreateUser"])["id"]
    order = do("POST", "/api/orders", {"user_id": user, "items": [{"quantity": 1, "unit_amount": 5}]})["id"]
    do("POST", f"/api/orders/{order}/pay")
    do("POST", f"/api/orders/{order}/ship")
    for path in [
        *["/v1/currencies", "/v1/accounts", f"/v1/accounts/{account}", f"/v1/accounts/{account}/balance"],
        *[f"/v1/accounts/{account}/statement", "/v1/transactions", f"/v1/transactions/{posted}"],
        *[f"/v1/transactions/{posted}/related", f"/api/users/{user}/orders"],
        *["/v1/invoices", invoices[0], "/v1/whoami", "/v1/billing", "/api/health", "/api/health/ready"],
        *["/api/users", f"/api/users/{user}", "/api/orders", f"/api/orders/{order}"],
    ]:
        do("GET", path)
    do("GET", "/v1/diff?from=2020-01-01&to=2020-01-02")
    do("DELETE", f"/api/users/{user}")
    do("POST", f"/api/users/{user}/restore")
    do("POST", "/v1/auth/token", {"grant_type": "api_key", "api_key": key}, client=anyone)
    made = do("POST", "/v1/api_keys", {"scopes": ["read:users"]})["id"]
    rolled = do("POST", f"/v1/api_keys/{made}/roll")["id"]
    do("GET", "/v1/api_keys")
    do("GET", f"/v1/api_keys/{rolled}")
    do("DELETE", f"/v1/api_keys/{rolled}")
    child = do("POST", "/v1/projects", EXAMPLES["bodies"]["CreateProject"])["id"]
    do("GET", "/v1/projects")
    do("GET", f"/v1/projects/{child}")
    do("PATCH", f"/v1/projects/{child}", {"name": "Harbours"})
    do("DELETE", f"/v1/projects/{child}")
    do("PATCH", "/v1/billing", {})
    resources = {"webhook_endpoints", "events", "requests", "log", "oauth"}
    shown_elsewhere = {
        op.name for resource in RESOURCES if resource.name in resources for op in resource.operations
    }
    shown_elsewhere |= {"authorize", "get_oauth_metadata"}
    assert documented.operations - documented.seen == shown_elsewhere


def test_a_statement_is_documented_as_csv_too(api: httpx.Client, reference: dict[str, Any]) -> None:
    account = api.post("/v1/accounts", json={"name": "Till", "currency": "EUR"}).json()["id"]
    answer = api.get(f"/v1/accounts/{account}/statement", headers={"Accept": "text/csv"})
    assert answer.headers["Content-Type"].startswith("text/csv")
    Documented(reference).check(answer)


class _Links(html.parser.HTMLParser):
    """Everything a page loads."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        for name, value in attributes:
            if name in ("src", "spec-url") or (tag == "link" and name == "href"):
                self.found.append(value or "")


def test_the_page_needs_nothing_but_this_server(anyone: httpx.Client) -> None:
    page = anyone.get("/docs")
    assert page.headers["Content-Type"] == "text/html; charset=utf-8"
    policy = page.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self';" in policy
    assert "http" not in policy
    links = _Links()
    links.feed(page.text)
    loaded = [link for link in links.found if not link.startswith("data:")]
    assert len(loaded) == 3
    for link in loaded:
        assert "//" not in link
        answer = anyone.get("/" + link)
        assert answer.status_code == 200
        assert answer.headers["X-Content-Type-Options"] == "nosniff"


def test_the_pages_script_is_the_same_with_and_without_compression(anyone: httpx.Client) -> None:
    plain = anyone.get(f"/docs/{SCRIPT}", headers={"Accept-Encoding": "identity"})
    assert "Content-Encoding" not in plain.headers
    with anyone.stream("GET", f"/docs/{SCRIPT}", headers={"Accept-Encoding": "gzip"}) as packed:
        assert packed.headers["Content-Encoding"] == "gzip"
        assert gzip.decompress(b"".join(packed.iter_raw())) == plain.content
    assert b"RapiDoc" in plain.content[:200]


def test_the_page_looks_at_no_credential_and_is_not_framed(anyone: httpx.Client) -> None:
    answer = anyone.get("/docs", headers={"Authorization": "Bearer nonsense"})
    assert answer.status_code == 200
    assert "frame-ancestors 'none'" in answer.headers["Content-Security-Policy"]
