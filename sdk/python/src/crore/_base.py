"""What both clients share: options, the forms of arguments and results, the log."""

from __future__ import annotations

import json
import logging
import random
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias, cast

from ._codec.client import POLICIES, Policy, Start
from ._codec.server import HistoryPage
from ._codec.topics import is_wild
from ._core.backoff import BackoffSettings
from ._core.calls import Publication
from ._core.core import Core
from ._core.outputs import Level
from ._core.settings import Settings
from ._core.subscription import SubscribeOptions
from ._link import socket_url
from .errors import CroreError, GapError, InvalidArgument
from .items import Gap, Page, State
from .starts import LIVE, since, since_each
from .storage import Storage

#: A payload: bytes and text as they are, everything else as JSON.
Data: TypeAlias = Any
Tags: TypeAlias = Mapping[str, str] | Iterable[tuple[str, str]]
Overflow: TypeAlias = Literal["pause", "skip"]
#: Gets level, event and fields of each event of the log.
LogHook: TypeAlias = Callable[[Level, str, dict[str, Any]], None]
StateListener: TypeAlias = Callable[[State], None]
ErrorListener: TypeAlias = Callable[[CroreError], None]

DRAIN_S = 5.0
#: S12
ENDED = "the subscription has ended"
_LOGGER = logging.getLogger("crore")
_LEVELS: dict[Level, int] = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}


@dataclass(frozen=True, slots=True)
class Backoff:
    """Waits between attempts to connect: random, below `base` x 2^n and `maximum`, in seconds."""

    base: float = 0.5
    maximum: float = 30.0
    #: A connection that has lasted so long resets n.
    reset_after: float = 10.0


def core_of(
    urls: str | Sequence[str],
    *,
    token: object,
    name: str | None,
    producer_id: str | bytes | None,
    buffer_items: int,
    buffer_bytes: int,
    handshake_frames: bool,
    backoff: Backoff,
) -> Core:
    addresses = [socket_url(url) for url in ([urls] if isinstance(urls, str) else urls)]
    if not addresses:
        raise InvalidArgument("there is no URL")
    if producer_id is None:
        producer_id = secrets.token_bytes(16)
    elif isinstance(producer_id, str):
        producer_id = producer_id.encode()
    if not 1 <= len(producer_id) <= 64:
        raise InvalidArgument("a producer's id has 1 to 64 bytes")
    if buffer_items < 1 or buffer_bytes < 1:
        raise InvalidArgument("a buffer has room for at least one item")
    return Core(
        Settings(
            urls=addresses,
            random=random.random,
            producer_id=producer_id,
            token=token if isinstance(token, str) else None,
            has_token_source=callable(token),
            name=name,
            backoff=BackoffSettings(backoff.base * 1000, backoff.maximum * 1000, backoff.reset_after * 1000),
            buffer_items=buffer_items,
            buffer_bytes=buffer_bytes,
            handshake_frames=handshake_frames,
            logs=True,
        )
    )


def subscribe_options(
    start: Start = LIVE, fail_on_gap: bool = False, policy: Policy | None = None, overflow: Overflow = "pause"
) -> SubscribeOptions:
    if policy is not None and policy not in POLICIES:
        raise InvalidArgument(f"{policy!r} is not a policy: {', '.join(POLICIES)}")
    return SubscribeOptions(start, fail_on_gap, policy, overflow == "skip")


def resumed(options: SubscribeOptions, topic: str, text: str | None) -> SubscribeOptions:
    """R11: the options with the stored position, if there is one."""
    if not text:
        return options
    places = {int(partition): at for partition, at in json.loads(text).items()}
    start = since_each(places) if is_wild(topic) else since(places[0])
    return replace(options, start=start, is_resumed=True)


def milliseconds(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1000


def publication_of(
    topic: str,
    data: Data,
    *,
    once: bool = False,
    key: str | bytes | None = None,
    retain: bool = False,
    content_type: str | None = None,
    tags: Tags = (),
    expected_epoch: int | None = None,
    timeout: float | None = None,
) -> Publication:
    if isinstance(data, str):
        payload = data.encode()
    elif isinstance(data, bytes | bytearray | memoryview):
        payload = bytes(cast("bytes | bytearray | memoryview", data))
    else:
        payload = json.dumps(data, separators=(",", ":"), ensure_ascii=False).encode()
        content_type = content_type or "application/json"
    if isinstance(tags, Mapping):
        pairs = tuple(cast("Mapping[str, str]", tags).items())
    else:
        pairs = tuple((name, value) for name, value in tags)
    if expected_epoch is not None and not 0 <= expected_epoch < 2**64:
        raise InvalidArgument("an epoch has 64 bits")
    return Publication(
        topic=topic,
        payload=payload,
        retain=retain,
        content_type=content_type,
        tags=pairs,
        expected_epoch=expected_epoch,
        once=once,
        key=key.encode() if isinstance(key, str) else key,
        timeout_ms=milliseconds(timeout),
    )


def page_of(frame: HistoryPage) -> Page:
    gap = None
    if frame.gap is not None:
        start, end, cause = frame.gap
        gap = Gap(f"{frame.epoch}:{start}", f"{frame.epoch}:{end}", cause)
    return Page(tuple(frame.messages), frame.more, gap)


def say(level: Level, event: str, fields: dict[str, Any]) -> None:
    """The log of a client without a hook: the logger `crore`."""
    number = _LEVELS[level]
    if _LOGGER.isEnabledFor(number):
        shown = " ".join(f"{key}={value}" for key, value in fields.items() if value is not None)
        _LOGGER.log(number, "%s %s", event, shown, extra={"event": event, "fields": fields})


def check_storage(persist: bool, store_tickets: bool, storage: Storage | None, producer_id: object) -> None:
    if (persist or store_tickets) and storage is None:
        raise InvalidArgument("`persist` and `store_tickets` need a storage")
    if persist and producer_id is not None:
        raise InvalidArgument("`persist` stores an id of its own")


def gap_error(gap: Gap) -> GapError:
    return GapError(gap.start, gap.end, gap.cause, gap.partition)
