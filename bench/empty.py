"""An application whose only handler has an empty answer: `app` is a Quart one, for any ASGI server."""

from __future__ import annotations

from quart import Quart

app = Quart("empty")


@app.post("/v1/transactions")
async def answer() -> str:
    return ""
