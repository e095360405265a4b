"""Why a request cannot be read."""

from __future__ import annotations


class BadRequest(Exception):
    """The request is not valid HTTP/1.1, or is refused because it could be read in two ways."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class HeaderConflict(BadRequest):
    """A header is given twice, with values of which only one can hold."""


class UnknownMethod(BadRequest):
    """The method is CONNECT, or is not in capital letters."""


class BodyTooLarge(BadRequest):
    """The length of the body has too many digits."""


class TargetTooLong(BadRequest):
    """The request target is longer than the limit."""


class HeadTooLarge(BadRequest):
    """The head is longer than the limit."""


class AuthorizationTooLong(HeadTooLarge):
    """The head is longer than the limit because of its Authorization header."""
