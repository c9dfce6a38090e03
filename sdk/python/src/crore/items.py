"""What a subscription's reader gets, and what describes it. Each item has a `kind`."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any, ClassVar, Literal, TypeAlias

Tags: TypeAlias = tuple[tuple[str, str], ...]


class Message:
    """A message of a topic. Payloads are decoded when they are read, so a bad one fails where it is read."""

    kind: ClassVar[Literal["message"]] = "message"
    __match_args__ = ("topic", "payload")
    __slots__ = (
        "content_type",
        "epoch",
        "offset",
        "partition",
        "payload",
        "prev",
        "retained",
        "tags",
        "time_ms",
        "topic",
    )

    def __init__(
        self,
        payload: bytes,
        topic: str,
        epoch: int,
        offset: int,
        prev: int,
        retained: bool = False,
        content_type: str | None = None,
        tags: Tags = (),
        partition: int | None = None,
        time_ms: int | None = None,
    ) -> None:
        #: The bytes as they were published.
        self.payload = payload
        self.topic = topic
        self.epoch = epoch
        self.offset = offset
        #: The topic has no message between this offset and the message's own.
        self.prev = prev
        #: Whether it was published with `retain`.
        self.retained = retained
        self.content_type = content_type
        #: Name and value, in order, with repeats.
        self.tags = tags
        #: The topic's partition, for messages of a filter.
        self.partition = partition
        #: When the server received it, milliseconds since 1970; for messages of history.
        self.time_ms = time_ms

    @property
    def position(self) -> str:
        """The place in the log, `<epoch>:<offset>`."""
        return f"{self.epoch}:{self.offset}"

    @property
    def time(self) -> datetime | None:
        """When the server received it; for messages of history."""
        if self.time_ms is None:
            return None
        return datetime.fromtimestamp(self.time_ms / 1000, tz=timezone.utc)

    def text(self) -> str:
        """The payload as UTF-8; raises `UnicodeDecodeError` if it is none."""
        return self.payload.decode()

    def json(self) -> Any:
        """The payload as JSON; raises `ValueError` if it is none."""
        return json.loads(self.payload)

    def tag(self, name: str) -> str | None:
        """The first value of a tag."""
        return next((value for key, value in self.tags if key == name), None)

    def __repr__(self) -> str:
        return f"<Message {self.topic!r} {self.position}, {len(self.payload)} bytes>"


@dataclass(frozen=True, slots=True)
class Gap:
    """Messages of this subscription are missing."""

    kind: ClassVar[Literal["gap"]] = "gap"
    #: The last settled position before the gap, if known.
    start: str | None
    #: Everything up to and including this position is lost or unknown, if known.
    end: str | None
    #: `evicted`, `unknown_epoch`, `beyond_head`, `history_limit`, `damaged`, `other`: announced by the server.
    #: `unannounced`: found by the proof. `reconnected`: a filter began anew.
    cause: str
    #: The partition, for a filter.
    partition: int | None = None


@dataclass(slots=True)
class Skipped:
    """Messages that were left out on purpose: after the offset `start`, up to and including `through`."""

    kind: ClassVar[Literal["skipped"]] = "skipped"
    start: int
    through: int
    #: `conflated`, `dropped`, `other`: by the server. `overflow`: by this client.
    reason: str
    partition: int | None = None


@dataclass(frozen=True, slots=True)
class CaughtUp:
    """Everything up to `position` is delivered or reported; live from here."""

    kind: ClassVar[Literal["caught_up"]] = "caught_up"
    position: str
    partition: int | None = None


Item: TypeAlias = Message | Gap | Skipped | CaughtUp


@dataclass(frozen=True, slots=True)
class Report:
    """What has come of a subscription since its begin, over all connections."""

    #: No gap and no skip. For a topic this is proved, for a filter announced: see `basis`.
    complete: bool
    basis: Literal["proved", "announced"]
    gaps: int
    #: The newest gaps, at most 16.
    newest: tuple[Gap, ...]
    skips: int
    messages: int
    #: The settled position of a topic.
    position: str | None
    #: The settled positions of a filter, by partition.
    positions: dict[int, str] = field(default_factory=dict[int, str])


@dataclass(frozen=True, slots=True)
class Published:
    """The acknowledgement of a publication."""

    #: The position of the message.
    position: str
    #: The log already had it: the position is that of the first copy.
    duplicate: bool


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a topic's history."""

    messages: tuple[Message, ...]
    #: Further messages follow in this direction.
    more: bool
    #: A range before the first message that is gone.
    gap: Gap | None


@dataclass(frozen=True, slots=True)
class State:
    """The state of a client."""

    state: Literal["connecting", "live", "waiting", "closed"]
    #: Of `waiting` and `closed`: `closed`, `refused`, `network`, `idle`, `timeout`, `go_away`, `protocol`,
    #: `unsupported`, `token`, `requested`.
    reason: str | None = None
    #: The close code, if the server gave one.
    code: int | None = None
    #: The HTTP status of a refused handshake.
    status: int | None = None
