"""Pickling of the dataclasses that travel between the processes of a server with each request."""

from __future__ import annotations

import copyreg
import dataclasses
from operator import attrgetter
from typing import Any, TypeVar

C = TypeVar("C", bound=type[Any])


def pickled_by_fields(kind: C) -> C:
    """Have a dataclass pickled as a call with the values of its fields, of which there are two or more.

    It takes half of the time, as Python looks up the name of each slot otherwise. Return the class.
    """
    values = attrgetter(*[field.name for field in dataclasses.fields(kind)])
    copyreg.pickle(kind, lambda record: (kind, values(record)))
    return kind
