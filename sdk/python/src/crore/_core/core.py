"""The client as a machine: one connection after the other, frames in, frames out."""

from __future__ import annotations

from collections import deque
from math import inf
from typing import Any, Final, Literal, TypeAlias

from .._codec import client as frames
from .._codec import server
from .._codec.quick import quick_message
from .._codec.reader import FrameError
from .._position import Place
from ..errors import Closed, CroreError, refusal
from ..items import Item, Published, State
from .backoff import Backoff
from .calls import Call, Calls, Publication
from .ends import closed_by, reconnects
from .greeting import Greeting
from .kept_ticket import KeptTicket
from .outputs import AskToken, Changed, Close, Connect, Level, Log, Output, Ready, Send, Settle, TokenReason, Told
from .settings import Settings
from .subscription import CoreSubscription, SubscribeOptions
from .subscriptions import Subscriptions
from .tickets import Tickets
from .tokens import Tokens

OPEN_MS_MAX: Final = 10_000  # C7
KEPT_MS_MAX: Final = 250  # The first attempt's wait for the subscriptions of a stored ticket.
SILENCE_MARGIN_MS: Final = 10_000  # L2
RESUBSCRIBE_CODE: Final = 2500
EVENTS_MAX: Final = 64
UNSENT_MAX: Final = 1024 * 1024  # U15
#: Codes of `spec/codes.toml` that the rules name.
UNAUTHORIZED: Final = 200
TICKET_REFUSED: Final = 204
CLOSE_TOKEN_EXPIRED: Final = 3007
CLOSE_UNAUTHORIZED: Final = 3502

Phase: TypeAlias = Literal["waiting", "token", "opening", "greeting", "ready", "closed"]


