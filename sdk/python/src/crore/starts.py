"""Where a subscription begins."""

from __future__ import annotations

from collections.abc import Mapping

from ._codec.client import Start
from ._position import Place, parse
from .errors import InvalidArgument

#: Messages published from now on.
LIVE = Start("live")
#: The topic's retained message, else the newest one of its history, then live.
SNAPSHOT = Start("snapshot")


def place_of(position: str) -> Place:
    place = parse(position)
    if place is None:
        raise InvalidArgument(f"{position!r} is not a position")
    return place


def since(position: str) -> Start:
    """All messages of a topic after this position, then live."""
    return Start("since", place_of(position))


def since_each(positions: Mapping[int, str]) -> Start:
    """For a filter: in each listed partition all messages after its position, then live."""
    return Start("since_each", places=tuple((partition, place_of(at)) for partition, at in positions.items()))


def last(count: int) -> Start:
    """The newest messages of a topic's history, at most so many, then live."""
    if not 0 <= count <= 0xFFFFFFFF:
        raise InvalidArgument("a count is from 0 to 4,294,967,295")
    return Start("last", count=count)
