"""One server with test helpers for the tests of a file, and a project of its own for each test."""

from tests.helped_server import own, server

__all__ = ["own", "server"]
