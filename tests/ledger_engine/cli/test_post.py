"""`ledger-engine post --file`, on a real server: everything of a file is posted, and nothing of it twice.

Its commands are those of docs/commands.md.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from ledger_client.ledger import AsyncLedger
from ledger_engine.cli import main, post, posting
from ledger_engine.cli.posting import Batch, Posting, batches_of
from tests.faults.server import Server
from tests.ledger_engine.cli.conftest import only_line
from tests.locations import place_of_its_own

pytestmark = [pytest.mark.process, pytest.mark.sqlite]


@pytest.fixture(scope="module")
def server(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("posting")
    running = Server(place_of_its_own(kind, folder, "posting"), options=("--test-helpers",))
    running.start()
    yield running
    running.kill()


def run(server: Server, *words: str, status: int = 0) -> Result:
    done = CliRunner().invoke(main, [*words, "--database", str(server.database)])
    assert done.exit_code == status, (done.output, done.exception)
    return done


def account(server: Server, name: str, currency: str = "EUR") -> str:
    done = run(server, "api", "post", "/v1/accounts", f"name={name}", f"currency={currency}")
    return str(json.loads(done.stdout)["id"])


def balance(server: Server, id: str) -> int:
    return int(json.loads(run(server, "api", "get", f"/v1/accounts/{id}").stdout)["balance"])


def written(file: Path, *lines: str, head: str = "account,type,amount,description") -> Path:
    file.write_text("\n".join([head, *lines]) + "\n", encoding="utf-8")
    return file


def posted(server: Server, file: Path, *words: str, status: int = 0) -> dict[str, Any]:
    done = run(server, "post", "--file", str(file), "--json", *words, status=status)
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def test_a_file_is_posted_in_batches_by_names_and_ids_and_only_once(server: Server, tmp_path: Path) -> None:
    till, safe = account(server, "Corner till"), account(server, "Corner safe")
    lines = [f"corner TILL,credit,{number},,sale" for number in range(1, 1101)]
    head = "account,type,decimal_amount,destination,description"
    file = written(tmp_path / "sales.csv", *lines, f"{till},debit,0.5,Corner safe,to the safe", head=head)
    plan = run(server, "post", "--file", str(file), "--dry-run").stdout.splitlines()
    assert plan == [
        "1,101 transactions in 2 batches; nothing was posted.",
        "credit 60555000 EUR, in the smallest unit",
        "debit 50 EUR, in the smallest unit",
    ]
    assert balance(server, till) == 0
    done = run(server, "post", "--file", str(file))
    assert (done.stdout, done.stderr) == ("Posted 1,101 transactions.\n", "")
    assert (balance(server, till), balance(server, safe)) == (60554950, 50)
    again = run(server, "post", "--file", str(file)).stdout
    assert again.startswith(
        "Posted nothing: 1,101 of the file were posted before. To post an equal file again"
    )
    assert posted(server, file) == {"ok": True, "posted": 0, "posted_before": 1101, "transactions": 1101}
    assert balance(server, safe) == 50
    assert posted(server, file, "--once", "the second week")["posted"] == 1101
    assert posted(server, file, "--once", "the second week")["posted"] == 0
    assert balance(server, safe) == 100


def test_equal_batches_of_one_file_are_all_posted(server: Server, tmp_path: Path) -> None:
    till = account(server, "Equal till")
    lines = [json.dumps({"account": till, "type": "credit", "amount": 1})] * 2000
    file = tmp_path / "equal.jsonl"
    file.write_text("\n".join(lines), encoding="utf-8")
    assert posted(server, file)["posted"] == 2000
    assert balance(server, till) == 2000


def test_every_fault_of_the_file_and_of_its_accounts_is_printed_and_nothing_posted(
    server: Server, tmp_path: Path
) -> None:
    till = account(server, "Faulty till")
    yen = account(server, "Faulty yen", "JPY")
    for _ in range(2):
        account(server, "Faulty twin")
    head = "account,type,amount,decimal_amount,destination,currency"
    nobody = "acc_00000000000000000000000099"
    file = written(
        tmp_path / "faults.csv",
        f"{till},credit,1,,,eur",
        f"{nobody},credit,1,,,",
        "Faulty twin,credit,1,,,",
        f"{till},credit,1.50,,,",
        f"{till},credit,1,,,USD",
        f"{till},credit,,1.005,,",
        f"{till},credit,1,,Nobody,",
        f"{till},credit,1,,{yen},",
        f"{till},credit,1,,{till},",
        head=head,
    )
    faults = [
        f"Line 3: There is no account “{nobody}”.",
        "Line 4: 2 accounts are called “Faulty twin”; give the id.",
        "Line 5: “1.50” is not a whole number of the smallest unit. An amount like 12.50 belongs in the"
        " column decimal_amount.",
        "Line 6: The currency is USD, but Faulty till is in EUR.",
        "Line 7: “1.005” is too exact: EUR has 2 decimals.",
        "Line 8: There is no account “Nobody”.",
        "Line 9: Faulty till is in EUR, but Faulty yen in JPY.",
        "Line 10: The destination must be another account.",
    ]
    for words in ((), ("--dry-run",)):
        done = run(server, "post", "--file", str(file), *words, status=1)
        expected = [*faults, "8 faults; nothing was posted."]
        assert done.stderr.splitlines() == [f"ledger-engine: {line}" for line in expected]
        assert done.stdout == ""
    answer = posted(server, file, status=1)
    assert answer["ok"] is False
    assert [f"Line {fault['line']}: {fault['message']}" for fault in answer["faults"]] == faults
    assert balance(server, till) == 0
    empty = written(tmp_path / "empty.csv")
    assert "The file has no transactions." in run(server, "post", "--file", str(empty), status=1).stderr


def test_a_refused_line_is_named_and_after_its_correction_the_rest_is_posted(
    server: Server, tmp_path: Path
) -> None:
    till = account(server, "Full till")
    lines = [f"{till},credit,1,sale {number}" for number in range(1001)]
    too_much = f"{till},credit,9007199254740991,"
    file = written(tmp_path / "full.csv", *lines, too_much)
    done = run(server, "post", "--file", str(file), status=1)
    line = only_line(done.stderr)
    assert line.startswith("ledger-engine: Line 1003: 400 balance_out_of_range: ")
    assert line.endswith("Nothing of the batch is posted. 1,000 of 1,002 transactions are posted.")
    answer = posted(server, file, status=1)
    assert answer == {"ok": False, "posted": 0, "posted_before": 1000, "transactions": 1002}
    written(file, *lines, too_much.replace("9007199254740991", "5"))
    done = run(server, "post", "--file", str(file))
    assert done.stdout == "Posted 2 transactions; 1,000 of the file were posted before.\n"
    assert balance(server, till) == 1006


def test_a_file_whose_server_was_killed_between_two_batches_is_posted_by_the_same_command(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = Server(place_of_its_own(kind, tmp_path, "killed"))
    server.start()
    send = posting.post_batch

    async def send_then_die(ledger: AsyncLedger, batch: Batch) -> bool:
        is_new = await send(ledger, batch)
        server.kill()
        return is_new

    try:
        till = account(server, "Till")
        file = written(tmp_path / "sales.csv", *[f"Till,credit,1,sale {number}" for number in range(2500)])
        with monkeypatch.context() as dying:
            dying.setattr(post, "ATTEMPTS", 1)
            dying.setattr(posting, "post_batch", send_then_die)
            line = only_line(run(server, "post", "--file", str(file), status=1).stderr)
        assert "cannot be reached: " in line
        assert line.endswith("nothing is posted twice. 1,000 of 2,500 transactions are posted.")
        server.start()
        answer = posted(server, file)
        assert answer == {"ok": True, "posted": 1500, "posted_before": 1000, "transactions": 2500}
        assert balance(server, till) == 2500
    finally:
        server.kill()


def test_a_batch_whose_answer_is_lost_is_sent_again_with_the_same_key(server: Server, tmp_path: Path) -> None:
    till = account(server, "Cut till")
    fault = {"match": {"path": "/v1/transactions/batch"}, "action": {"cut": "after_commit"}, "times": 1}
    run(server, "api", "post", "/v1/test_helpers/faults", "-d", json.dumps(fault))
    file = written(tmp_path / "cut.csv", *[f"{till},credit,1,sale {number}" for number in range(1500)])
    answer = posted(server, file)
    assert answer == {"ok": True, "posted": 500, "posted_before": 1000, "transactions": 1500}
    assert balance(server, till) == 1500


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ((), "Give ACCOUNT AMOUNT credit|debit, or --file FILE."),
        (("acc_1", "5"), "Give ACCOUNT AMOUNT credit|debit, or --file FILE."),
        (("acc_1", "5", "credit", "--dry-run"), "--dry-run needs --file."),
        (("acc_1", "5", "credit", "--file", "sales.csv"), "leave out ACCOUNT, AMOUNT"),
        (("--file", "sales.csv", "--description", "x"), "leave out ACCOUNT, AMOUNT"),
        (("--file", "sales.txt"), "The name must end in .csv or .jsonl."),
        (("--file", "none.csv"), "'none.csv' does not exist."),
    ],
)
def test_a_wrong_call_is_refused(
    words: Sequence[str], reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("sales.csv", "sales.txt"):
        written(tmp_path / name)
    done = CliRunner().invoke(main, ["post", *words, "--url", "http://127.0.0.1:9", "--key", "sk_test_x"])
    assert done.exit_code == 2
    assert reason in only_line(done.stderr)


def test_a_batch_has_at_most_as_many_rows_and_bytes_as_a_request_may() -> None:
    small = Posting(1, {"account": "acc_1", "type": "credit", "amount": 1}, "EUR")
    batches = batches_of([small] * (posting.BATCH_ROWS_MAX + 1))
    assert [len(batch.postings) for batch in batches] == [posting.BATCH_ROWS_MAX, 1]
    large = Posting(1, {**small.body, "description": "ä" * 200_000}, "EUR")  # 400,000 bytes
    assert [len(batch.postings) for batch in batches_of([large] * 5)] == [2, 2, 1]


def test_the_key_of_a_batch_depends_on_its_content_its_number_and_the_name_alone() -> None:
    def keys(*amounts: int, name: str | None = None, line: int = 1) -> list[str]:
        bodies = [{"account": "acc_1", "type": "credit", "amount": amount} for amount in amounts]
        return [batch.key for batch in batches_of([Posting(line, body, "EUR") for body in bodies], name)]

    first = keys(*[1] * 2000)
    assert len({*first}) == 2
    assert keys(*[1] * 2000, line=7) == first
    assert keys(*[1] * 1999, 2)[0] == first[0]
    assert keys(*[1] * 1999, 2)[1] != first[1]
    assert not {*first} & {*keys(*[1] * 2000, name="May")}
