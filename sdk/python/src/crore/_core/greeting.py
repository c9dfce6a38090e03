"""C2: what goes out first, once the WebSocket is open or with its handshake."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

from .._codec import client as frames
from .outputs import Output, Send
from .settings import Settings
from .subscriptions import Subscriptions
from .tickets import Tickets
from .tokens import Tokens

EARLY_BYTES_MAX: Final = 8 * 1024
#: Something on the way does not accept such a long head.
EARLY_REFUSED: Final = (400, 413, 414, 431)


class Host(Protocol):
    """What the greeting needs of the core."""

    outputs: list[Output]

    def send(self, data: bytes) -> None: ...


@dataclass(frozen=True, slots=True)
class Early:
    """What went out with the handshake."""

    token: str | None
    #: Subscriptions.
    numbers: frozenset[int]


class Greeting:
    def __init__(
        self, host: Host, settings: Settings, subscriptions: Subscriptions, tickets: Tickets, tokens: Tokens
    ) -> None:
        self._host = host
        self._name = settings.name
        self._may_be_early = settings.handshake_frames
        self._subscriptions = subscriptions
        self._tickets = tickets
        self._tokens = tokens
        self._early: Early | None = None

    def early(self, now: float) -> list[bytes]:
        """The frames to send with the handshake. What changes before `opened` follows then."""
        if not self._may_be_early:
            return []
        before, self._host.outputs = self._host.outputs, []
        numbers = self._greet(now)
        sent = [it.data for it in self._host.outputs if isinstance(it, Send)]
        self._host.outputs = before
        if sum(map(len, sent)) > EARLY_BYTES_MAX:
            return []
        self._early = Early(self._tokens.token, numbers)
        return sent

    def opened(self, now: float) -> None:
        early, self._early = self._early, None
        if early is None:
            self._greet(now)
            return
        active = self._subscriptions.active()
        gone = early.numbers - {it.number for it in active}
        if gone:
            self._host.send(frames.unsubscribe(sorted(gone)))
        self._subscriptions.ask(it for it in active if it.number not in early.numbers)
        self._tokens.is_due = self._tokens.token != early.token

    def failed(self, status: int) -> bool:
        """The handshake was refused; whether it is repeated without the frames."""
        if self._early is None or status not in EARLY_REFUSED:
            return False
        self._may_be_early = False
        return True

    def connection_lost(self) -> None:
        self._early = None

    def _greet(self, now: float) -> frozenset[int]:
        """HELLO, and SUBSCRIBE of everything; returns the subscriptions of both: R4."""
        self._tickets.begin_kept(now, self._subscriptions)
        active = self._subscriptions.active()
        covers: frozenset[int] = frozenset()
        presented = self._tickets.present(now, self._subscriptions.by_number)
        if presented is None:
            self._host.send(frames.hello(self._tokens.token, self._name))
        else:
            held, cursors = presented
            covers = held.covers
            self._host.send(frames.hello(self._tokens.token, self._name, held.ticket, cursors))
        self._subscriptions.ask(it for it in active if it.number not in covers)
        return covers.union(it.number for it in active)
