"""`app` is a Quart application whose only handler returns an empty answer. Any ASGI server can run it."""

from __future__ import annotations

from quart import Quart

app = Quart("empty")


@app.post("/v1/transactions")
async def answer() -> str:
    return ""
