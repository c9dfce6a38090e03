"""What the core asks of its shell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from .._codec.server import HistoryPage
from ..errors import CroreError
from ..items import Published, State

if TYPE_CHECKING:
    from .calls import Call
    from .subscription import CoreSubscription

TokenReason: TypeAlias = Literal["first", "expires", "refused"]
Level: TypeAlias = Literal["debug", "info", "warning", "error"]


@dataclass(slots=True)
class Connect:
    url: str


@dataclass(slots=True)
class Send:
    data: bytes


@dataclass(slots=True)
class Close:
    #: 1006: without a close frame.
    code: int


@dataclass(slots=True)
class AskToken:
    id: int
    reason: TokenReason


@dataclass(slots=True)
class Settle:
    call: Call
    error: CroreError | None
    value: Published | HistoryPage | None


@dataclass(slots=True)
class Changed:
    state: State


@dataclass(slots=True)
class Ready:
    """A subscription has begun, has items, or has ended."""

    subscription: CoreSubscription


@dataclass(slots=True)
class Told:
    """A refusal that belongs to no call."""

    error: CroreError


@dataclass(slots=True)
class Log:
    level: Level
    event: str
    fields: dict[str, Any]


Output: TypeAlias = Connect | Send | Close | AskToken | Settle | Changed | Ready | Told | Log
