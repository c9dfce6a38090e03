"""Encoding of the client's frames."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from .._position import Place

#: Subscription, partition (None for a plain topic), and how far it has come.
ResumeCursor: TypeAlias = tuple[int, int | None, Place]
Policy: TypeAlias = Literal["replay", "conflate", "drop", "disconnect"]

POLICIES: Final = ("replay", "conflate", "drop", "disconnect")


@dataclass(frozen=True, slots=True)
class Start:
    """Where a subscription begins. Made by `since`, `since_each`, `last`; or `LIVE`, `SNAPSHOT`."""

    kind: Literal["live", "since", "last", "snapshot", "since_each"]
    place: Place | None = None
    count: int = 0
    places: tuple[tuple[int, Place], ...] = ()


_STARTS: Final = ("live", "since", "last", "snapshot", "since_each")


@dataclass(slots=True)
class SubscribeItem:
    """One item of SUBSCRIBE."""

    subscription: int
    filter: str
    start: Start
    fail_on_gap: bool = False
    replay_credit: int | None = None
    policy: Policy | None = None


def varint(value: int) -> bytes:
    if value < 128:
        return bytes((value,))
    out = bytearray()
    while value >= 128:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def _block(data: bytes) -> bytes:
    return varint(len(data)) + data


def _text(text: str) -> bytes:
    return _block(text.encode())


def _place(place: Place) -> bytes:
    return varint(place.epoch) + varint(place.offset)


def _options(options: list[tuple[int, bytes]]) -> bytes:
    if not options:
        return b""
    return varint(len(options)) + b"".join(varint(key) + _block(value) for key, value in options)


def hello(
    token: str | None = None,
    name: str | None = None,
    ticket: bytes | None = None,
    cursors: Sequence[ResumeCursor] = (),
    ping_interval_s: int = 0,
) -> bytes:
    options: list[tuple[int, bytes]] = []
    if token is not None:
        options.append((1, token.encode()))
    if name is not None:
        options.append((6, name.encode()))
    if ticket is not None:
        options.append((3, ticket))
    if cursors:
        entries = (
            varint(subscription) + varint(0 if partition is None else partition + 1) + _place(place)
            for subscription, partition, place in cursors
        )
        options.append((17, b"".join(entries)))
    return bytes((1, 128 if options else 0, 1)) + varint(ping_interval_s) + _options(options)


def subscribe(items: Sequence[SubscribeItem]) -> bytes:
    out = bytearray((2, 0)) + varint(len(items))
    for item in items:
        options: list[tuple[int, bytes]] = []
        if item.replay_credit is not None:
            options.append((5, varint(item.replay_credit)))
        if item.policy is not None:
            options.append((7, bytes((POLICIES.index(item.policy),))))
        out += varint(item.subscription)
        out.append((1 if item.fail_on_gap else 0) | (128 if options else 0))
        out += _text(item.filter)
        start = item.start
        out.append(_STARTS.index(start.kind))
        if start.kind == "since" and start.place is not None:
            out += _place(start.place)
        elif start.kind == "last":
            out += varint(start.count)
        elif start.kind == "since_each":
            out += varint(len(start.places))
            for partition, place in start.places:
                out += varint(partition) + _place(place)
        out += _options(options)
    return bytes(out)


def unsubscribe(subscriptions: Sequence[int]) -> bytes:
    return b"\x03\x00" + varint(len(subscriptions)) + b"".join(map(varint, subscriptions))


def publish(
    request: int,
    topic: str,
    payload: bytes,
    *,
    retain: bool = False,
    content_type: str | None = None,
    tags: Sequence[tuple[str, str]] = (),
    producer: tuple[bytes, int] | None = None,
    key: bytes | None = None,
    expected_epoch: int | None = None,
) -> bytes:
    options: list[tuple[int, bytes]] = []
    if content_type is not None:
        options.append((2, content_type.encode()))
    options.extend((4, _text(name) + value.encode()) for name, value in tags)
    if producer is not None:
        options.append((11, varint(producer[1]) + producer[0]))
    if key is not None:
        options.append((13, key))
    if expected_epoch is not None:
        options.append((15, varint(expected_epoch)))
    head = bytes((4, (1 if retain else 0) | (128 if options else 0)))
    return head + varint(request) + _text(topic) + _options(options) + payload


def history(
    request: int,
    topic: str,
    *,
    reverse: bool = False,
    position: Place | None = None,
    records_max: int = 0,
    bytes_max: int = 0,
) -> bytes:
    head = bytes((5, (1 if reverse else 0) | (2 if position is not None else 0)))
    place = b"" if position is None else _place(position)
    return head + varint(request) + _text(topic) + place + varint(records_max) + varint(bytes_max)


def credit(subscription: int, messages: int) -> bytes:
    return b"\x06\x00" + varint(subscription) + varint(messages)


def ping(token: int) -> bytes:
    return b"\x07\x00" + varint(token)


def pong(token: int) -> bytes:
    return b"\x08\x00" + varint(token)


def renew(request: int, token: str) -> bytes:
    return b"\x09\x00" + varint(request) + _text(token)


def ticket(request: int) -> bytes:
    return b"\x0a\x00" + varint(request)
