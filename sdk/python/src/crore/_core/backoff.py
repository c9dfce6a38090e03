"""C4: random waits between attempts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BackoffSettings:
    base_ms: float = 500
    max_ms: float = 30_000
    #: A connection that has lasted so long resets the waits.
    reset_after_ms: float = 10_000


class Backoff:
    def __init__(self, settings: BackoffSettings, random: Callable[[], float]) -> None:
        self._settings = settings
        self._random = random
        self._attempts = 0

    def next(self, lasted_ms: float) -> int:
        """The wait after a connection that has lasted so long; 0 if it was none."""
        if lasted_ms >= self._settings.reset_after_ms:
            self._attempts = 0
        delay = self.delay(self._attempts)
        self._attempts += 1
        return delay

    def delay(self, attempt: int) -> int:
        """A random wait before an attempt."""
        bound = min(self._settings.base_ms * 2 ** min(attempt, 30), self._settings.max_ms)
        return int(self._random() * bound)
