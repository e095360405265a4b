"""Finds the object at a path such as `/v1/accounts/<id>`, and the operations on the object."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from ledger_engine.http.operations import Operation

VARIABLE = re.compile(r"<(?:path:)?(\w+)>")


class Objects:
    """The classes of the objects at the paths that end with a variable.

    The variable is one of the object's fields, such as the id.
    """

    def __init__(self, operations: Iterable[Operation]) -> None:
        self._operations = list(operations)
        self._kinds = {
            operation.path: operation.answer
            for operation in self._operations
            if operation.path.endswith(">") and hasattr(operation.answer, "OBJECT")
        }

    def at(self, path: str) -> type[Any] | None:
        """Return the class of the object at this path or at the beginning of it; None if there is no object.

        For example, `/v1/accounts/<id>/balance` begins with the path of an account.
        """
        return next((kind for place, kind in self._kinds.items() if _continues(path, place)), None)

    def links(self, operation: Operation) -> dict[str, Any]:
        """Return links from an operation that creates an object to all operations on this object."""
        kind = getattr(operation.answer, "OBJECT", None)
        if operation.status != 201 or kind is None:
            return {}
        paths = [path for path, answer in self._kinds.items() if answer is not None and kind == answer.OBJECT]
        return {
            other.name: {
                "operationId": other.name,
                "parameters": {name: f"$response.body#/{name}" for name in VARIABLE.findall(path)},
            }
            for path in paths
            for other in self._operations
            if _continues(other.path, path)
        }


def _continues(path: str, start: str) -> bool:
    return path == start or path.startswith(f"{start}/")
