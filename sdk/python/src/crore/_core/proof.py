"""
The proof of no loss (`spec/protocol.md`, section 6).

The cursor is the place up to which everything is settled. A message continues it without a hole if and only if its
`prev` is at or below the cursor; the distance of offsets means nothing.
"""

from __future__ import annotations

from typing import NamedTuple

from .._position import Place


class Hole(NamedTuple):
    """Messages that may be missing, and that nobody has announced."""

    start: Place
    end: Place


def advanced(epoch: int, lineage: int) -> int:
    """The first epoch from this one on whose low byte is the lineage; the upper half identifies the log: P16."""
    return epoch >> 32 << 32 | epoch + (lineage - epoch & 255) & 0xFFFFFFFF


class Proof:
    """The cursor of one plain topic."""

    __slots__ = ("_due", "_handed", "epoch", "is_even", "offset", "started")

    def __init__(self, start: Place | None = None) -> None:
        self.started = start is not None
        #: The epoch of the messages to come.
        self.epoch = start.epoch if start else 0
        self.offset = start.offset if start else 0
        # The position before a gap that the server has not announced yet.
        self._due: Place | None = None
        # The newest message handed on: P15; while `is_even`, the cursor is.
        self._handed = Place(-1, 0)
        #: No gap is due, and nothing above the cursor was handed on: a message with `prev` <= cursor < offset is next,
        #: and the cursor moves to it.
        self.is_even = False

    @property
    def cursor(self) -> Place | None:
        """The position to resume from: while a gap is due, the one before it (P9)."""
        if self._due is not None:
            return self._due
        return Place(self.epoch, self.offset) if self.started else None

    @property
    def is_gap_due(self) -> bool:
        return self._due is not None

    def connection_lost(self) -> None:
        self._turn()
        if self._due is not None:
            self.epoch, self.offset = self._due
            self._due = None

    def _turn(self) -> None:
        """Something else than the next message has come."""
        if self.is_even:
            self.is_even = False
            self._handed = Place(self.epoch, self.offset)

    def subscribed(self, through: Place, continued: bool) -> None:
        """SUBSCRIBED. After a resume that is not continued the cursor moves only with the gap: P7, P8."""
        self._turn()
        self._due = None
        if not self.started:
            self.started = True
            self.epoch, self.offset = through
        elif continued and through.offset <= self.offset:
            self.epoch = through.epoch
        else:
            self._due = Place(self.epoch, self.offset)
            if self.epoch != through.epoch:
                self.epoch, self.offset = through

    def message(self, prev: int, offset: int, lineage: int | None = None) -> bool | Hole:
        """MESSAGE: False if it was settled before, True if it is next, or the hole before it: P1 to P3, P7, P16."""
        at = self.offset
        epoch = self.epoch
        if not self.started:
            # Without an answer to SUBSCRIBE there is no proof; it begins here.
            self.started = self.is_even = True
            self.offset = offset
            return True
        if offset <= at:
            return False
        handed = self._handed
        if not self.is_even and epoch == handed.epoch and offset <= handed.offset:
            return False
        self.is_even = True
        self.offset = offset
        self.advance(lineage)
        if self._due is None and prev <= at:
            return True
        due, self._due = self._due, None
        if due is not None and due.epoch != epoch:
            return Hole(due, Place(self.epoch, max(prev, at)))
        return Hole(Place(epoch, at), Place(self.epoch, prev)) if prev > at else True

    def advance(self, lineage: int | None) -> None:
        """Nothing is lost up to the cursor since its epoch: P16."""
        if lineage is not None:
            self.epoch = advanced(self.epoch, lineage)

    def gap(self, end: Place) -> Place | None:
        """GAP: the cursor moves to its end, even down. Returns the begin: P4."""
        start = self.cursor
        self._turn()
        self._due = None
        self.started = True
        self.epoch, self.offset = end
        return start

    def skipped(self, start: int, through: int, lineage: int | None = None) -> Hole | None:
        """SKIPPED: returns the hole before it: P5."""
        at, epoch = self.offset, self.epoch
        self._turn()
        self.offset = max(at, through)
        self.advance(lineage)
        return Hole(Place(epoch, at), Place(epoch, start)) if start > at else None

    def caught_up(self, through: int, lineage: int | None = None) -> Hole | None:
        """CAUGHT_UP: returns the hole in place of a gap that never came: P6, P7."""
        self._turn()
        self.offset = max(self.offset, through)
        self.advance(lineage)
        due, self._due = self._due, None
        return None if due is None else Hole(due, Place(self.epoch, self.offset))


class Cursors:
    """The cursors of a filter, by partition (section 6.1, P10)."""

    __slots__ = ("places",)

    def __init__(self) -> None:
        self.places: dict[int, Place] = {}

    def subscribed(self, partition: int, through: Place, continued: bool) -> None:
        at = self.places.get(partition)
        if at is None:
            self.places[partition] = through
        elif continued:
            self.places[partition] = Place(through.epoch, at.offset)

    def message(self, partition: int, epoch: int, offset: int, prev: int, lineage: int | None = None) -> bool | Hole:
        """NAMED_MESSAGE: False if it was settled before, True if it is new, or the hole before a new epoch."""
        at = self.places.get(partition)
        is_same = at is not None and epoch == (at.epoch if lineage is None else advanced(at.epoch, lineage))
        if at is not None and is_same and offset <= at.offset:
            return False
        self.places[partition] = Place(epoch, offset)
        if at is None or is_same:
            return True
        return Hole(at, Place(epoch, prev))

    def gap(self, partition: int, end: Place) -> Place | None:
        start = self.places.get(partition)
        self.places[partition] = end
        return start

    def skipped(self, partition: int, through: Place) -> None:
        at = self.places.get(partition)
        if at is None or at.epoch != through.epoch or at.offset < through.offset:
            self.places[partition] = through

    def caught_up(self, partition: int, through: int, lineage: int | None = None) -> Place | None:
        """CAUGHT_UP: the cursor, or None for an unknown partition."""
        at = self.places.get(partition)
        if at is None:
            return None
        epoch = at.epoch if lineage is None else advanced(at.epoch, lineage)
        place = Place(epoch, max(at.offset, through))
        self.places[partition] = place
        return place
