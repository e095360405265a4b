"""Sends requests to the reader of HTTP; what is changed at random is kept where it reaches new code.

A program of its own, as libFuzzer ends the process that it runs in: `python -m tests.trust.chosen_requests
-runs=N -seed=N FOLDER`, with the first requests in FOLDER. What is sent in one piece must be answered alike
in several, and each head be read as h11 reads it. With `--broken` the reader has a fault, to be found.
"""

from __future__ import annotations

import asyncio
import logging
import sys

BROKEN = "--broken"
ANSWERED_IN_S = 10


class Faults(logging.Handler):
    """Keeps what was raised while a request was answered, which is logged and goes no further."""

    def __init__(self) -> None:
        super().__init__()
        self.raised: list[BaseException] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and record.exc_info[1] is not None:
            self.raised.append(record.exc_info[1])


def main() -> None:
    """Send until the number of requests is reached, or one is answered wrongly."""
    import atheris
    import h11._headers

    with atheris.instrument_imports(include=["ledger_engine.http.wire"]):
        from ledger_engine.http.wire import http1
    from tests.ledger_engine.http.wire.test_head import is_read_alike
    from tests.ledger_engine.http.wire.test_splits import STATUS, answers, in_pieces_of

    h11._headers.CONTENT_LENGTH_MAX_DIGITS = 4300
    loop, read_head, faults = asyncio.new_event_loop(), http1.read_head, Faults()
    logging.getLogger("ledger_engine.http").addHandler(faults)

    async def answered(pieces: list[bytes]) -> bytes:
        try:
            async with asyncio.timeout(ANSWERED_IN_S):
                return (await answers(pieces)).replace(http1.CONTINUE, b"")  # depends on when the body comes
        finally:
            for fault in faults.raised:
                raise AssertionError(f"an answer was cut off: {fault!r}") from fault

    def look(data: bytes) -> None:
        """Send what follows the first byte, in one piece, and in pieces as long as that byte says."""
        size, sent = 1 + (data[0] if data else 0), data[1:]
        whole = loop.run_until_complete(answered([sent]))
        assert {int(status) for status in STATUS.findall(whole)} <= {200, 400}, whole
        assert loop.run_until_complete(answered(in_pieces_of(sent, size))) == whole, size
        ends = [place + len(mark) for mark in (b"\n\r\n", b"\n\n") if (place := sent.find(mark)) >= 0]
        if ends and sent[0] > 32:
            is_read_alike(sent[: min(ends)])

    def fail_at_one(text: bytes) -> http1.Head:
        """Read a head, and fail at one that says its length twice."""
        head = read_head(text)
        if text.count(b"ontent-Length:") > 1:
            raise ArithmeticError("two lengths")
        return head

    if BROKEN in sys.argv:
        sys.argv.remove(BROKEN)
        http1.read_head = fail_at_one
    atheris.Setup(sys.argv, look)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
