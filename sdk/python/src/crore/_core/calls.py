"""
Publications and pages of history (U, H), from the call to the one answer.

`once` publications are kept until they are answered, and repeated on the next connection before anything new, in the
old order, with the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import Any, Protocol

from .._codec import client as frames
from .._codec.server import HistoryPage, PublishedFrame
from .._codec.topics import has_length
from .._position import Place
from ..errors import Closed, CroreError, Expired, Fenced, InvalidArgument, QueueFull, Unknown
from ..items import Published

KEPT_MAX = 1_000  # U12
KEPT_BYTES_MAX = 4 * 1024 * 1024
#: Everything has a bound, calls without a connection too.
WAITING_BYTES_MAX = 64 * 1024 * 1024
REFUSALS_MAX = 10  # U8
REFUSED_MS = 200
REFUSED_MS_MAX = 5_000
TIMEOUT_MS = 10_000  # U11
TIMEOUT_ONCE_MS = 60_000
CALL_BYTES = 128
PRODUCER_FENCED = 403


@dataclass(slots=True)
class Publication:
    """What `publish` was asked for."""

    topic: str
    payload: bytes
    retain: bool = False
    content_type: str | None = None
    tags: tuple[tuple[str, str], ...] = ()
    expected_epoch: int | None = None
    #: By the client's producer.
    once: bool = False
    key: bytes | None = None
    #: A sequence that was reserved before, for `once`.
    sequence: int | None = None
    timeout_ms: float | None = None


@dataclass(eq=False, slots=True)
class Call:
    """One request of the application."""

    topic: str
    payload_bytes: int
    is_page: bool
    is_once: bool
    is_numbered: bool
    until: float
    encode: Callable[[int], bytes]
    #: The number on the wire; 0 before it is sent.
    request: int = 0
    #: Its frame, for `once` calls that were sent.
    frame: bytes = b""
    #: It was refused for the moment, and is not on its way.
    is_refused: bool = False
    refusals: int = 0
    is_settled: bool = False
    #: For the shell: what waits for the answer.
    waiter: Any = None


class Host(Protocol):
    """What the calls need of the core."""

    def request(self) -> int: ...
    def send(self, data: bytes) -> None: ...
    def settle(self, call: Call, error: CroreError | None, value: Published | HistoryPage | None) -> None: ...
    def repeated(self, count: int) -> None: ...
    @property
    def is_blocked(self) -> bool: ...


def _unknown() -> Unknown:
    return Unknown("the answer never came: the server may have carried the request out")


class Calls:
    def __init__(self, producer_id: bytes, host: Host) -> None:
        self.producer_id = producer_id
        self._host = host
        #: No call settles by its timeout before.
        self.deadline = inf
        #: When those refused for the moment are repeated.
        self.retry_at: float | None = None
        self.payload_max: float = inf
        self.is_fenced = False
        # Dictionaries as sets that keep the order of the calls.
        self._waiting: dict[Call, None] = {}
        self._waiting_bytes = 0
        self._sent: dict[int, Call] = {}
        self._kept: dict[Call, None] = {}
        self._once_count = 0
        self._once_bytes = 0
        self._last_sequence = 0
        self._refused_until: float | None = None
        self._has_given_up = False

    @property
    def in_flight(self) -> int:
        """Requests on the wire that wait for their answers."""
        return len(self._sent)

    @property
    def is_idle(self) -> bool:
        return not (self._sent or self._waiting or self._kept)

    def publish(self, now: float, it: Publication) -> Call:
        if not has_length(it.topic):
            raise InvalidArgument("a topic has 1 to 255 bytes")
        if len(it.payload) > self.payload_max:
            raise self._too_long()
        if it.key is not None and not 1 <= len(it.key) <= 128:
            raise InvalidArgument("a key has 1 to 128 bytes")
        is_once = it.once or it.key is not None
        is_numbered = is_once and it.key is None
        if is_numbered and self.is_fenced:
            raise Fenced("another client publishes under this producer's id")
        size = len(it.payload) + CALL_BYTES
        if is_once and (self._once_count >= KEPT_MAX or self._once_bytes + size > KEPT_BYTES_MAX):
            raise QueueFull("too many publications wait for their answers", temporary=True)

        def encode(request: int) -> bytes:
            producer = (self.producer_id, self._sequence(it)) if is_numbered else None
            return frames.publish(
                request,
                it.topic,
                it.payload,
                retain=it.retain,
                content_type=it.content_type,
                tags=it.tags,
                producer=producer,
                key=it.key,
                expected_epoch=it.expected_epoch,
            )

        timeout = it.timeout_ms if it.timeout_ms is not None else TIMEOUT_ONCE_MS if is_once else TIMEOUT_MS
        call = Call(it.topic, len(it.payload), False, is_once, is_numbered, now + timeout, encode)
        self._add(call)
        if is_once:
            self._once_count += 1
            self._once_bytes += size
        return call

    def _sequence(self, it: Publication) -> int:
        if it.sequence is not None:
            return it.sequence
        self._last_sequence += 1
        return self._last_sequence

    def history(
        self, now: float, topic: str, position: Place | None, reverse: bool, limit: int, timeout_ms: float | None
    ) -> Call:
        if not has_length(topic):
            raise InvalidArgument("a topic has 1 to 255 bytes")

        def encode(request: int) -> bytes:
            return frames.history(request, topic, reverse=reverse, position=position, records_max=limit)

        until = now + (TIMEOUT_MS if timeout_ms is None else timeout_ms)
        call = Call(topic, 0, True, False, False, until, encode)
        self._add(call)
        return call

    def _add(self, call: Call) -> None:
        size = call.payload_bytes + CALL_BYTES
        if self._waiting_bytes + size > WAITING_BYTES_MAX:
            raise QueueFull("too many calls wait for the connection", temporary=True)
        self._waiting[call] = None
        self._waiting_bytes += size
        self.deadline = min(self.deadline, call.until)

    def _too_long(self) -> InvalidArgument:
        return InvalidArgument(f"the payload is longer than {self.payload_max} bytes")

    def pump(self) -> None:
        """Sends what waits, in the order of the calls: U1."""
        if not self._waiting:
            return
        for call in list(self._waiting):
            if self._host.is_blocked:
                return
            # U8: nothing new before what was refused.
            if call.is_once and self._refused_until is not None:
                continue
            self._unqueue(call)
            if call.payload_bytes > self.payload_max:
                self._settle(call, self._too_long())
                continue
            call.request = self._host.request()
            frame = call.encode(call.request)
            if call.is_once:
                call.frame = frame
                self._kept[call] = None
            self._transmit(call, frame)

    def _transmit(self, call: Call, frame: bytes) -> None:
        call.is_refused = False
        self._sent[call.request] = call
        self._host.send(frame)

    def repeat(self) -> None:
        """U7: everything kept goes out again."""
        self._refused_until = self.retry_at = None
        self._has_given_up = False
        if self._kept:
            self._host.repeated(len(self._kept))
        for call in self._kept:
            self._transmit(call, call.frame)

    def repeat_refused(self, now: float) -> None:
        if self.retry_at is not None and now >= self.retry_at:
            self.repeat()

    def answer(self, frame: PublishedFrame | HistoryPage) -> bool:
        """An answer; False if it is about nothing: U14."""
        call = self._sent.get(frame.request)
        if call is None or call.is_page != isinstance(frame, HistoryPage):
            return False
        if isinstance(frame, HistoryPage):
            for message in frame.messages:
                message.topic = call.topic
            self._settle(call, None, frame)
        else:
            self._settle(call, None, Published(str(frame.place), frame.duplicate))
        return True

    def _settle(self, call: Call, error: CroreError | None, value: Published | HistoryPage | None = None) -> None:
        if call.is_settled:
            return
        call.is_settled = True
        self._unqueue(call)
        if self._sent.get(call.request) is call:
            del self._sent[call.request]
        self._kept.pop(call, None)
        if call.is_once:
            self._once_count -= 1
            self._once_bytes -= call.payload_bytes + CALL_BYTES
            if self._refused_until is not None:
                self._plan_repeat()
        self._host.settle(call, error, value)

    def _unqueue(self, call: Call) -> None:
        if call in self._waiting:
            del self._waiting[call]
            self._waiting_bytes -= call.payload_bytes + CALL_BYTES

    def _plan_repeat(self) -> None:
        """Those refused are repeated when all others have their answers."""
        refused = [call.is_refused for call in self._kept]
        if not any(refused):
            self._refused_until = None
        self.retry_at = self._refused_until if all(refused) else None

    def refuse(self, now: float, request: int, error: CroreError) -> bool:
        """ERROR about a request; False if it is about nothing."""
        call = self._sent.get(request)
        if call is None:
            return False
        if error.temporary and call.is_once and self._put_off(now, call):
            return True
        if error.code == PRODUCER_FENCED and call.is_numbered:
            self._fence(error)
        self._settle(call, error)
        return True

    def _put_off(self, now: float, call: Call) -> bool:
        """U8"""
        if self._refused_until is None and not self._has_given_up and call.refusals >= REFUSALS_MAX:
            self._has_given_up = True
            return False
        delay = min(REFUSED_MS * 2**call.refusals, REFUSED_MS_MAX)
        call.refusals = min(call.refusals + 1, REFUSALS_MAX)
        call.is_refused = True
        del self._sent[call.request]
        self._refused_until = max(self._refused_until or 0, now + delay)
        self._plan_repeat()
        return True

    def _fence(self, error: CroreError) -> None:
        """U9"""
        self.is_fenced = True
        for call in [*self._kept, *self._waiting]:
            if call.is_numbered:
                self._settle(call, error)

    def connection_lost(self) -> None:
        """U2"""
        for call in list(self._sent.values()):
            if not call.is_once:
                self._settle(call, _unknown())
        self._sent.clear()
        self.retry_at = None

    def expire(self, call: Call) -> None:
        """Gives a call up: U11."""
        self._settle(call, _unknown() if call.request else Expired("the request was not sent in time"))

    def expire_due(self, now: float) -> None:
        for call in [*self._waiting, *self._kept, *self._sent.values()]:
            if call.until <= now:
                self.expire(call)
        left = [*self._waiting, *self._kept, *self._sent.values()]
        self.deadline = min((call.until for call in left), default=inf)

    def end(self) -> None:
        """X2: the end of the client."""
        for call in [*self._sent.values(), *self._kept]:
            self._settle(call, _unknown())
        for call in list(self._waiting):
            self._settle(call, Closed("the client is closed"))
        self.deadline = inf

    def inspect(self) -> dict[str, int]:
        return {
            "waiting": len(self._waiting),
            "sent": len(self._sent),
            "once": self._once_count,
            "once_bytes": self._once_bytes,
        }
