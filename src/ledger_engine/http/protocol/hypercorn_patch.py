"""Changes to Hypercorn and h11 from outside, for what neither has a setting for.

Written for Hypercorn 0.18.0 and h11 0.16.0. `SOURCES` are the modules that our subclasses and the names below
depend on: a test compares them with the installed versions, and fails when one has changed.
"""

from __future__ import annotations

import re

import h11
import hypercorn.asyncio.run
import hypercorn.protocol
from hypercorn.config import Config

from ledger_engine.http.protocol.http1 import HEAD_MAX, Http1
from ledger_engine.http.protocol.tcp import TcpConnection

# SHA-256 of each module's source.
SOURCES = {
    "h11._connection": "93d61155fea4a19a9bb6d056dfac5259a26959d6706bec50554f401c4a3d0ee2",
    "h11._headers": "3fb0fe9413711f074b64f2e29a6630acf1bef59923125bef25925d6408123fee",
    "h11._readers": "6b8472a4e454082dddd2afe4c4fb8120cee34c3f222ede57f754c7d05b1db8de",
    "hypercorn.asyncio.run": "bf2ccecd84affc35ec69c243248347a5b50bf61ba44247e2a83e13517874456f",
    "hypercorn.asyncio.tcp_server": "a1919b81b107506829ca9d13f2a10df31da21cc86e83e3fc49a94f902d1b4fa4",
    "hypercorn.protocol": "c34f9d102bb597417f113a144fa529a5053b4e103ea3cdc0d993608f7dc1dc1c",
    "hypercorn.protocol.h11": "5d2cfe635578adc65941fd5dc7b35ad1d89a61a9beff3e97742dd94f359ee9e0",
    "hypercorn.protocol.http_stream": "b28bb59de67f2f2813642846cc089fc52bf771f2270f813d039456ba4fe34f7f",
}
# A chunk's first line; h11 accepts a lone CR, where the line ends for some readers (RFC 9112, 7.1.1).
_CHUNK_HEADER = re.compile(rb"(?P<chunk_size>[0-9A-Fa-f]{1,20})(?P<chunk_ext>[ \t]*;[^\r\n]*)?[ \t]*\r\n")
_DIGITS_MAX = 4300  # digits of a Content-Length: the most that Python reads; h11 reads 20


def make_strict(config: Config) -> None:
    """Make Hypercorn serve only HTTP/1.1, with `Http1` and `TcpConnection` in place of its own classes."""
    config.h11_max_incomplete_size = HEAD_MAX
    config.alpn_protocols = ["http/1.1"]
    # A body is read when the application asks for it (`Arrival`). A limit of this queue would only keep the
    # last message, that the client has disconnected, from an application that reads nothing.
    config.max_app_queue_size = 0
    vars(h11._readers)["chunk_header_re"] = _CHUNK_HEADER
    vars(h11._headers)["CONTENT_LENGTH_MAX_DIGITS"] = _DIGITS_MAX
    vars(hypercorn.protocol)["H11Protocol"] = Http1
    vars(hypercorn.asyncio.run)["TCPServer"] = TcpConnection
