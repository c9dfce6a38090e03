"""R3 to R10: resume tickets. A ticket only saves time: the cursors decide what is a repeat."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf

from .._codec.client import ResumeCursor
from .._codec.server import ErrorFrame, Welcome
from .kept_ticket import KeptTicket
from .subscription import CoreSubscription
from .subscriptions import Subscriptions

ASK_DELAY_MS = 1_000
RETRY_DELAY_MS = 60_000
#: R10: HELLO stays below 32 KiB with ticket and token.
CURSORS_MAX = 250
TICKET_BYTES_MAX = 16 * 1024


@dataclass(slots=True)
class Held:
    ticket: bytes
    expires_at: float
    renew_at: float
    #: Numbers of the subscriptions in the ticket.
    covers: frozenset[int]
    #: By the server's clock, if it has said it.
    expires_ms: float | None = None


class Tickets:
    def __init__(self) -> None:
        self.held: Held | None = None
        #: The request on the wire.
        self.asked: int | None = None
        self.ask_at: float | None = None
        self.was_presented = False
        self._kept: KeptTicket | None = None
        #: The first attempt waits for the subscriptions of an earlier program's ticket.
        self.is_awaiting = False
        self._kept_expires_at = inf
        self._lifetime_ms = 0
        self._not_before = 0.0
        # The server's clock minus the own one.
        self._clock_ms = 0.0

    # R11: the ticket of an earlier program.

    def restore(self, now: float, clock_ms: float, kept: KeptTicket) -> None:
        expires_at = inf if kept.expires_ms is None else now + kept.expires_ms - clock_ms
        if now < expires_at and kept.subscriptions:
            self._kept, self._kept_expires_at = kept, expires_at

    def begin_to_await(self, subscriptions: Subscriptions) -> bool:
        """Whether subscriptions of its ticket are still to come."""
        self.is_awaiting = self._kept is not None and not subscriptions.has_all(self._kept.subscriptions)
        return self.is_awaiting

    def have_come(self, subscriptions: Subscriptions) -> bool:
        """Whether the last of them has come just now."""
        return self.is_awaiting and not self.begin_to_await(subscriptions)

    def begin_kept(self, now: float, subscriptions: Subscriptions) -> None:
        """Uses its ticket if the subscriptions are there, with the same options: R7."""
        kept, self._kept = self._kept, None
        if kept is not None and subscriptions.renumber(kept.subscriptions):
            covers = frozenset(it.number for it in kept.subscriptions.values())
            self.hold(now, kept.ticket, covers, self._kept_expires_at, kept.expires_ms)

    def kept_ticket(self, subscriptions: Subscriptions) -> KeptTicket | None:
        """The ticket for the next program."""
        held = self.held
        if held is None:
            return None
        return KeptTicket(held.ticket, held.expires_ms, subscriptions.kept(held.covers))

    def connection_lost(self) -> None:
        self.asked = self.ask_at = None
        self._lifetime_ms = 0
        self._not_before = 0
        self.was_presented = False

    def local(self, server_ms: float) -> float:
        """A time of the server by the own clock."""
        return server_ms - self._clock_ms

    def brings(self, number: int) -> bool:
        """Whether this connection's ticket has restored the subscription."""
        return self.was_presented and self.held is not None and number in self.held.covers

    def present(self, now: float, by_number: Mapping[int, CoreSubscription]) -> tuple[Held, list[ResumeCursor]] | None:
        """The ticket and the cursors for HELLO, if the ticket may hold: R4, R7, R10."""
        held = self.held
        if held is None:
            return None
        cursors: list[ResumeCursor] = []
        for number in held.covers:
            it = by_number.get(number)
            if it is None or it.is_paused:
                self.held = None
                return None
            cursor = it.proof.cursor
            if cursor is not None:
                cursors.append((number, None, cursor))
            cursors.extend((number, partition, place) for partition, place in it.cursors.places.items())
        if now >= held.expires_at:
            self.held = None
            return None
        if len(cursors) > CURSORS_MAX:
            return None
        self.was_presented = True
        return held, cursors

    def welcomed(self, now: float, frame: Welcome) -> frozenset[int]:
        """WELCOME: the subscriptions to ask for although the ticket should hold them."""
        self._lifetime_ms = (frame.ticket_lifetime_s or 0) * 1_000
        self._clock_ms = frame.time_ms - now
        held = self.held
        if not self.was_presented or held is None:
            return frozenset()
        if frame.resumed is None:
            self.held = None  # R5
        elif frame.resumed == len(held.covers):
            return frozenset()
        return held.covers  # R6

    def changed(self, now: float) -> None:
        """The application has changed its subscriptions."""
        if self.ask_at is not None:
            self.ask_at = now + ASK_DELAY_MS

    @property
    def wants_plan(self) -> bool:
        return bool(self._lifetime_ms) and self.asked is None

    def plan(self, now: float, active: Sequence[CoreSubscription]) -> None:
        """Plans the next request: R3."""
        if not active:
            return
        held = self.held
        is_covered = held is not None and held.covers == frozenset(it.number for it in active)
        at = max(held.renew_at if held is not None and is_covered else 0, now + ASK_DELAY_MS, self._not_before)
        self.ask_at = at if self.ask_at is None else min(self.ask_at, at)

    def is_due(self, now: float) -> bool:
        """Whether the planned time has come; then nothing is planned."""
        if self.ask_at is None or now < self.ask_at:
            return False
        self.ask_at = None
        return True

    def hold(
        self,
        now: float,
        ticket: bytes,
        covers: frozenset[int],
        expires_at: float = inf,
        expires_ms: float | None = None,
    ) -> None:
        if len(ticket) > TICKET_BYTES_MAX:
            self._not_before = now + RETRY_DELAY_MS
            return
        renew_at = 0 if expires_at == inf else now + max(0, expires_at - now) / 2
        self.held = Held(ticket, expires_at, renew_at, covers, expires_ms)

    def refused(self, now: float, frame: ErrorFrame) -> bool:
        """Whether an error refuses the request for a ticket."""
        if self.asked is None or self.asked != frame.id:
            return False
        self.asked = None
        if frame.temporary:
            self._not_before = now + RETRY_DELAY_MS
        else:
            self._lifetime_ms = 0
        return True
