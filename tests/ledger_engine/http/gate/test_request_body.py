import asyncio
from collections.abc import Awaitable, Callable
from typing import Any
from unittest.mock import Mock

import pytest

from ledger_engine.core.errors import InvalidRequest
from ledger_engine.http.bodies import BODY_MAX
from ledger_engine.http.errors import BodyTimeout
from ledger_engine.http.gate import request_body
from ledger_engine.http.gate.request_body import ClientGone, check_length, read_body
from ledger_engine.http.wire.head import BadRequest

LENGTH = {b"content-length": b"9"}


def messages(*bodies: bytes, end: dict[str, Any] | None = None) -> Callable[[], Awaitable[dict[str, Any]]]:
    """Return a `receive` that returns the parts of a body, and then nothing more or the end."""
    last = len(bodies) - 1 if end is None else len(bodies)
    parts = [
        {"type": "http.request", "body": body, "more_body": place != last}
        for place, body in enumerate(bodies)
    ]
    waiting = iter(parts if end is None else [*parts, end])

    async def receive() -> dict[str, Any]:
        return next(waiting)

    return receive


@pytest.mark.parametrize("parts", [[b"abc", b"def", b""], [b"abcdef"]])
async def test_a_body_is_put_together_from_its_parts(parts: list[bytes]) -> None:
    assert await read_body(messages(*parts), LENGTH) == b"abcdef"


@pytest.mark.parametrize("parts", [[b"x" * (BODY_MAX + 1)], [b"x" * BODY_MAX, b"x", b""]])
async def test_a_body_is_counted_whatever_its_length_was_said_to_be(parts: list[bytes]) -> None:
    with pytest.raises(InvalidRequest, match="larger than 1 MB"):
        await read_body(messages(*parts), LENGTH)


def test_a_length_that_is_too_large_is_refused_without_reading() -> None:
    with pytest.raises(InvalidRequest, match="larger than 1 MB"):
        check_length({b"content-length": b"%d" % (BODY_MAX + 1)})
    check_length({b"content-length": b"0" * 30 + b"%d" % BODY_MAX})


@pytest.mark.parametrize("headers", [LENGTH, {b"transfer-encoding": b"chunked"}])
async def test_half_a_body_is_no_body(headers: dict[bytes, bytes]) -> None:
    with pytest.raises(ClientGone):
        await read_body(messages(b'{"a":', end={"type": "http.disconnect"}), headers)


async def test_a_body_the_wire_cannot_read_is_refused_with_its_reason() -> None:
    wire = Mock(whole=False, body_error=BadRequest("no"))
    with pytest.raises(InvalidRequest) as refused:
        await read_body(messages(b"a", end={"type": "http.disconnect"}), LENGTH, wire)
    assert (refused.value.code, refused.value.message) == ("invalid_value", "no")


async def test_a_body_that_does_not_come_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_body, "BODY_TIMEOUT_S", 0.01)

    async def receive() -> dict[str, Any]:
        await asyncio.Event().wait()
        raise AssertionError("nothing comes")

    with pytest.raises(BodyTimeout):
        await read_body(receive, LENGTH)


MULTIPART = {b"content-type": b'Multipart/Form-Data; boundary="b c"', b"transfer-encoding": b"chunked"}
FILE = b'--b c\r\nContent-Disposition: form-data; name="f"; filename="a"\r\n\r\n'


async def test_files_are_dropped_and_each_has_a_limit_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(request_body, "FILE_MAX", 1000)
    fits, ends = FILE + b"x" * 1000 + b"\r\n", b"--b c--\r\n"
    assert await read_body(messages(fits * 3, ends), MULTIPART) == b""
    with pytest.raises(InvalidRequest, match="larger than 25 MB"):
        await read_body(messages(fits, FILE + b"x" * 1001 + b"\r\n", ends), MULTIPART)


async def test_too_many_parts_are_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_body, "PARTS_MAX", 3)
    with pytest.raises(InvalidRequest, match="larger than 1 MB"):
        await read_body(messages((FILE + b"x\r\n") * 4, b"--b c--\r\n"), MULTIPART)


async def test_a_part_whose_headers_never_end_is_not_kept() -> None:
    endless = [b"--b c\r\nContent-Disposition: form-data; " + b"x" * 60_000, *[b"x" * 60_000] * 30]
    with pytest.raises(InvalidRequest, match="larger than 1 MB"):
        await read_body(messages(*endless, b""), MULTIPART)


async def test_a_form_without_a_boundary_is_a_body_like_any_other() -> None:
    headers = {b"content-type": b"multipart/form-data", b"transfer-encoding": b"chunked"}
    assert await read_body(messages(b"abc", b""), headers) == b"abc"
