"""`ledger-engine api` and `trigger`."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator

import pytest
from click.testing import CliRunner, Result, _NamedTextIOWrapper

from ledger_engine.cli import asking, main
from ledger_engine.events.outbox import KINDS
from tests.faults.server import Server
from tests.ledger_engine.cli.conftest import only_line
from tests.locations import place_of_its_own

pytestmark = [pytest.mark.process, pytest.mark.sqlite]


@pytest.fixture(scope="module")
def server(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    running = Server(place_of_its_own(kind, tmp_path_factory.mktemp("asking"), "asking"))
    running.start()
    yield running
    running.kill()


def ask(server: Server, *words: str, status: int = 0) -> Result:
    done = CliRunner().invoke(main, [*words, "--database", str(server.database)])
    assert done.exit_code == status, (done.output, done.exception)
    return done


def test_fields_are_a_body_with_its_types_or_a_query(server: Server) -> None:
    names = ("name=Till 1", "currency=eur", 'metadata={"desk": "7"}')
    account = json.loads(ask(server, "api", "post", "/v1/accounts", *names).stdout)
    assert (account["name"], account["metadata"]) == ("Till 1", {"desk": "7"})
    body = json.dumps({"account": account["id"], "amount": 1250, "type": "credit"})
    posted = json.loads(ask(server, "api", "POST", "/v1/transactions", "-d", body).stdout)
    fields = (f"account={account['id']}", "amount=250", "type=debit", "description=null")
    assert json.loads(ask(server, "api", "POST", "/v1/transactions", *fields).stdout)["amount"] == 250
    query = (f"account={account['id']}", "type=credit")
    assert json.loads(ask(server, "api", "get", "/v1/transactions", *query).stdout)["data"] == [posted]
    keys = server.cli("keys", "list", "--all")
    assert {(each["name"], each["revoked_at"] is None) for each in keys if each["name"] == "api"} == {
        ("api", False)
    }


def test_a_transaction_is_posted_and_with_a_key_only_once(server: Server) -> None:
    names = ("name=Till", "currency=EUR")
    till = json.loads(ask(server, "api", "post", "/v1/accounts", *names).stdout)["id"]
    words = ("post", till, "1250", "credit", "--description", "Beans", "--once", "sale-7")
    first = ask(server, *words).stdout
    assert first.endswith(" balance 1250\n")
    assert ask(server, *words).stdout == first
    assert json.loads(ask(server, *words, "--json").stdout)["description"] == "Beans"
    other = ask(server, "post", till, "1", "debit", "--once", "sale-7", status=1)
    assert "409 duplicate_idempotency_key (Idempotency-Key): " in only_line(other.stderr)
    assert ask(server, "post", till, "1", "debit").stdout.endswith(" balance 1249\n")
    assert "1–9007199254740991" in ask(server, "post", till, "0", "debit", status=2).stderr


def test_an_answer_that_is_not_json_is_printed_as_it_is(server: Server) -> None:
    assert ask(server, "api", "get", "/docs").stdout.startswith("<!")


def test_a_refusal_of_the_server_is_one_line_with_the_code_and_the_field(server: Server) -> None:
    done = ask(server, "api", "post", "/v1/accounts", "name=Till", status=1)
    assert only_line(done.stderr) == "ledger-engine: 400 missing_field (currency): currency is required."
    done = ask(server, "api", "get", "/api/users/usr_x", status=1)
    assert only_line(done.stderr) == "ledger-engine: 404 not_found: No such user: 'usr_x'."
    done = ask(server, "api", "get", "/v1/accounts", "--key", "sk_test_none", status=1)
    assert only_line(done.stderr).startswith("ledger-engine: 401 invalid_credential: ")
    assert "without a key, the command makes one for itself" in done.stderr


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("get", "v1/accounts"), "'v1/accounts' is not a path like /v1/accounts."),
        (("post", "/v1/accounts", "name"), "'name' is not like NAME=VALUE."),
        (("post", "/v1/accounts", "a=b", "-d", "{}"), "Give --data or NAME=VALUE, not both."),
        (("get", "/", "--url", "http://127.0.0.1:9"), "--url needs --key or LEDGER_API_KEY."),
    ],
)
def test_a_wrong_call_is_refused(
    server: Server, words: tuple[str, ...], reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LEDGER_API_KEY", raising=False)
    assert only_line(ask(server, "api", *words, status=2).stderr) == f"ledger-engine: {reason}"


def test_a_negative_amount_is_named_and_no_option() -> None:
    words = ("post", "acc_1", "-5", "credit", "--url", "http://127.0.0.1:9", "--key", "sk_test_x")
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 2
    assert only_line(done.stderr) == (
        "ledger-engine: AMOUNT must be positive. To take an amount from the account, use `debit`."
    )
    assert "No such option" in CliRunner().invoke(main, ("post", "acc_1", "5", "credit", "-x")).stderr


def test_a_server_that_is_not_there_is_named(server: Server) -> None:
    words = ("api", "get", "/api/health", "--url", "http://127.0.0.1:9", "--key", "sk_test_x")
    done = ask(server, *words, status=1)
    assert only_line(done.stderr).startswith("ledger-engine: http://127.0.0.1:9 cannot be reached: ")


@pytest.mark.parametrize("words", [("api", "get", "/v1/accounts"), ("post", "acc_1", "5", "credit")])
def test_a_silent_server_is_waited_for_with_a_notice_and_not_for_long(
    words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert asking.ANSWER_SECONDS_MAX <= 60
    monkeypatch.setattr(asking, "ANSWER_SECONDS_MAX", 0.5)
    monkeypatch.setattr(asking, "NOTICE_AFTER_S", 0)
    for is_terminal in (True, False):
        monkeypatch.setattr(_NamedTextIOWrapper, "isatty", lambda self, shown=is_terminal: shown, False)
        with socket.create_server(("127.0.0.1", 0)) as silent:
            url = f"http://127.0.0.1:{silent.getsockname()[1]}"
            done = CliRunner().invoke(main, (*words, "--url", url, "--key", "sk_test_x"))
        assert done.exit_code == 1
        notice = f"Waiting for {url} to answer, 0 s at most …\n" if is_terminal else ""
        assert done.stderr == (
            f"{notice}ledger-engine: {url} cannot be reached: the answer took more than 0 seconds.\n"
        )


@pytest.mark.parametrize("type", KINDS)
def test_each_type_of_event_can_be_triggered(server: Server, type: str) -> None:
    made = json.loads(ask(server, "trigger", type, "--json").stdout)
    assert list(made)[-1] == type
    newest = server.cli("events", "list", "--limit", "10")
    event = next(each for each in newest if each["type"] == type)
    assert event["data"]["object"]["id"] == made[type]["id"]
    assert event["livemode"] is False


def test_trigger_prints_a_line_for_each_event_and_takes_no_live_key(server: Server) -> None:
    lines = ask(server, "trigger", "invoice.paid").stdout.splitlines()
    kinds = ["account.created", "invoice.created", "invoice.opened", "invoice.paid"]
    assert [line.split()[0] for line in lines] == kinds
    for words in (("--mode", "live"), ("--key", "sk_live_x")):
        done = ask(server, "trigger", "user.created", *words, status=2)
        assert "it needs a key that begins with sk_test_" in only_line(done.stderr)
