"""Decoding of the server's frames. Bytes that are no frame raise `FrameError`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from .._position import Place
from ..items import Message, Tags
from .reader import FrameError, Reader, text_of, varint32_of


class Beginning(NamedTuple):
    """Where a subscription begins; `partition` for filters."""

    partition: int | None
    place: Place
    replaying: bool
    continued: bool


@dataclass(slots=True)
class Welcome:
    connection: int
    ping_interval_s: int
    time_ms: int
    frame_bytes_max: int
    message_bytes_max: int
    subscriptions_max: int
    node: str | None = None
    resumed: int | None = None
    ticket_lifetime_s: int | None = None


@dataclass(slots=True)
class Subscribed:
    subscription: int
    #: None for a filter.
    alias: int | None
    beginnings: list[Beginning]


@dataclass(slots=True)
class Unsubscribed:
    subscription: int
    code: int


class TopicMessage(NamedTuple):
    alias: int
    message: Message
    #: The low byte of an epoch that advances.
    lineage: int | None = None


@dataclass(slots=True)
class NamedMessage:
    subscription: int | None
    message: Message
    lineage: int | None = None


@dataclass(slots=True)
class CaughtUpFrame:
    subscription: int
    partition: int | None
    through: int
    lineage: int | None = None


@dataclass(slots=True)
class GapFrame:
    subscription: int
    partition: int | None
    epoch: int
    start: int
    end: int
    reason: str


@dataclass(slots=True)
class SkippedFrame:
    subscription: int
    partition: int | None
    epoch: int | None
    start: int
    through: int
    reason: str
    lineage: int | None = None


@dataclass(slots=True)
class PublishedFrame:
    request: int
    place: Place
    duplicate: bool


@dataclass(slots=True)
class HistoryPage:
    request: int
    reverse: bool
    more: bool
    epoch: int
    head: int
    #: From, to, reason.
    gap: tuple[int, int, str] | None
    messages: list[Message]


@dataclass(slots=True)
class ErrorFrame:
    #: 0 the connection, 1 a request, 2 a subscription.
    reference: int
    id: int
    code: int
    temporary: bool
    message: str
    restart: Place | None
    limit: int | None


@dataclass(slots=True)
class GoAway:
    code: int
    return_after_ms: int
    urls: list[str]
    ticket: bytes | None = None


@dataclass(slots=True)
class TicketIssued:
    request: int
    expires_ms: int
    ticket: bytes


@dataclass(slots=True)
class Renewed:
    request: int
    expires_ms: int


@dataclass(slots=True)
class TokenExpires:
    expires_ms: int


@dataclass(slots=True)
class Ping:
    token: int


@dataclass(slots=True)
class Pong:
    token: int


ServerFrame: TypeAlias = (
    Welcome
    | Subscribed
    | Unsubscribed
    | TopicMessage
    | NamedMessage
    | CaughtUpFrame
    | GapFrame
    | SkippedFrame
    | PublishedFrame
    | HistoryPage
    | ErrorFrame
    | GoAway
    | TicketIssued
    | Renewed
    | TokenExpires
    | Ping
    | Pong
)

_GAP_REASONS: Final = ("evicted", "unknown_epoch", "beyond_head", "history_limit", "damaged")
_SKIP_REASONS: Final = {1: "conflated", 3: "dropped"}


def decode(data: bytes) -> ServerFrame:
    """Decodes one frame."""
    if not data:
        raise FrameError
    kind = data[0]
    # A message's payload is the rest of the frame, so nothing can be left over.
    if kind == 0x84:
        return _message(data)
    decoder = _DECODERS.get(kind)
    if decoder is None:
        raise FrameError("unsupported_frame", unsupported=True)
    reader = Reader(data, 1)
    frame = decoder(reader)
    reader.end()
    return frame


def _attributes(reader: Reader, flags: int, named: bool = False) -> tuple[str | None, Tags, int | None, int | None]:
    """Content type, tags, the subscription of a named message, and the lineage."""
    if not flags & 128:
        return None, (), None, None
    content_type: str | None = None
    subscription: int | None = None
    lineage: int | None = None
    tags: list[tuple[str, str]] = []

    def take(key: int, value: bytes) -> bool:
        nonlocal content_type, subscription, lineage
        if key == 2:
            content_type = text_of(value)
        elif key == 4:
            tag = Reader(value)
            tags.append((tag.text(), text_of(tag.rest())))
        elif key == 10 and named:
            subscription = varint32_of(value)
        elif key == 18:
            lineage = _byte_of(value)
        else:
            return False
        return True

    reader.options(flags, take, repeatable=4)
    return content_type, tuple(tags), subscription, lineage


def _byte_of(value: bytes) -> int:
    if len(value) != 1:
        raise FrameError
    return value[0]


def _lineage(reader: Reader, flags: int) -> int | None:
    """The options of a frame that may have a lineage."""
    lineage: int | None = None

    def take(key: int, value: bytes) -> bool:
        nonlocal lineage
        if key == 18:
            lineage = _byte_of(value)
        return key == 18

    reader.options(flags, take)
    return lineage


def _prev(reader: Reader, offset: int) -> int:
    delta = reader.varint()
    if not 0 < delta <= offset:
        raise FrameError
    return offset - delta


def _message(data: bytes) -> TopicMessage:
    reader = Reader(data, 1)
    flags = reader.flags(1)
    alias = reader.varint32()
    offset = reader.varint()
    prev = _prev(reader, offset)
    content_type, tags, _, lineage = _attributes(reader, flags)
    message = Message(reader.rest(), "", 0, offset, prev, flags & 1 == 1, content_type, tags)
    return TopicMessage(alias, message, lineage)


def _named_message(reader: Reader) -> NamedMessage:
    flags = reader.flags(1)
    topic = reader.topic()
    partition = reader.varint32()
    epoch = reader.varint()
    offset = reader.varint()
    prev = _prev(reader, offset)
    content_type, tags, subscription, lineage = _attributes(reader, flags, named=True)
    message = Message(reader.rest(), topic, epoch, offset, prev, flags & 1 == 1, content_type, tags, partition)
    return NamedMessage(subscription, message, lineage)


def _welcome(reader: Reader) -> Welcome:
    flags = reader.flags(0)
    if reader.u8() != 1:
        raise FrameError("unsupported_version", unsupported=True)
    frame = Welcome(
        connection=int.from_bytes(reader.take(8), "little"),
        ping_interval_s=reader.varint32(),
        time_ms=reader.varint(),
        frame_bytes_max=reader.varint(),
        message_bytes_max=reader.varint(),
        subscriptions_max=reader.varint32(),
    )

    def take(key: int, value: bytes) -> bool:
        if key == 6:
            frame.node = text_of(value)
        elif key == 12:
            frame.resumed = varint32_of(value)
        elif key == 14:
            frame.ticket_lifetime_s = varint32_of(value)
        else:
            return False
        return True

    reader.options(flags, take)
    return frame


def _beginning(reader: Reader, flags: int, partition: int | None = None) -> Beginning:
    place = Place(reader.varint(), reader.varint())
    return Beginning(partition, place, flags & 2 != 0, flags & 4 != 0)


def _subscribed(reader: Reader) -> Subscribed:
    flags = reader.flags(7)
    if flags & 1 and flags & 6:
        raise FrameError("unsupported_option", unsupported=True)
    frame = Subscribed(reader.varint32(), None, [])
    if not flags & 1:
        frame.alias = reader.varint32()
        frame.beginnings.append(_beginning(reader, flags))
    reader.options(flags)
    if flags & 1:
        for _ in range(reader.varint()):
            own = reader.flags(6)
            frame.beginnings.append(_beginning(reader, own, reader.varint32()))
            reader.options(own)
    return frame


def _unsubscribed(reader: Reader) -> Unsubscribed:
    flags = reader.flags(0)
    frame = Unsubscribed(reader.varint32(), reader.varint32())
    reader.options(flags)
    return frame


def _caught_up(reader: Reader) -> CaughtUpFrame:
    flags = reader.flags(1)
    subscription = reader.varint32()
    partition = reader.varint32() if flags & 1 else None
    through = reader.varint()
    return CaughtUpFrame(subscription, partition, through, _lineage(reader, flags))


def _gap_reason(reader: Reader) -> str:
    reason = reader.u8()
    return _GAP_REASONS[reason] if reason < len(_GAP_REASONS) else "other"


def _gap(reader: Reader) -> GapFrame:
    flags = reader.flags(1)
    subscription = reader.varint32()
    partition = reader.varint32() if flags & 1 else None
    frame = GapFrame(subscription, partition, reader.varint(), reader.varint(), reader.varint(), _gap_reason(reader))
    reader.options(flags)
    return frame


def _skipped(reader: Reader) -> SkippedFrame:
    flags = reader.flags(1)
    subscription = reader.varint32()
    partition = reader.varint32() if flags & 1 else None
    epoch = reader.varint() if flags & 1 else None
    start, through = reader.varint(), reader.varint()
    reason = _SKIP_REASONS.get(reader.u8(), "other")
    return SkippedFrame(subscription, partition, epoch, start, through, reason, _lineage(reader, flags))


def _published(reader: Reader) -> PublishedFrame:
    flags = reader.flags(1)
    frame = PublishedFrame(reader.varint32(), Place(reader.varint(), reader.varint()), flags & 1 == 1)
    reader.options(flags)
    return frame


def _history_page(reader: Reader) -> HistoryPage:
    flags = reader.flags(7)
    request = reader.varint32()
    epoch = reader.varint()
    head = reader.varint()
    gap = (reader.varint(), reader.varint(), _gap_reason(reader)) if flags & 4 else None
    reader.options(flags)
    frame = HistoryPage(request, flags & 1 == 1, flags & 2 == 2, epoch, head, gap, [])
    for _ in range(reader.varint()):
        own = reader.flags(1)
        offset = reader.varint()
        prev = _prev(reader, offset)
        time_ms = reader.varint()
        content_type, tags, _subscription, _lineage_of = _attributes(reader, own)
        frame.messages.append(
            Message(reader.block(), "", epoch, offset, prev, own & 1 == 1, content_type, tags, None, time_ms)
        )
    return frame


def _error(reader: Reader) -> ErrorFrame:
    flags = reader.flags(7)
    reference = reader.u8()
    number = reader.varint32()
    if reference > 2 or (reference == 0 and number != 0):
        raise FrameError
    code = reader.varint32()
    message = reader.text()
    restart = Place(reader.varint(), reader.varint()) if flags & 2 else None
    limit = reader.varint() if flags & 4 else None
    reader.options(flags)
    return ErrorFrame(reference, number, code, flags & 1 == 1, message, restart, limit)


def _go_away(reader: Reader) -> GoAway:
    flags = reader.flags(0)
    frame = GoAway(reader.varint32(), reader.varint(), [])

    def take(key: int, value: bytes) -> bool:
        if key == 8:
            frame.ticket = value
        return key == 8

    reader.options(flags, take)
    for _ in range(reader.varint()):
        frame.urls.append(reader.text())
    return frame


def _renewed(reader: Reader) -> Renewed:
    flags = reader.flags(0)
    frame = Renewed(reader.varint32(), reader.varint())
    reader.options(flags)
    return frame


def _ticket_issued(reader: Reader) -> TicketIssued:
    flags = reader.flags(0)
    frame = TicketIssued(reader.varint32(), reader.varint(), reader.block())
    reader.options(flags)
    return frame


def _token_expires(reader: Reader) -> TokenExpires:
    flags = reader.flags(0)
    frame = TokenExpires(reader.varint())
    reader.options(flags)
    return frame


def _ping(reader: Reader) -> Ping:
    flags = reader.flags(0)
    frame = Ping(reader.varint())
    reader.options(flags)
    return frame


def _pong(reader: Reader) -> Pong:
    return Pong(_ping(reader).token)


_DECODERS: Final[dict[int, Callable[[Reader], ServerFrame]]] = {
    0x07: _ping,
    0x08: _pong,
    0x81: _welcome,
    0x82: _subscribed,
    0x83: _unsubscribed,
    0x85: _named_message,
    0x86: _caught_up,
    0x87: _gap,
    0x88: _skipped,
    0x89: _published,
    0x8A: _history_page,
    0x8B: _error,
    0x8C: _go_away,
    0x8D: _renewed,
    0x8E: _ticket_issued,
    0x8F: _token_expires,
}
