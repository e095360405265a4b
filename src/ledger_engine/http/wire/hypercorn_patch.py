"""What is changed in Hypercorn from outside, because it has no setting for it: the worker.

Written for Hypercorn 0.18.0. `SOURCES` are the modules that our worker depends on: a test compares them with
the version installed, and fails when one has changed underneath.
"""

from __future__ import annotations

import hypercorn.asyncio
from hypercorn.config import Config

from ledger_engine.http.wire.serving import worker_serve

# SHA-256 of each module's source.
SOURCES = {
    "hypercorn.app_wrappers": "73b5284c2188169234c8bb0251638e03ada96e4e24ecf9732c0053d038689aa4",
    "hypercorn.asyncio": "17a5ced0d841194b19f67d56d40c361c7223270619e9075dfef70bf7efdaa850",
    "hypercorn.asyncio.lifespan": "3598275bc5f05de01eccafee23bf37d71370da1a71070145c65a7fca0143aa5d",
    "hypercorn.asyncio.run": "bf2ccecd84affc35ec69c243248347a5b50bf61ba44247e2a83e13517874456f",
    "hypercorn.config": "a10e8c834fefe6bcaa65156ee33ec02773b90c6f8b3de3bca4ef589ff57e3af3",
}


def make_strict(config: Config) -> None:
    """Have Hypercorn serve HTTP/1.1 alone, on connections of our own (`Http1`)."""
    config.alpn_protocols = ["http/1.1"]
    vars(hypercorn.asyncio)["worker_serve"] = worker_serve