class Core:
    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.outputs: list[Output] = []
        self.state = State("connecting")
        self.counters = {"connections": 0, "unexpected": 0, "repeated": 0}
        self.events: deque[tuple[float, str, dict[str, Any]]] = deque(maxlen=EVENTS_MAX)
        #: The last measured round trip.
        self.round_trip_ms: float | None = None
        #: Publications wait, because the socket has too many unsent bytes: U15.
        self.is_blocked = False
        self._unsent = 0

        self._phase: Phase = "waiting"
        self._phase_since = 0.0
        self._wait_until = inf
        self._opened_at: float | None = None
        self._backoff = Backoff(settings.backoff, settings.random)
        count = len(settings.urls)
        # C3
        self._attempt = min(int(settings.random() * count), count - 1) if count > 1 else 0
        self._preferred: list[str] = []
        self._plan: server.GoAway | None = None
        self._closing: float | None = None

        self._silence_ms = 0
        self._last_received = 0.0
        self._pinged_at: float | None = None

        self._subscriptions = Subscriptions(self, settings.buffer_items, settings.buffer_bytes)
        self._calls = Calls(settings.producer_id, self)
        self._tickets = Tickets()
        self._tokens = Tokens(settings.token, settings.has_token_source)
        self._greeting = Greeting(self, settings, self._subscriptions, self._tickets, self._tokens)
        self._last_request = 0
        # `unauthorized` came in place of WELCOME.
        self._was_unauthorized = False
        self._last_end = State("closed")

    # The application's calls.

    def restore(self, now: float, clock_ms: float, kept: KeptTicket) -> None:
        """R11: takes the ticket of an earlier program, before `start`; `clock_ms` is the time since 1970."""
        self._tickets.restore(now, clock_ms, kept)

    def start(self, now: float) -> None:
        if self._phase == "closed":
            return
        if self._tickets.begin_to_await(self._subscriptions):
            self._wait_until = now + KEPT_MS_MAX
        else:
            self._connect(now)

    @property
    def held_ticket(self) -> object:
        """Another object for each ticket that the client holds, or None."""
        return self._tickets.held

    def kept_ticket(self) -> KeptTicket | None:
        """The ticket for the next program."""
        return self._tickets.kept_ticket(self._subscriptions)

    def check(self, wanted: str) -> None:
        """Refuses what `subscribe` would refuse."""
        self._refuse_if_closed()
        self._subscriptions.check(wanted)

    def subscribe(self, now: float, wanted: str, options: SubscribeOptions) -> CoreSubscription:
        self._refuse_if_closed()
        it = self._subscriptions.subscribe(wanted, options)
        self._tickets.changed(now)
        if self._tickets.have_come(self._subscriptions):
            self._connect(now)
        return it

    def unsubscribe(self, now: float, it: CoreSubscription) -> None:
        if it.end is None:
            self._subscriptions.unsubscribe(it)
            self._tickets.changed(now)

    def publish(self, now: float, publication: Publication) -> Call:
        self._refuse_if_closed()
        call = self._calls.publish(now, publication)
        self._pump()
        return call

    def history(
        self,
        now: float,
        topic: str,
        position: Place | None = None,
        reverse: bool = False,
        limit: int = 0,
        timeout_ms: float | None = None,
    ) -> Call:
        """One page: H1."""
        self._refuse_if_closed()
        call = self._calls.history(now, topic, position, reverse, limit, timeout_ms)
        self._pump()
        return call

    def abandon(self, now: float, call: Call) -> None:
        """Gives a call up: not sent yet, it never will be."""
        self._calls.expire(call)
        self._after(now)

    def renew(self, token: str) -> None:
        """T3, T6: continues with another token, on this connection and on all further ones."""
        if self._tokens.take(token) and self.is_greeted:
            self._tokens.is_due = True
            self._renew_if_due()

    def set_producer(self, producer_id: bytes) -> None:
        """Publishes `once` under this id from now on."""
        self._calls.producer_id = producer_id

    def close(self, now: float, drain_ms: float) -> None:
        """X1"""
        if self._phase != "closed" and self._closing is None:
            self._closing = now + drain_ms
            self._after(now)

    def take(self, now: float, it: CoreSubscription) -> Item | None:
        """The oldest item of a subscription's buffer."""
        item = it.take()
        if (it.is_paused or it.uses_credit) and it.end is None and self._subscriptions.refill(it):
            self._tickets.changed(now)
        return item

    def drained(self, now: float) -> None:
        """The socket has taken what was sent: U15."""
        self._unsent = 0
        if self.is_blocked:
            self.is_blocked = False
            self._after(now)

    @property
    def most_buffered(self) -> int:
        """Items of the fullest buffer that still fills."""
        filling = (it for it in self._subscriptions if it.is_granted and not it.options.skips)
        return max((it.count for it in filling), default=0)

    # What happens to the connection.

    def opened(self, now: float) -> None:
        if self._phase != "opening":
            return
        self._set_phase("greeting", now)
        self._opened_at = self._last_received = now
        self._pinged_at = None
        self._greeting.opened(now)

    def early(self, now: float) -> list[bytes]:
        """The frames to send with the handshake."""
        return self._greeting.early(now) if self._phase == "opening" else []

    def failed(self, now: float, status: int | None = None, retry_after_s: float | None = None) -> None:
        """The connection could not be opened: C6."""
        if status is None:
            self._lost(now, State("waiting", "network"), again=True)
            return
        again = status in (408, 425, 429) or 500 <= status <= 599 or self._greeting.failed(status)
        more_ms = min(retry_after_s or 0, 3_600) * 1_000
        self._lost(now, State("waiting", "refused", status=status), again, more_ms)

    def closed(self, now: float, code: int) -> None:
        """The peer has ended the connection; 1006: without a close frame."""
        if code == 1006:
            self._lost(now, State("waiting", "network"), again=True)
        else:
            self._lost(now, State("waiting", "closed", code), reconnects(code))

    def received(self, now: float, data: bytes | str) -> None:
        """One WebSocket message."""
        if self._phase != "ready" and self._phase != "greeting":
            return
        self._last_received = now  # L3
        if self._pinged_at is not None:
            self.round_trip_ms = now - self._pinged_at
            self._pinged_at = None
        frame: server.ServerFrame | None = quick_message(data) if type(data) is bytes else None
        if frame is None:
            try:
                if isinstance(data, str):
                    raise FrameError("text message")
                frame = server.decode(data)
            except FrameError as error:
                self._violate(now, error.error, error.unsupported)
                return
        # The commonest first. They change nothing that `_after` looks at.
        if self._phase == "ready":
            if type(frame) is server.TopicMessage:
                self._subscriptions.message(now, frame[0], frame[1], frame[2])
                return
            if type(frame) is server.NamedMessage:
                self._subscriptions.named(now, frame)
                return
        self._frame(now, frame)
        self._after(now)

    def token(self, now: float, number: int, token: str | None) -> None:
        """The token source has answered: T2, T5, T7."""
        asked = self._tokens.answered(number)
        if asked is None:
            return
        is_new = token is not None and token != self._tokens.token
        if asked.for_attempt:
            if asked.reason == "refused" and not is_new:
                self._terminate(now, self._last_end)
                return
            if token is not None:
                self._tokens.take(token)
            self._open(now)
        elif token is not None and is_new:
            self.renew(token)
        self._after(now)

    def token_failed(self, now: float, number: int, is_final: bool) -> None:
        """The token source has raised: T9."""
        asked = self._tokens.answered(number)
        if asked is None:
            return
        if is_final:
            if self._is_open:
                self.outputs.append(Close(1000))
            self._terminate(now, State("closed", "token"))
        elif asked.for_attempt:
            self._tokens.needed = asked.reason
            self._wait(now, State("waiting", "token"), self._backoff.next(0))
        else:
            self._tokens.retry_at = now + self._backoff.delay(self._tokens.failures)
            self._tokens.failures += 1

    def tick(self, now: float) -> None:
        """The time is now so late."""
        if self._phase == "closed":
            return
        if self._closing is not None and now >= self._closing:
            self._finish(now)
            return
        asked = self._tokens.asked
        if asked is not None and now >= asked.until:
            self.token_failed(now, asked.id, is_final=False)
        if self._calls.deadline <= now:
            self._calls.expire_due(now)
        if self._phase == "waiting":
            if now >= self._wait_until:
                self._connect(now)
        elif self._phase in ("opening", "greeting"):
            if now >= self._phase_since + OPEN_MS_MAX:
                self.outputs.append(Close(1006))
                self._lost(now, State("waiting", "timeout"), again=True)
        elif self._phase == "ready":
            self._tick_ready(now)
        self._after(now)

    @property
    def wake_at(self) -> float | None:
        """When `tick` is needed next."""
        if self._phase == "closed":
            return None
        times: list[float | None] = [self._closing, self._calls.deadline]
        if self._tokens.asked is not None:
            times.append(self._tokens.asked.until)
        if self._phase == "waiting":
            times.append(self._wait_until)
        elif self._phase in ("opening", "greeting"):
            times.append(self._phase_since + OPEN_MS_MAX)
        elif self._phase == "ready":
            if self._silence_ms:
                since = self._last_received if self._pinged_at is None else self._pinged_at
                times.append(since + self._silence_ms)
            times.append(self._tokens.retry_at)
            if self._plan is None:
                times += (self._tickets.ask_at, self._calls.retry_at)
                times += (it.retry_at for it in self._subscriptions)
        soonest = min((time for time in times if time is not None), default=inf)
        return None if soonest == inf else soonest

    def inspect(self) -> dict[str, Any]:
        """X6: no token, ticket or payload: T11."""
        state = self.state
        return {
            "state": state.state,
            "reason": state.reason,
            "code": state.code,
            "status": state.status,
            "round_trip_ms": self.round_trip_ms,
            "subscriptions": self._subscriptions.inspect(),
            "queue": self._calls.inspect(),
            "counters": {**self.counters, **self._subscriptions.totals},
            "events": [{"at_ms": at, "event": event, **fields} for at, event, fields in self.events],
        }

    # The parts' host.

    def request(self) -> int:
        self._last_request = 1 if self._last_request >= 0xFFFFFFFF else self._last_request + 1
        return self._last_request

    def send(self, data: bytes) -> None:
        self.outputs.append(Send(data))
        self._unsent += len(data)
        if self._unsent > UNSENT_MAX:
            self.is_blocked = True

    def settle(self, call: Call, error: CroreError | None, value: Published | server.HistoryPage | None) -> None:
        self.outputs.append(Settle(call, error, value))

    def repeated(self, count: int) -> None:
        self.counters["repeated"] += count
        self.note(self._last_received, "info", "repeated", count=count)

    def ready(self, it: CoreSubscription) -> None:
        self.outputs.append(Ready(it))

    def note(self, now: float, level: Level, event: str, **fields: Any) -> None:
        self.events.append((now, event, fields))
        if self._settings.logs:
            self.outputs.append(Log(level, event, fields))

    def unexpected(self, now: float, kind: str) -> None:
        """C9"""
        self.counters["unexpected"] += 1
        self.note(now, "debug", "unexpected_frame", frame=kind)

    def changed(self, now: float) -> None:
        self._tickets.changed(now)

    def was_brought(self, it: CoreSubscription) -> bool:
        return self._tickets.brings(it.number)

    @property
    def has_presented(self) -> bool:
        return self._tickets.was_presented

    @property
    def is_greeted(self) -> bool:
        return self._phase in ("greeting", "ready")

    @property
    def can_ask(self) -> bool:
        """Whether SUBSCRIBE may go out: G1."""
        return self.is_greeted and self._plan is None

    # Connections.

    @property
    def _is_open(self) -> bool:
        return self._phase in ("opening", "greeting", "ready")

    def _set_phase(self, phase: Phase, now: float) -> None:
        self._phase = phase
        self._phase_since = now

    def _set_state(self, state: State) -> None:
        self.state = state
        self.outputs.append(Changed(state))

    def _connect(self, now: float) -> None:
        """Begins the next attempt: first the token, if one is needed."""
        self._tickets.is_awaiting = False
        reason = self._tokens.needed
        if reason is None:
            self._open(now)
            return
        self._set_phase("token", now)
        self._ask_for_token(now, reason, for_attempt=True)

    def _ask_for_token(self, now: float, reason: TokenReason, for_attempt: bool) -> None:
        number = self._tokens.ask(now, reason, for_attempt)
        if number is not None:
            self.outputs.append(AskToken(number, reason))

    def _open(self, now: float) -> None:
        if self._preferred:
            url = self._preferred.pop(0)
        else:
            url = self._settings.urls[self._attempt % len(self._settings.urls)]
            self._attempt += 1
        self._set_phase("opening", now)
        self._opened_at = None
        self._was_unauthorized = False
        self.note(now, "debug", "connecting", url=url)
        if self.state.state != "connecting":
            self._set_state(State("connecting"))
        self.outputs.append(Connect(url))

    def _lost(self, now: float, state: State, again: bool, more_ms: float = 0) -> None:
        """The end of a connection or attempt; plans the next one."""
        if not self._is_open:
            return
        lasted = 0 if self._opened_at is None else now - self._opened_at
        if self._opened_at is not None:
            self.note(now, "info", "lost", reason=state.reason, code=state.code)
        self._disconnected(now)
        end = self._last_end = State("closed", state.reason, state.code, state.status)
        # T7
        is_refused = state.code == CLOSE_UNAUTHORIZED or self._was_unauthorized
        if is_refused and self._tokens.refused_once():
            again = True
            self._tokens.needed = "refused"
        elif is_refused and self._was_unauthorized:
            again = False
        elif state.code == CLOSE_TOKEN_EXPIRED and self._settings.has_token_source:
            self._tokens.needed = "expires"  # T5
        if not again:
            self._terminate(now, end)
            return
        plan, self._plan = self._plan, None
        if plan is None:
            self._wait(now, state, self._backoff.next(lasted) + more_ms)
        else:
            self._preferred = list(plan.urls)
            self._wait(now, state, plan.return_after_ms)

    def _disconnected(self, now: float) -> None:
        self._set_phase("waiting", now)
        self._greeting.connection_lost()
        self._subscriptions.connection_lost()
        self._tickets.connection_lost()
        self._tokens.connection_lost()
        self._calls.connection_lost()
        self.is_blocked = False
        self._unsent = 0
        self._silence_ms = 0

    def _wait(self, now: float, state: State, delay_ms: float) -> None:
        self._set_phase("waiting", now)
        self._wait_until = now + delay_ms
        self.note(now, "debug", "waiting", reason=state.reason, delay_ms=delay_ms)
        self._set_state(state)
        self._after(now)

    def _terminate(self, now: float, state: State) -> None:
        self._set_phase("closed", now)
        self._tokens.asked = None
        is_requested = state.reason == "requested"
        level: Level = "info" if is_requested else "error"
        self.note(now, level, "closed", reason=state.reason, code=state.code, status=state.status)
        self._set_state(state)
        self._calls.end()
        error = None if is_requested else closed_by(state)
        for it in self._subscriptions:
            self._subscriptions.remove(it, error)

    def _finish(self, now: float) -> None:
        """X1: the end that the application asked for."""
        if self._is_open:
            self.outputs.append(Close(1000))
        self._terminate(now, State("closed", "requested"))

    def _refuse_if_closed(self) -> None:
        if self._phase == "closed" or self._closing is not None:
            raise Closed("the client is closed")

    def _after(self, now: float) -> None:
        """Follows every input: leaves or ends once nothing is open any more."""
        if self._phase == "closed":
            return
        if self._plan is not None and self._is_open and self._calls.in_flight == 0:
            self._leave(now, self._plan)  # Comes back here.
            return
        if self._closing is not None and self._calls.is_idle:
            self._finish(now)
            return
        self._pump()
        if self._phase == "ready" and self._plan is None and self._tickets.wants_plan:
            self._tickets.plan(now, self._subscriptions.active())

    def _pump(self) -> None:
        if self._phase == "ready" and self._plan is None and not self.is_blocked:
            self._calls.pump()

    def _leave(self, now: float, plan: server.GoAway) -> None:
        """G1: leaves as GO_AWAY says."""
        self.outputs.append(Close(1000))
        self._lost(now, State("waiting", "go_away", plan.code), reconnects(plan.code))

    def _violate(self, now: float, what: str, is_unsupported: bool) -> None:
        """C8: the server breaks the protocol."""
        self.note(now, "error", "unexpected_frame", what=what)
        self.outputs.append(Close(1002))
        reason = "unsupported" if is_unsupported else "protocol"
        self._lost(now, State("waiting", reason), not is_unsupported)

    # Liveness.

    def _ping(self, now: float) -> None:
        self._pinged_at = now
        self.send(frames.ping(int(now)))

    def _tick_ready(self, now: float) -> None:
        if self._silence_ms:
            if self._pinged_at is None:
                if now - self._last_received >= self._silence_ms:
                    self._ping(now)
            elif now - self._pinged_at > 2 * self._silence_ms:
                # L5: the timer slept, and perhaps the answer waits behind it.
                self._ping(now)
            elif now - self._pinged_at >= self._silence_ms:
                self.outputs.append(Close(1006))
                self._lost(now, State("waiting", "idle"), again=True)
                return
        if self._tokens.retry_at is not None and now >= self._tokens.retry_at:
            self._tokens.retry_at = None
            self._ask_for_token(now, "expires", for_attempt=False)
        if self._plan is not None:
            return
        self._subscriptions.ask_due(now)
        if self._tickets.is_due(now) and len(self._subscriptions):
            if all(it.is_granted for it in self._subscriptions.active()):
                self._tickets.asked = self.request()
                self.send(frames.ticket(self._tickets.asked))
        self._calls.repeat_refused(now)

    # Frames.

    def _frame(self, now: float, frame: server.ServerFrame) -> None:
        is_first = isinstance(frame, server.Welcome | server.ErrorFrame | server.GoAway)
        if self._phase == "greeting" and not is_first:
            self._violate(now, f"{type(frame).__name__} before WELCOME", is_unsupported=False)
            return
        match frame:
            case server.PublishedFrame() | server.HistoryPage():
                if not self._calls.answer(frame):
                    self.unexpected(now, type(frame).__name__)
            case server.Ping():
                self.send(frames.pong(frame.token))  # L1
            case server.CaughtUpFrame():
                self._subscriptions.caught_up(now, frame)
            case server.GapFrame():
                self._subscriptions.gap(now, frame)
            case server.SkippedFrame():
                self._subscriptions.skipped(now, frame)
            case server.Subscribed():
                self._subscriptions.subscribed(now, frame)
            case server.Unsubscribed():
                self._unsubscribed(now, frame)
            case server.ErrorFrame():
                self._error(now, frame)
            case server.Welcome():
                self._welcome(now, frame)
            case server.GoAway():
                self._plan = frame
                self.note(now, "info", "go_away", code=frame.code, return_after_ms=frame.return_after_ms)
                if frame.ticket is not None:  # G5
                    self._tickets.hold(now, frame.ticket, self._granted)
            case server.TicketIssued():
                self._ticket_issued(now, frame)
            case server.Renewed():
                if self._tokens.settled(frame.request):
                    self.note(now, "debug", "token_renewed")
                    self._renew_if_due()
                else:
                    self.unexpected(now, "Renewed")
            case server.TokenExpires():  # T2
                self.note(now, "debug", "token_expires")
                if self._settings.has_token_source:
                    self._ask_for_token(now, "expires", for_attempt=False)
            case server.Pong() | server.TopicMessage() | server.NamedMessage():
                pass

    def _unsubscribed(self, now: float, frame: server.Unsubscribed) -> None:
        it = self._subscriptions.by_number.get(frame.subscription)
        if it is None:
            self.unexpected(now, "Unsubscribed")
            return
        again = frame.code >= RESUBSCRIBE_CODE
        self._subscriptions.refused(now, it, refusal(frame.code, again, "the server has ended the subscription"))

    def _ticket_issued(self, now: float, frame: server.TicketIssued) -> None:
        if self._tickets.asked != frame.request:
            self.unexpected(now, "TicketIssued")
            return
        self._tickets.asked = None
        expires_at = self._tickets.local(frame.expires_ms)
        self._tickets.hold(now, frame.ticket, self._granted, expires_at, frame.expires_ms)
        self.note(now, "debug", "ticket")

    @property
    def _granted(self) -> frozenset[int]:
        return frozenset(it.number for it in self._subscriptions.active() if it.is_granted)

    def _welcome(self, now: float, frame: server.Welcome) -> None:
        if self._phase == "ready":
            self._violate(now, "a second WELCOME", is_unsupported=False)
            return
        self.round_trip_ms = now - self._phase_since
        self._set_phase("ready", now)
        self.counters["connections"] += 1
        self._silence_ms = frame.ping_interval_s * 1_000 + SILENCE_MARGIN_MS if frame.ping_interval_s else 0
        self._calls.payload_max = frame.message_bytes_max
        self._tokens.accepted()
        self.note(now, "info", "connected", node=frame.node, connection=frame.connection, resumed=frame.resumed)
        self._set_state(State("live"))
        if self._plan is None:
            self._calls.repeat()
        self._renew_if_due()
        missing = self._tickets.welcomed(now, frame)
        if not missing:
            return
        if frame.resumed is None:
            self.note(now, "info", "ticket_refused")
        self._subscriptions.ask(it for it in self._subscriptions.active() if it.number in missing)

    def _renew_if_due(self) -> None:
        tokens = self._tokens
        if self._phase == "ready" and tokens.is_due and tokens.request is None and tokens.token is not None:
            tokens.is_due = False
            tokens.request = self.request()
            self.send(frames.renew(tokens.request, tokens.token))

    def _error(self, now: float, frame: server.ErrorFrame) -> None:
        restart = None if frame.restart is None else str(frame.restart)
        error = refusal(frame.code, frame.temporary, frame.message, restart, frame.limit)
        if frame.reference == 0:
            if frame.code == TICKET_REFUSED:
                return  # R5
            if self._phase == "greeting" and frame.code == UNAUTHORIZED:
                self._was_unauthorized = True
            self.outputs.append(Told(error))
        elif frame.reference == 2:
            it = self._subscriptions.by_number.get(frame.id)
            if it is None:
                self.unexpected(now, "ErrorFrame")
            else:
                self._subscriptions.refused(now, it, error)
        elif self._tickets.refused(now, frame):
            pass
        elif self._tokens.settled(frame.id):
            # T4
            self.note(now, "warning", "token_refused", code=frame.code)
            self.outputs.append(Told(error))
            self._renew_if_due()
        else:
            was_fenced = self._calls.is_fenced
            if not self._calls.refuse(now, frame.id, error):
                self.unexpected(now, "ErrorFrame")
            if self._calls.is_fenced and not was_fenced:
                self.note(now, "error", "fenced")
