"""What a core is made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from .backoff import BackoffSettings


@dataclass(slots=True)
class Settings:
    urls: Sequence[str]
    random: Callable[[], float]
    producer_id: bytes
    token: str | None = None
    has_token_source: bool = False
    name: str | None = None
    backoff: BackoffSettings = field(default_factory=BackoffSettings)
    buffer_items: int = 1024
    buffer_bytes: int = 1024 * 1024
    #: The first frames may go out with the handshake.
    handshake_frames: bool = False
    #: Whether events of the log are outputs; `inspect` has the newest in any case.
    logs: bool = False
