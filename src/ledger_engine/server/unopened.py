"""Refuses requests until the ledger is open.

The lifespan events of the ASGI server open the ledger. If the ASGI server sends none, the ledger never opens.
"""

from __future__ import annotations

import logging
from typing import Any

from ledger_engine.core import logs
from ledger_engine.core.errors import StorageUnavailable
from ledger_engine.core.settings import ServeSettings
from ledger_engine.http.errors import render
from ledger_engine.http.gate.reply import Reply
from ledger_engine.http.wire.asgi import Asgi, Receive, Send

NOT_OPENED = "this ASGI server does not send the lifespan events that open the ledger"

log = logging.getLogger("ledger_engine.server")


class Unopened:
    """An ASGI application that passes lifespan events to `app`, and refuses each request with a 503.

    At the first request it also logs an error that says how to open the ledger.
    """

    def __init__(self, app: Asgi, settings: ServeSettings) -> None:
        self._app = app
        self._settings = settings
        self._has_logged = False

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if not self._has_logged:
            self._has_logged = True
            logs.configure(self._settings.log_format, self._settings.log_level)
            log.error("%s: turn them on, or run `ledger-engine serve`", NOT_OPENED)
        reply = Reply(send, [], refuses=False)
        await reply.answer(*render(StorageUnavailable(NOT_OPENED), scope["path"]))
