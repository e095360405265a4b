"""The `traceparent` header of a request (W3C Trace Context; docs/monitoring.md#opentelemetry)."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ledger_engine.http.wire.asgi import Header

NAME = b"traceparent"
# The parts of a value: the version, the ids of trace and parent, the flags, and fields of later versions.
_SHAPE = re.compile(
    rb"(?!ff)[0-9a-f]{2}-((?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16})-([0-9a-f]{2})(-.*)?", re.DOTALL
)
_SAMPLED = 1


def traceparent_of(lines: Iterable[Header]) -> str | None:
    """Return the value of `traceparent` in these headers; None if it is missing, repeated or invalid.

    A value of a later version is converted to version 00. Version 00 defines only the flag `sampled`, so this
    is the only flag that the conversion keeps.
    """
    values = [value for name, value in lines if name == NAME]
    match = _SHAPE.fullmatch(values[0].strip(b" \t")) if len(values) == 1 else None
    if match is None:
        return None
    ids, flags, rest = match[1].decode(), match[2].decode(), match[3]
    if match[0].startswith(b"00-"):
        return None if rest is not None else f"00-{ids}-{flags}"
    return f"00-{ids}-{int(flags, 16) & _SAMPLED:02x}"
