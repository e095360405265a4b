"""Routes of the transparency log: its checkpoint, its tiles, and proofs; the forms are C2SP's."""

from __future__ import annotations

from ledger_engine.core.errors import NotFound
from ledger_engine.http.errors import Rendered
from ledger_engine.http.operations import Call, Routes
from ledger_engine.log import stored, tiles

routes = Routes("log", "/v1")

_TEXT = (b"content-type", b"text/plain; charset=utf-8")
_BYTES = (b"content-type", b"application/octet-stream")
_CHANGING = (b"cache-control", b"no-store")
_UNCHANGING = (b"cache-control", b"private, max-age=31536000, immutable")


@routes.add("GET", "/log/checkpoint", needs="read:projects", also_as=("text/plain",), of_log=True)
async def get_checkpoint(call: Call) -> Rendered:
    """Get the last checkpoint of the log, with the signatures of witnesses that are there."""
    note = await call.read(stored.checkpoint_note)
    return 200, [_TEXT, _CHANGING], note.encode()


@routes.add("GET", "/log/tile/<path:tile>", needs="read:projects", also_as=("application/octet-stream",))
async def get_tile(call: Call, tile: str) -> Rendered:
    """Get a tile of hashes, or a bundle of entries."""
    wanted = tiles.parse(tile)
    if wanted is None:
        raise NotFound("tile", tile)
    return 200, [_BYTES, _UNCHANGING], await call.read(stored.tile_content, wanted)


@routes.add("GET", "/events/<id>/proof", needs="read:projects", also_as=("text/plain",), of_log=True)
async def get_event_proof(call: Call, id: str) -> Rendered:
    """Get the proof that an event is in the log."""
    proof = await call.read(stored.proof_of_event, id)
    return 200, [_TEXT, _CHANGING], proof.encode()


@routes.add("GET", "/transactions/<id>/proof", needs="read:projects", also_as=("text/plain",), of_log=True)
async def get_transaction_proof(call: Call, id: str) -> Rendered:
    """Get the proof that the event of a transaction is in the log."""
    proof = await call.read(stored.proof_of_transaction, id)
    return 200, [_TEXT, _CHANGING], proof.encode()
