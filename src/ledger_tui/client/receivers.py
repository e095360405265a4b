"""The receivers of the demo's webhooks, of which one fails until it is repaired."""

from __future__ import annotations

from urllib.parse import quote

from ledger_tui.client.api import Api
from ledger_tui.client.errors import ClientError
from ledger_tui.client.transport import make_client, transport_errors


async def repair(api: Api, endpoint: str) -> str:
    """Tell the receiver behind a webhook endpoint to answer well from now on; return its URL.

    The request has no credential: it goes to the receiver and not to the ledger. Raises ClientError.
    """
    from ledger_client.answers import SMALL_BYTES_MAX

    path = f"/v1/webhook_endpoints/{quote(endpoint, safe='')}"
    url = str((await api.read(path, part="webhook_endpoints")).record.get("url"))
    with transport_errors():
        async with make_client(bytes_max=SMALL_BYTES_MAX, trust_env=False) as client:
            answer = await client.post(f"{url}/repair", content=b"")
    if not answer.is_success:
        raise ClientError(f"{url} cannot be repaired from here")
    return url
