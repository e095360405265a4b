"""The transparency log of a server: whoever has an entry proves it with a program that knows no ledger."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.contract.conftest import Cli, Project, Server
from tests.house.pages import blocks
from tests.ledger_engine.waiting import wait_until

CHECK = Path(__file__).parents[2] / "examples" / "check_proof.py"


def test_a_transaction_is_proven_from_the_log_and_another_one_is_not(
    project: Project, cli: Cli, tmp_path: Path
) -> None:
    api = project.api
    account = api.post("/v1/accounts", json={"name": "Till", "currency": "EUR"}).json()["id"]
    posting = {"account": account, "amount": 5, "type": "credit"}
    posted = api.post("/v1/transactions", json=posting).json()["id"]
    wait_until(lambda: api.get(f"/v1/transactions/{posted}/proof").status_code == 200)
    proof = api.get(f"/v1/transactions/{posted}/proof").text
    [event] = api.get("/v1/events", params={"object": posted}).json()["data"]
    assert api.get(f"/v1/events/{event['id']}/proof").text.split("\n")[1] == proof.split("\n")[1]
    size = int(api.get("/v1/log/checkpoint").text.split("\n")[1])
    index = int(proof.split("\n")[1].removeprefix("index "))
    width = min(256, size - index // 256 * 256)
    bundle = api.get(
        f"/v1/log/tile/entries/{index // 256:03}" + (f".p/{width}" if width < 256 else "")
    ).content
    entries = []
    while bundle:
        end = 2 + int.from_bytes(bundle[:2], "big")
        entries.append(bundle[2:end])
        bundle = bundle[end:]
    (tmp_path / "proof").write_text(proof, encoding="utf-8")
    [key] = cli("log-key", "show", "--project", project.id)
    results = []
    for number in (index % 256, index % 256 - 1):
        (tmp_path / "entry").write_bytes(entries[number])
        words = [CHECK, tmp_path / "proof", tmp_path / "entry", key["key"]]
        results.append(subprocess.run([sys.executable, *words], capture_output=True, text=True))
    assert [done.returncode for done in results] == [0, 1], results
    assert results[1].stderr == "not proven: the entry is not in the log\n"


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_each_event_is_proven_by_the_page_from_the_list_of_events_alone(
    server: Server, project: Project, cli: Cli, tmp_path: Path
) -> None:
    api = project.api
    account = api.post("/v1/accounts", json={"name": "Käse \U0001f9c0\x7f\u2028", "currency": "EUR"}).json()[
        "id"
    ]
    api.post(
        "/v1/transactions", json={"account": account, "amount": 5, "type": "credit", "description": 'é/"'}
    )
    user = api.post("/api/users", json={"name": "Zoë", "email": "zoe@example.com"}).json()["id"]
    items = [
        {"name": "Öl", "quantity": 2, "unit_amount": 150, "size": 1.50, "huge": 1e300, "n": [None, True]}
    ]
    api.post("/api/orders", json={"user_id": user, "items": items})
    events = api.get("/v1/events").json()["data"]
    wait_until(lambda: api.get(f"/v1/events/{events[0]['id']}/proof").status_code == 200)
    [key] = cli("log-key", "show", "--project", project.id)
    (tmp_path / "ledger.vkey").write_text(key["key"])
    page = CHECK.parents[1] / "docs" / "verify.md"
    (block,) = (each.text for each in blocks(page) if "$EVENT" in each.text)
    assert {event["type"] for event in events} > {"user.created", "transaction.created", "order.created"}
    for event in events:
        variables = {"LEDGER_URL": server.url, "LEDGER_API_KEY": project.key, "EVENT": event["id"]}
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        proven = subprocess.run(
            ["bash", "-c", block],
            cwd=tmp_path,
            env=os.environ | variables | {"PATH": path},
            capture_output=True,
            text=True,
        )
        assert proven.stdout.startswith("Proven: entry "), (event, proven)
