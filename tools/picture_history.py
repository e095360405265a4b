"""The content of the picture of a trace: a paid invoice, and a webhook receiver that fails at first."""

from __future__ import annotations

import json
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

PATIENCE_SECONDS = 60.0


class _Receiver(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        fails = self.path == "/stock" and self.headers["Ledger-Attempt"] == "1"
        self.send_response(503 if fails else 200)
        self.end_headers()
        self.wfile.write(b'{"error": "restarting"}' if fails else b'{"thanks": true}')

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def paid_invoice(url: str, key: str) -> Iterator[None]:
    """Pay an invoice, and wait until the ledger has delivered its events to both receivers.

    The receiver `/stock` fails at the first attempt and succeeds at the second.
    """

    def call(method: str, path: str, body: object = None) -> Any:
        headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        content = None if body is None else json.dumps(body).encode()
        with urllib.request.urlopen(
            urllib.request.Request(url + path, content, headers, method=method)
        ) as answer:
            return json.load(answer)

    with ThreadingHTTPServer(("127.0.0.1", 0), _Receiver) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        receiver = f"http://127.0.0.1:{server.server_address[1]}"
        account = call("GET", "/v1/accounts")["data"][-1]["id"]
        lines = [{"description": "Espresso, kg", "quantity": 11, "unit_amount": 2200}]
        invoice = call(
            "POST", "/v1/invoices", {"account": account, "customer": "Kaffeehaus Sonne", "lines": lines}
        )
        path = f"/v1/invoices/{invoice['id']}"
        call("POST", f"{path}/finalize")
        endpoints = [
            call("POST", "/v1/webhook_endpoints", {"url": f"{receiver}/books"}),
            call("POST", "/v1/webhook_endpoints", {"url": f"{receiver}/stock", "events": ["invoice.paid"]}),
        ]
        call("POST", f"{path}/pay")
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            lists = [
                call("GET", f"/v1/webhook_endpoints/{each['id']}/deliveries")["data"] for each in endpoints
            ]
            if all(found and all(one["status"] == "succeeded" for one in found) for found in lists):
                break
            if time.monotonic() > deadline:
                raise SystemExit("the webhooks of the picture were never delivered")
            time.sleep(0.2)
        yield
        server.shutdown()
