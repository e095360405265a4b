"""A web page of another origin, in a real browser (docs/deploy.md#let-web-pages-use-the-server)."""

from __future__ import annotations

from typing import Any

from tests.contract.rules import holds
from tests.ledger_engine.access.oauth.serving import Serving

POST = """
const [url, key, done] = arguments;
fetch(`${url}/v1/accounts`, {
    method: "POST",
    headers: {
        "Authorization": `Bearer ${key}`, "Content-Type": "application/json",
        "Idempotency-Key": key.slice(-9),
    },
    body: JSON.stringify({name: "Till", currency: "EUR"}),
}).then(async answer => done([
    answer.status, (await answer.json()).object,
    answer.headers.get("X-RateLimit-Limit"), answer.headers.get("Date"),
])).catch(error => done([String(error)]));
"""


@holds("conventions-cors")
def test_a_page_of_the_named_origin_posts_and_reads_the_rate_and_another_cannot(
    chromium: Any, serving: Serving, shop: int
) -> None:
    key = serving.cli("keys", "create", "--mode", "test")["key"]
    chromium.get(f"http://127.0.0.1:{shop}/")
    status, made, limit, hidden = chromium.execute_async_script(POST, serving.url, key)
    assert (status, made, limit, hidden) == (201, "account", "6000", None)
    chromium.get(f"http://localhost:{shop}/")
    [failure] = chromium.execute_async_script(POST, serving.url, key)
    assert "Failed to fetch" in failure
