"""One subscription of the core: what it asks for, its proof, its report and its buffer."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

from .._codec.client import Policy, Start, SubscribeItem
from .._codec.topics import is_wild
from .._position import Place, parse
from ..errors import CroreError
from ..items import CaughtUp, Gap, Item, Message, Report, Skipped
from .proof import Cursors, Proof

GAPS_MAX = 16
#: Buffered items beyond which a new caught-up item replaces the one before it.
SETTLING_MAX = 16

LIVE = Start("live")


@dataclass(frozen=True, slots=True)
class SubscribeOptions:
    start: Start = LIVE
    fail_on_gap: bool = False
    policy: Policy | None = None
    #: Drop the oldest items of a full buffer, in place of pausing.
    skips: bool = False
    #: It goes on with one of an earlier program: the start is where that one ended.
    is_resumed: bool = False


@dataclass(frozen=True, slots=True)
class End:
    """Why a subscription has ended: None if the application has ended it."""

    error: CroreError | None


class CoreSubscription:
    def __init__(self, wanted: str, options: SubscribeOptions, items_max: int, bytes_max: int) -> None:
        self.filter = wanted
        self.options = options
        self.items_max = items_max
        self.bytes_max = bytes_max
        #: The number on the wire.
        self.number = 0
        self.is_filter = is_wild(wanted)
        start = options.start
        self.proof = Proof(start.place)
        self.cursors = Cursors()
        self.cursors.places.update(start.places)
        #: The present connection has granted it.
        self.is_granted = False
        #: It was granted once, so that a filter's new grant may mean a gap.
        self.was_granted = False
        #: S12
        self.has_begun = False
        self.alias: int | None = None
        self.refusals = 0
        self.retry_at: float | None = None
        #: The caught-up item follows the gap that is due.
        self.caught_up_due = False
        #: Unsubscribed until the reader has taken half of the buffer.
        self.is_paused = False
        #: The next SUBSCRIBE asks for a replay by credit.
        self.uses_credit = False
        #: Partitions that replay; 0 for a topic.
        self.replaying: set[int] = set()
        self.end: End | None = None
        #: For the shell: the reader.
        self.reader: object = None

        self._items: deque[Item] = deque()
        self._skips: dict[int, Skipped] = {}
        # Items that count, since the begin. Only who pushes changes the first two and only who takes the other two, so
        # that `take_plain` needs no lock.
        self._pushed = self._pushed_bytes = 0
        self._taken = self._taken_bytes = 0
        # Items up to this number have no place that a credit could give again.
        self._credited = 0
        #: `take_plain` may take: nothing else depends on what is taken.
        self.is_plain = not options.skips
        #: Whether the shell knows that there are items.
        self.is_announced = False
        self._gaps = 0
        self._newest: list[Gap] = []
        self._skips_count = 0
        self._messages = 0
        # The place of the last item that has left the buffer, by partition.
        self._left: dict[int, Place | Message] = {}

    def begin(self) -> None:
        """The first grant. What lies before it counts as processed: R11 resumes every partition."""
        self.has_begun = True
        for partition, place in self.places.items():
            self._left.setdefault(partition, place)

    @property
    def places(self) -> Mapping[int, Place]:
        """The cursors by partition; 0 for a topic."""
        cursor = self.proof.cursor
        return self.cursors.places if cursor is None else {0: cursor}

    def connection_lost(self) -> None:
        self.alias = None
        self.is_granted = self.caught_up_due = False
        self.retry_at = None
        self.replaying.clear()
        self.proof.connection_lost()

    def item(self) -> SubscribeItem:
        """The item of SUBSCRIBE: from the cursor, if there is one (R1, R2)."""
        cursor = self.proof.cursor
        start = self.options.start
        if cursor is not None:
            start = Start("since", cursor)
        elif self.cursors.places:
            start = Start("since_each", places=tuple(self.cursors.places.items()))
        elif self.was_granted:
            start = LIVE
        credit = max(1, self.items_max - self.count) if self.uses_credit else None
        options = self.options
        return SubscribeItem(self.number, self.filter, start, options.fail_on_gap, credit, options.policy)

    def pause(self) -> None:
        """B1: unsubscribed until the reader has taken half of the buffer, and then replayed by credit."""
        self.is_paused = self.uses_credit = True
        self.is_plain = False

    def stop_credit(self) -> None:
        """The replay by credit has ended."""
        self.uses_credit = False
        self.is_plain = not self.options.skips

    def asked(self) -> None:
        """SUBSCRIBE goes out: the free places are its credit."""
        self._credited = self._pushed

    def credited(self) -> None:
        """CREDIT goes out for the places that are freed."""
        self._credited = self._taken

    @property
    def freed(self) -> int:
        """Places of the replay that the reader has freed since the last SUBSCRIBE or CREDIT."""
        return max(0, self._taken - self._credited)

    @property
    def count(self) -> int:
        """Buffered items that count."""
        return self._pushed - self._taken

    @property
    def bytes(self) -> int:
        return self._pushed_bytes - self._taken_bytes

    @property
    def is_full(self) -> bool:
        # A replay by credit fills the buffer on purpose.
        factor = 2 if self.uses_credit and self.replaying else 1
        return self.count >= self.items_max * factor or self.bytes >= self.bytes_max * factor

    @property
    def is_half_empty(self) -> bool:
        return self.count * 2 <= self.items_max and self.bytes * 2 <= self.bytes_max

    def push(self, item: Item) -> None:
        if isinstance(item, Message):
            self._messages += 1
            self._pushed_bytes += len(item.payload)
            self._pushed += 1
        elif isinstance(item, CaughtUp):
            self._drop_newest_place(item.partition)
        else:
            self._pushed += 1
            if isinstance(item, Gap):
                self._gaps += 1
                self._newest = [*self._newest, item][-GAPS_MAX:]
            else:
                self._skips_count += 1
        self._items.append(item)
        if self.options.skips:
            while self.count > self.items_max or self.bytes > self.bytes_max:
                if len(self._items) < 2:
                    break
                self._drop_oldest()

    def push_message(self, message: Message) -> bool:
        """`push` of the commonest item; whether the buffer may be full."""
        if not self.is_plain:
            self.push(message)
            return True
        self._messages += 1
        self._pushed += 1
        self._pushed_bytes += len(message.payload)
        self._items.append(message)
        return self._pushed - self._taken >= self.items_max or self._pushed_bytes - self._taken_bytes >= self.bytes_max

    def _drop_newest_place(self, partition: int | None) -> None:
        """A reader that sleeps gets the newest place only."""
        if len(self._items) <= SETTLING_MAX:
            return
        try:
            last = self._items[-1]
            if isinstance(last, CaughtUp) and last.partition == partition:
                self._items.pop()
        except IndexError:
            pass  # The reader, in another thread, has taken everything.

    def _drop_oldest(self) -> None:
        """B4: drops the oldest item, and counts a message in a skipped item."""
        item = self._shift()
        before = self._left.get(item.partition or 0)
        self._leave(item)
        if not isinstance(item, Message):
            return
        self._messages -= 1
        partition = item.partition or 0
        skip = self._skips.get(partition)
        if skip is not None:
            skip.through = item.offset
            return
        self._skips_count += 1
        start = before.offset if before is not None and before.epoch == item.epoch else item.prev
        self._skips[partition] = Skipped(start, item.offset, "overflow", item.partition)

    def _shift(self) -> Item:
        item = self._items.popleft()
        self._count_taken(item)
        return item

    def _count_taken(self, item: Item) -> None:
        if isinstance(item, Message):
            self._taken_bytes += len(item.payload)
            self._taken += 1
        elif not isinstance(item, CaughtUp):
            self._taken += 1

    def take_plain(self) -> Item | None:
        """
        `take` for the common case: None if there is nothing, or if `take` has to look at it. It may run while another
        thread pushes. What it takes does not count as processed.
        """
        if not (self._items and self.is_plain):
            return None
        try:
            item = self._items.popleft()
        except IndexError:
            return None  # Cleared meanwhile.
        if type(item) is Message:
            self._taken += 1
            self._taken_bytes += len(item.payload)
        else:
            self._count_taken(item)
        return item

    def take(self) -> Item | None:
        """Takes the oldest item out of the buffer."""
        if self._skips:
            return self._skips.pop(next(iter(self._skips)))
        if not self._items:
            self.is_announced = False
            return None
        item = self._shift()
        self._leave(item)
        return item

    def _leave(self, item: Item) -> None:
        partition = item.partition or 0
        if isinstance(item, Message):
            self._left[partition] = item
        elif isinstance(item, Skipped):
            at = self._left.get(partition)
            if at is not None and item.reason != "overflow" and item.through > at.offset:
                self._left[partition] = Place(at.epoch, item.through)
        else:
            text = item.end if isinstance(item, Gap) else item.position
            place = parse(text) if text is not None else None
            if place is not None:
                self._left[partition] = place

    @property
    def is_empty(self) -> bool:
        return not (self._items or self._skips)

    def clear(self) -> None:
        self._items.clear()
        self._skips.clear()
        self._taken, self._taken_bytes = self._pushed, self._pushed_bytes

    @property
    def processed(self) -> Mapping[int, Place | Message]:
        """The places that have left the buffer, by partition; 0 for a topic."""
        return self._left

    def report(self) -> Report:
        cursor = self.proof.cursor
        return Report(
            complete=self._gaps == 0 and self._skips_count == 0,
            basis="announced" if self.is_filter else "proved",
            gaps=self._gaps,
            newest=tuple(self._newest),
            skips=self._skips_count,
            messages=self._messages,
            position=None if cursor is None else str(cursor),
            positions={partition: str(place) for partition, place in self.cursors.places.items()},
        )
