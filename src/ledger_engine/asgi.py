"""The server as an ASGI application, `ledger_engine.asgi:app` (docs/deploy.md#another-asgi-server)."""

from __future__ import annotations

from ledger_engine.cli.announcing import announcer
from ledger_engine.cli.serve import settings_from_environment
from ledger_engine.server import application

_settings = settings_from_environment()
app = application(_settings, announcer(_settings))
