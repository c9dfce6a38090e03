"""All subscriptions of a client: what is asked for, granted, delivered, paused and ended (S, P, B)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol

from .._codec import client as frames
from .._codec.server import CaughtUpFrame, GapFrame, NamedMessage, SkippedFrame, Subscribed
from .._codec.topics import has_length, matches
from .._position import Place
from ..errors import AlreadySubscribed, CroreError, InvalidArgument
from ..items import CaughtUp, Gap, Item, Message, Skipped
from .kept_ticket import KeptSubscription
from .outputs import Level
from .proof import Hole
from .subscription import CoreSubscription, End, SubscribeOptions

RETRY_MS = 1_000  # S6
RETRY_MS_MAX = 60_000
SUBSCRIBE_BYTES = 12 * 1024  # C2
#: Codes of `spec/codes.toml` that the rules name.
ALREADY_SUBSCRIBED = 120
UNSUPPORTED_START = 113
POSITION_UNAVAILABLE = 400


class Host(Protocol):
    """What the subscriptions need of the core."""

    def send(self, data: bytes) -> None: ...
    def ready(self, it: CoreSubscription) -> None: ...
    def note(self, now: float, level: Level, event: str, **fields: Any) -> None: ...
    def unexpected(self, now: float, kind: str) -> None: ...
    def changed(self, now: float) -> None: ...
    def was_brought(self, it: CoreSubscription) -> bool: ...
    @property
    def has_presented(self) -> bool: ...
    @property
    def can_ask(self) -> bool: ...
    @property
    def is_greeted(self) -> bool: ...


class Subscriptions:
    def __init__(self, host: Host, items_max: int, bytes_max: int) -> None:
        self._host = host
        self._items_max = items_max
        self._bytes_max = bytes_max
        self._last_number = 0
        self.by_number: dict[int, CoreSubscription] = {}
        self._by_filter: dict[str, CoreSubscription] = {}
        #: Those with wildcards.
        self._wild: dict[str, CoreSubscription] = {}
        self._by_alias: dict[int, CoreSubscription] = {}
        self.counters = {"duplicates": 0, "gaps": 0, "skips": 0}
        self._messages = 0

    def __len__(self) -> int:
        return len(self._by_filter)

    def __iter__(self) -> Iterator[CoreSubscription]:
        return iter(list(self._by_filter.values()))

    def active(self) -> list[CoreSubscription]:
        """All that shall be held, in the order of their requests."""
        return [it for it in self._by_filter.values() if not it.is_paused]

    # The application.

    def check(self, wanted: str) -> None:
        """Refuses what `subscribe` would refuse: S3, S4."""
        if not has_length(wanted):
            raise InvalidArgument("a topic has 1 to 255 bytes")
        if wanted in self._by_filter:
            raise AlreadySubscribed(f"there is a subscription to {wanted}")

    def subscribe(self, wanted: str, options: SubscribeOptions) -> CoreSubscription:
        self.check(wanted)
        it = CoreSubscription(wanted, options, self._items_max, self._bytes_max)
        self._by_filter[wanted] = it
        if it.is_filter:
            self._wild[wanted] = it
        self._number(it)
        if self._host.can_ask:
            self.ask([it])
        return it

    def unsubscribe(self, it: CoreSubscription) -> None:
        """S5"""
        number, was_held = it.number, not it.is_paused
        self.remove(it, None)
        it.clear()
        if self._host.is_greeted and was_held:
            self._host.send(frames.unsubscribe([number]))

    def refill(self, it: CoreSubscription) -> bool:
        """The reader has taken items: B2, B3. Whether the subscription was paused, and goes on."""
        if it.is_paused:
            if not it.is_half_empty:
                return False
            it.is_paused = False
            if self._host.can_ask:
                self.ask([it])
            return True
        if it.uses_credit and it.replaying and it.freed * 2 >= it.items_max and self._host.can_ask:
            self._host.send(frames.credit(it.number, it.freed))
            it.credited()
        return False

    def remove(self, it: CoreSubscription, error: CroreError | None) -> None:
        self._by_filter.pop(it.filter, None)
        self._wild.pop(it.filter, None)
        self.by_number.pop(it.number, None)
        self._forget_alias(it)
        it.end = End(error)
        it.is_granted = False
        self._host.ready(it)

    # The connection.

    def ask(self, asked: Iterable[CoreSubscription]) -> None:
        """SUBSCRIBE, in as few frames as possible: C2."""
        items: list[frames.SubscribeItem] = []
        size = 0
        for it in asked:
            more = len(it.filter) * 4 + 32 + len(it.cursors.places) * 24
            if items and size + more > SUBSCRIBE_BYTES:
                self._host.send(frames.subscribe(items))
                items, size = [], 0
            it.asked()
            items.append(it.item())
            size += more
        if items:
            self._host.send(frames.subscribe(items))

    def ask_due(self, now: float) -> None:
        """S6"""
        due = [it for it in self.active() if it.retry_at is not None and it.retry_at <= now]
        for it in due:
            it.retry_at = None
        self.ask(due)

    def connection_lost(self) -> None:
        self._by_alias.clear()
        for it in self._by_filter.values():
            it.connection_lost()

    def subscribed(self, now: float, frame: Subscribed) -> None:
        it = self.by_number.get(frame.subscription)
        if it is None or it.is_paused or it.is_filter != (frame.alias is None):
            # R8
            if it is None and self._host.has_presented:
                self._host.send(frames.unsubscribe([frame.subscription]))
            else:
                self._host.unexpected(now, "subscribed")
            return
        it.refusals = 0  # S8
        it.retry_at = None
        is_blind = it.is_filter and it.was_granted and not it.cursors.places
        it.is_granted = it.was_granted = True
        it.replaying = {begin.partition or 0 for begin in frame.beginnings if begin.replaying}
        if not it.replaying:
            it.stop_credit()
        self._host.note(now, "debug", "subscribed", topic=it.filter)
        if frame.alias is None:
            for partition, place, _, continued in frame.beginnings:
                it.cursors.subscribed(partition or 0, place, continued)
            self._begun(it)
            if is_blind:
                self._push_gap(now, it, None, None, "reconnected")  # P11
            self.refill(it)
            return
        self._name(it, frame.alias)
        _, place, is_replaying, continued = frame.beginnings[0]
        cursor = it.proof.cursor
        if continued and cursor is not None and self._host.was_brought(it):
            # A ticket's cursor may be ahead of this one if the topic has no messages in between: R9.
            place = Place(place.epoch, min(place.offset, cursor.offset))
        through = frame.beginnings[0].place.offset
        it.proof.subscribed(place, continued)
        self._begun(it)
        if is_replaying:
            self.refill(it)
            return
        it.caught_up_due = it.proof.is_gap_due
        if not it.caught_up_due:
            self.caught_up(now, CaughtUpFrame(frame.subscription, None, through))

    def _begun(self, it: CoreSubscription) -> None:
        """S12"""
        if not it.has_begun:
            it.begin()
            self._host.ready(it)

    def _name(self, it: CoreSubscription, alias: int) -> None:
        """S11"""
        old = self._by_alias.get(alias)
        if old is not None:
            old.alias = None
        self._forget_alias(it)
        self._by_alias[alias] = it
        it.alias = alias

    def _forget_alias(self, it: CoreSubscription) -> None:
        if it.alias is not None and self._by_alias.get(it.alias) is it:
            del self._by_alias[it.alias]

    def message(self, now: float, alias: int, message: Message, lineage: int | None = None) -> None:
        it = self._by_alias.get(alias)
        if it is None:
            self._host.unexpected(now, "message")
            return
        proof = it.proof
        offset = message.offset
        if lineage is None and proof.is_even and message.prev <= proof.offset < offset:
            # The commonest, without calls: P1.
            proof.offset = offset
            message.topic = it.filter
            message.epoch = proof.epoch
            self._deliver(now, it, message)
            return
        verdict = proof.message(message.prev, offset, lineage)
        if verdict is not True:
            if verdict is False:
                self.counters["duplicates"] += 1
                return
            self._report(now, it, verdict)
            # The gap may have filled the buffer: what comes behind it comes again.
            if it.is_paused:
                return
        if it.caught_up_due:
            self._caught_up_if_due(it)
        message.topic = it.filter
        message.epoch = proof.epoch
        self._deliver(now, it, message)

    def _deliver(self, now: float, it: CoreSubscription, message: Message) -> None:
        """Like `_push`."""
        self._messages += 1
        may_be_full = it.push_message(message)
        if not it.is_announced:
            it.is_announced = True
            self._host.ready(it)
        if may_be_full and it.is_granted and not it.options.skips and it.is_full:
            self._pause(now, it)

    def named(self, now: float, frame: NamedMessage) -> None:
        """S9, P10"""
        message = frame.message
        partition = message.partition or 0
        number = frame.subscription
        one = None if number is None else self.by_number.get(number)
        targets = list(self._wild.values()) if number is None else [] if one is None else [one]
        is_unexpected = True
        for it in targets:
            if not it.is_filter or not it.is_granted or (number is None and not matches(it.filter, message.topic)):
                continue
            is_unexpected = False
            verdict = it.cursors.message(partition, message.epoch, message.offset, message.prev, frame.lineage)
            if verdict is False:
                self.counters["duplicates"] += 1
                continue
            if verdict is not True:
                self._report(now, it, verdict, partition)
            self._deliver(now, it, message)
        if is_unexpected:
            self._host.unexpected(now, "named_message")

    def _granted(self, number: int, partition: int | None) -> CoreSubscription | None:
        it = self.by_number.get(number)
        return it if it is not None and it.is_granted and it.is_filter == (partition is not None) else None

    def caught_up(self, now: float, frame: CaughtUpFrame) -> None:
        it = self._granted(frame.subscription, frame.partition)
        if it is None:
            self._host.unexpected(now, "caught_up")
            return
        it.replaying.discard(frame.partition or 0)
        if not it.replaying:
            it.stop_credit()
        if frame.partition is not None:
            place = it.cursors.caught_up(frame.partition, frame.through, frame.lineage)
            if place is not None:
                self._push(now, it, CaughtUp(str(place), frame.partition))
            return
        it.caught_up_due = False
        hole = it.proof.caught_up(frame.through, frame.lineage)
        if hole is not None:
            self._report(now, it, hole)
        self._push(now, it, CaughtUp(str(it.proof.cursor)))

    def gap(self, now: float, frame: GapFrame) -> None:
        it = self._granted(frame.subscription, frame.partition)
        if it is None:
            self._host.unexpected(now, "gap")
            return
        end = Place(frame.epoch, frame.end)
        partition = frame.partition
        start = it.proof.gap(end) if partition is None else it.cursors.gap(partition, end)
        self._push_gap(now, it, start, end, frame.reason, partition)
        self._caught_up_if_due(it)

    def skipped(self, now: float, frame: SkippedFrame) -> None:
        it = self._granted(frame.subscription, frame.partition)
        if it is None:
            self._host.unexpected(now, "skipped")
            return
        partition, start, through = frame.partition, frame.start, frame.through
        if partition is not None:
            it.cursors.skipped(partition, Place(frame.epoch or 0, through))
        else:
            hole = it.proof.skipped(start, through, frame.lineage)
            if hole is not None:
                self._report(now, it, hole)
        self.counters["skips"] += 1
        self._host.note(now, "warning", "skipped", topic=it.filter, start=start, through=through, reason=frame.reason)
        self._push(now, it, Skipped(start, through, frame.reason, partition))

    def refused(self, now: float, it: CoreSubscription, error: CroreError) -> None:
        """ERROR about a subscription, or UNSUBSCRIBED: S6, S7, P11, R6."""
        code = error.code
        if code == ALREADY_SUBSCRIBED and self._host.has_presented:
            # Its grant is on its way, or the one in its place is being unsubscribed.
            if not it.is_granted:
                it.retry_at = now + RETRY_MS
            return
        it.is_granted = False
        is_of_start = code == UNSUPPORTED_START or (code == POSITION_UNAVAILABLE and not it.options.fail_on_gap)
        if is_of_start and it.cursors.places:
            it.cursors.places.clear()
            it.was_granted = True
            if self._host.can_ask:
                self.ask([it])
            return
        if error.temporary:
            self._forget_alias(it)
            it.connection_lost()
            it.retry_at = now + min(RETRY_MS * 2 ** min(it.refusals, 16), RETRY_MS_MAX)
            it.refusals += 1
            return
        self._host.note(now, "warning", "ended", topic=it.filter, code=code)
        self.remove(it, error)
        self._host.changed(now)

    # R11: the ticket of an earlier program.

    def kept(self, covers: frozenset[int]) -> dict[str, KeptSubscription]:
        """The subscriptions of a ticket, for the next program."""
        kept = (self.by_number[number] for number in covers if number in self.by_number)
        return {it.filter: self._kept(it) for it in kept}

    @staticmethod
    def _kept(it: CoreSubscription) -> KeptSubscription:
        places = {str(partition): str(place) for partition, place in it.places.items()}
        return KeptSubscription(it.number, it.options.fail_on_gap, it.options.policy, places)

    def has_all(self, kept: Mapping[str, KeptSubscription]) -> bool:
        """Whether all of them go on, with the same options, behind what had come before the ticket."""
        return all(self._goes_on(topic, it) for topic, it in kept.items())

    def _goes_on(self, topic: str, kept: KeptSubscription) -> bool:
        it = self._by_filter.get(topic)
        if it is None or not it.options.is_resumed:
            return False
        has_options = (it.options.fail_on_gap, it.options.policy) == (kept.fail_on_gap, kept.policy)
        return has_options and kept.is_processed(it.places)

    def renumber(self, kept: Mapping[str, KeptSubscription]) -> bool:
        """Gives the subscriptions the numbers of the ticket; False if it cannot be used."""
        if not self.has_all(kept):
            return False
        self._last_number = max(self._last_number, *(it.number for it in kept.values()))
        for it in self._by_filter.values():
            self._number(it)
        for topic, one in kept.items():
            it = self._by_filter[topic]
            del self.by_number[it.number]
            it.number = one.number
            self.by_number[it.number] = it
        return True

    # Items.

    def _number(self, it: CoreSubscription) -> None:
        self.by_number.pop(it.number, None)
        self._last_number += 1
        it.number = self._last_number
        self.by_number[it.number] = it

    def _push(self, now: float, it: CoreSubscription, item: Item) -> None:
        it.push(item)
        if not it.is_announced:
            it.is_announced = True
            self._host.ready(it)
        if it.is_granted and not it.options.skips and it.is_full:
            self._pause(now, it)

    def _pause(self, now: float, it: CoreSubscription) -> None:
        """B1"""
        self._host.note(now, "warning", "buffer_full", topic=it.filter)
        number = it.number
        self._forget_alias(it)
        it.connection_lost()
        it.pause()
        # What is on its way has the old number, or none.
        self._number(it)
        self._host.send(frames.unsubscribe([number]))

    def _report(self, now: float, it: CoreSubscription, hole: Hole, partition: int | None = None) -> None:
        self._push_gap(now, it, hole.start, hole.end, "unannounced", partition)

    def _push_gap(
        self,
        now: float,
        it: CoreSubscription,
        start: Place | None,
        end: Place | None,
        cause: str,
        partition: int | None = None,
    ) -> None:
        self.counters["gaps"] += 1
        gap = Gap(None if start is None else str(start), None if end is None else str(end), cause, partition)
        self._host.note(now, "warning", "gap", topic=it.filter, start=gap.start, end=gap.end, cause=cause)
        self._push(now, it, gap)

    def _caught_up_if_due(self, it: CoreSubscription) -> None:
        if it.caught_up_due:
            it.caught_up_due = False
            self._push(0, it, CaughtUp(str(it.proof.cursor)))

    @property
    def totals(self) -> dict[str, int]:
        return {"messages": self._messages, **self.counters}

    def inspect(self) -> list[dict[str, Any]]:
        shown: list[dict[str, Any]] = []
        for it in self._by_filter.values():
            report = it.report()
            shown.append(
                {
                    "topic": it.filter,
                    "granted": it.is_granted,
                    "paused": it.is_paused,
                    "buffered": it.count,
                    "buffered_bytes": it.bytes,
                    "complete": report.complete,
                    "gaps": report.gaps,
                    "skips": report.skips,
                    "messages": report.messages,
                    "position": report.position,
                    "positions": report.positions,
                }
            )
        return shown
