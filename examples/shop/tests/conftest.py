"""Fixtures of a shop. Each test has an empty project, which is the fixture `ledger` of the plugin."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from wsgiref.simple_server import WSGIRequestHandler, make_server

import pytest

from ledger_engine.testing import Ledger as TestLedger
from shop.ledger import Ledger
from shop.shop import Shop
from shop.web import hooks


@pytest.fixture
def shop(ledger: TestLedger) -> Iterator[Shop]:
    client = Ledger(ledger.url, ledger.key)
    shop = Shop(client)
    shop.open()
    yield shop
    client.close()


class Quiet(WSGIRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def website(shop: Shop, ledger: TestLedger) -> Iterator[Shop]:
    """Return the shop. Its website runs, and the ledger sends webhooks to the website."""
    server = make_server("127.0.0.1", 0, hooks(shop), handler_class=Quiet)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    url = f"http://127.0.0.1:{server.server_port}/hooks"
    shop.secret = ledger.make("/v1/webhook_endpoints", url=url, events=["invoice.paid"])["secret"]
    yield shop
    server.shutdown()
    server.server_close()
    thread.join()
