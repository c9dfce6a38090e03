"""A position of a log: epoch and offset, shown as `<epoch>:<offset>`."""

from __future__ import annotations

import re
from typing import NamedTuple

_FORM = re.compile(r"(0|[1-9][0-9]{0,19}):(0|[1-9][0-9]{0,19})")
_MAX = 2**64 - 1


class Place(NamedTuple):
    """A position as numbers."""

    epoch: int
    offset: int

    def __str__(self) -> str:
        return f"{self.epoch}:{self.offset}"


def parse(text: str) -> Place | None:
    """The numbers of a position; None if the text is none."""
    match = _FORM.fullmatch(text)
    if match is None:
        return None
    place = Place(int(match[1]), int(match[2]))
    return place if max(place) <= _MAX else None
