"""T: the token, the calls of its source, and the renewal on the wire."""

from __future__ import annotations

from dataclasses import dataclass

from .outputs import TokenReason

SOURCE_MS_MAX = 10_000  # T9


@dataclass(slots=True)
class Asked:
    """A call of the source."""

    id: int
    reason: TokenReason
    #: The next attempt waits for it.
    for_attempt: bool
    until: float


class Tokens:
    def __init__(self, token: str | None, has_source: bool) -> None:
        self.token = token
        self._has_source = has_source
        #: Why the next attempt needs a token.
        self.needed: TokenReason | None = "first" if has_source and token is None else None
        self.asked: Asked | None = None
        #: The renewal on the wire.
        self.request: int | None = None
        #: A newer token waits for the wire.
        self.is_due = False
        #: When the source is called again for a renewal.
        self.retry_at: float | None = None
        self.failures = 0
        self._last_id = 0
        self._was_refused = False

    def take(self, token: str) -> bool:
        """Takes a token; False if it is the one that the client has: T3."""
        if token == self.token:
            return False
        self.token = token
        return True

    def ask(self, now: float, reason: TokenReason, for_attempt: bool) -> int | None:
        """Calls the source; None if a call is in progress."""
        if self.asked is not None and not for_attempt:
            return None
        self._last_id += 1
        self.asked = Asked(self._last_id, reason, for_attempt, now + SOURCE_MS_MAX)
        self.needed = None
        return self._last_id

    def answered(self, number: int) -> Asked | None:
        """The call with this number, if its result is still of use."""
        asked = self.asked
        if asked is None or asked.id != number:
            return None
        self.asked = None
        return asked

    def accepted(self) -> None:
        self._was_refused = False
        self.failures = 0

    def refused_once(self) -> bool:
        """T7: whether the source gets one more chance."""
        if not self._has_source or self._was_refused:
            return False
        self._was_refused = True
        return True

    def settled(self, request: int) -> bool:
        """The answer to a renewal; False if there is none."""
        if self.request != request:
            return False
        self.request = None
        return True

    def connection_lost(self) -> None:
        self.request = self.retry_at = None
        self.is_due = False
        if self.asked is not None and not self.asked.for_attempt:
            self.asked = None
