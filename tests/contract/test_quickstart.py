"""The examples of docs/quickstart.md do what they say."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import httpx
import pytest

PAGE = Path(__file__).parents[2] / "docs" / "quickstart.md"


def example(language: str, api: httpx.Client) -> str:
    """Return the last block of a language, for the server of the test."""
    blocks = re.findall(rf"(?s)```{language}\n(.*?)```", PAGE.read_text(encoding="utf-8"))
    return str(blocks[-1]).replace("http://127.0.0.1:8700", str(api.base_url).rstrip("/"))


def environment(api: httpx.Client) -> dict[str, str]:
    key = api.headers["Authorization"].removeprefix("Bearer ")
    return {**os.environ, "LEDGER_API_KEY": key, "NO_PROXY": "*"}


def assert_posted_once(api: httpx.Client, output: str) -> None:
    (posted,) = api.get("/v1/transactions").json()["data"]
    assert posted["amount"] == 1250
    assert f"{posted['created']} 1250 1250" in output
    assert "currency is required." in output


def test_the_python_example_posts_once_and_shows_it(
    api: httpx.Client, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in environment(api).items():
        monkeypatch.setenv(name, value)
    names: dict[str, httpx.Client] = {}
    exec(example("python", api), names)
    names["api"].close()
    assert_posted_once(api, capsys.readouterr().out)


@pytest.mark.skipif(
    shutil.which("node") is None, reason="needs node; on Debian and Ubuntu: apt install nodejs"
)
def test_the_javascript_example_posts_once_and_shows_it(api: httpx.Client) -> None:
    ran = subprocess.run(
        ["node", "--input-type=module", "-"],
        input=example("javascript", api),
        env=environment(api),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ran.returncode == 0, ran.stderr
    assert_posted_once(api, ran.stdout)


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_the_curl_example_posts_and_reads_pages(api: httpx.Client) -> None:
    account = api.post("/v1/accounts", json={"name": "Till", "currency": "EUR"}).json()["id"]
    body = {"account": account, "amount": 1, "type": "credit"}
    first = api.post("/v1/transactions", json=body).json()["id"]
    script = example("sh", api).replace("acc_…", account).replace("txn_…", first)
    ran = subprocess.run(
        ["sh", "-c", script], env=environment(api), capture_output=True, text=True, timeout=120
    )
    assert ran.returncode == 0, ran.stderr
    made, posted, page, rest, refused = ran.stdout.splitlines()
    assert '"object":"account"' in made
    assert '"balance_after":1251' in posted
    assert page.count('"object":"transaction"') == 2
    assert '"data":[]' in rest
    assert '"missing_field"' in refused
    assert '"param":"currency"' in refused
