"""
The blocking client: `crore.sync.connect`. The names are those of the asyncio client.

A client has one thread for its socket and timers. Callbacks of the application and its token source have a thread of
their own, so they may call the client. All methods may be called from any thread.
"""

from __future__ import annotations

import queue
import ssl as tls
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Literal, TypeAlias, TypeVar

from ._base import (
    DRAIN_S,
    Backoff,
    Data,
    ErrorListener,
    LogHook,
    Overflow,
    StateListener,
    Tags,
    check_storage,
    core_of,
    gap_error,
    milliseconds,
    page_of,
    publication_of,
    resumed,
    say,
    subscribe_options,
)
from ._codec.client import Policy, Start
from ._codec.server import HistoryPage
from ._core.calls import Call, Publication
from ._core.ends import closed_by
from ._core.outputs import (
    AskToken,
    Changed,
    Close,
    Connect,
    Level,
    Log,
    Output,
    Ready,
    Send,
    Settle,
    TokenReason,
    Told,
)
from ._core.subscription import CoreSubscription
from ._link import LINGER_S, Ended, Event, Failed, Opened
from ._reactor import Reactor, Socket
from ._sync_subscription import Messages, Subscription
from .errors import Closed, CroreError, Unauthorized, again
from .items import Item, Message, Page, Published, State
from .starts import LIVE, place_of
from .storage import Outbox, Storage, TicketStore, position_key

__all__ = ["Client", "Messages", "Subscription", "TokenSource", "connect"]

#: Called with the reason `first`, `expires` or `refused`; returns a token, or None for "no other".
TokenSource: TypeAlias = Callable[[TokenReason], "str | None"]
_T = TypeVar("_T")

#: How long the socket waits for a reader whose buffer fills, once for each quarter of the buffer.
ROOM_S = 0.05


def connect(
    urls: str | Sequence[str],
    *,
    token: str | TokenSource | None = None,
    name: str | None = None,
    producer_id: str | bytes | None = None,
    storage: Storage | None = None,
    persist: bool = False,
    store_tickets: bool = False,
    buffer_items: int = 1024,
    buffer_bytes: int = 1024 * 1024,
    handshake_frames: bool = False,
    backoff: Backoff = Backoff(),  # noqa: B008
    log: LogHook | None = None,
    ssl: tls.SSLContext | None = None,
) -> Client:
    """
    A client of one or several nodes. It connects at once and for ever; nothing waits for the connection but the calls
    themselves. Use it as `with crore.sync.connect(url) as client:`. The options are those of `crore.connect`.
    """
    return Client(
        urls,
        token=token,
        name=name,
        producer_id=producer_id,
        storage=storage,
        persist=persist,
        store_tickets=store_tickets,
        buffer_items=buffer_items,
        buffer_bytes=buffer_bytes,
        handshake_frames=handshake_frames,
        backoff=backoff,
        log=log,
        ssl=ssl,
    )


class Client:
    """A client of Crore for programs without an event loop. Made by `connect`."""

    def __init__(
        self,
        urls: str | Sequence[str],
        *,
        token: str | TokenSource | None,
        name: str | None,
        producer_id: str | bytes | None,
        storage: Storage | None,
        persist: bool,
        store_tickets: bool,
        buffer_items: int,
        buffer_bytes: int,
        handshake_frames: bool,
        backoff: Backoff,
        log: LogHook | None,
        ssl: tls.SSLContext | None,
    ) -> None:
        self._core = core_of(
            urls,
            token=token,
            name=name,
            producer_id=producer_id,
            buffer_items=buffer_items,
            buffer_bytes=buffer_bytes,
            handshake_frames=handshake_frames,
            backoff=backoff,
        )
        # The core's; nothing of the application runs while it is held.
        self._lock = threading.Lock()
        self._token_source = token if callable(token) else None
        self._log = log
        self._tls = ssl
        self._storage = storage
        self._socket: Socket | None = None
        self._state_listeners: list[StateListener] = []
        self._error_listeners: list[ErrorListener] = []
        self._callbacks: queue.SimpleQueue[Callable[[], object] | None] = queue.SimpleQueue()
        self._callback_thread: threading.Thread | None = None
        # Held until the client is closed. An event takes 20 times as much memory.
        self._open = threading.Lock()
        self._open.acquire()
        self._outbox: Outbox | None = None
        # Order of storing and sending.
        self._storing = threading.Lock()
        check_storage(persist, store_tickets, storage, producer_id)
        if persist and storage is not None:
            self._outbox = Outbox(storage, name)
            producer, left = self._outbox.load()
            self._core.set_producer(producer)
            for publication in left:
                self._forget_when_answered(self._outbox, self._core.publish(self._now(), publication), publication)
        self._is_flushing = False
        # Messages handed on at once.
        self._slice = max(1, buffer_items // 4)
        self._awaits_room = False
        # Made when somebody waits for the first time.
        self._has_room: threading.Event | None = None
        self._reactor = Reactor(self)
        self._tickets: TicketStore | None = None
        if store_tickets and storage is not None:
            self._tickets = TicketStore(storage, name)
            kept = self._tickets.load()
            if kept is not None:
                self._core.restore(self._now(), time.time() * 1000, kept)
        self._core.start(self._now())
        self._reactor.start()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(drain=DRAIN_S if kind is None else 0)

    # What the application sees.

    @property
    def state(self) -> State:
        """The state of the connection."""
        return self._core.state

    def on_state(self, listener: StateListener) -> Callable[[], None]:
        """Calls back at each change of the state; returns what ends that."""
        return _listen(self._state_listeners, listener)

    def on_error(self, listener: ErrorListener) -> Callable[[], None]:
        """Calls back for refusals that belong to no call, such as that of a renewed token."""
        return _listen(self._error_listeners, listener)

    def ready(self, timeout: float | None = None) -> None:
        """Returns when the client is live; raises `Closed` if it never will be, `TimeoutError` after the timeout."""
        changed = threading.Event()
        stop = self.on_state(lambda _: changed.set())
        until = None if timeout is None else time.monotonic() + timeout
        try:
            while self.state.state != "live":
                if self.state.state == "closed":
                    raise closed_by(self.state)
                if not changed.wait(None if until is None else max(0.0, until - time.monotonic())):
                    raise TimeoutError("the client is not live yet")
                changed.clear()
        finally:
            stop()

    def subscribe(
        self,
        topic: str,
        start: Start = LIVE,
        *,
        fail_on_gap: bool = False,
        policy: Policy | None = None,
        overflow: Overflow = "pause",
        name: str | None = None,
    ) -> Subscription:
        """Subscribes to a topic or filter, connected or not: see the asyncio client."""
        options = subscribe_options(start, fail_on_gap, policy, overflow)
        key = ""
        if name is not None and self._storage is not None:
            key = position_key(name)
            options = resumed(options, topic, self._storage.get(key))
        with self._lock:
            it = self._core.subscribe(self._now(), topic, options)
            subscription = Subscription(topic, self, it, key)
            it.reader = subscription
        self._reactor.wake()
        return subscription

    def publish(
        self,
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
    ) -> Published:
        """Publishes bytes, text, or anything else as JSON, and waits for its position: see the asyncio client."""
        future = self.publish_later(
            topic,
            data,
            once=once,
            key=key,
            retain=retain,
            content_type=content_type,
            tags=tags,
            expected_epoch=expected_epoch,
            timeout=timeout,
        )
        return future.result()

    def publish_later(
        self,
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
    ) -> Future[Published]:
        """Like `publish`, but does not wait: many publications may be on their way."""
        publication = publication_of(
            topic,
            data,
            once=once,
            key=key,
            retain=retain,
            content_type=content_type,
            tags=tags,
            expected_epoch=expected_epoch,
            timeout=timeout,
        )
        if self._outbox is None or not once or key is not None:
            return self._begin(lambda: self._core.publish(self._now(), publication))
        # U13: stored first, then sent, in the order of the calls.
        outbox = self._outbox
        with self._storing:
            stored = outbox.store(publication)
            calls: list[Call] = []

            def begin() -> Call:
                calls.append(self._core.publish(self._now(), stored))
                return calls[0]

            try:
                future: Future[Published] = self._begin(begin)
            except CroreError:
                outbox.forget(stored.sequence or 0)
                raise
        self._forget_when_answered(outbox, calls[0], stored)
        return future

    def history(
        self,
        topic: str,
        *,
        after: str | None = None,
        reverse: bool = False,
        limit: int | None = None,
        gaps: Literal["raise", "report"] = "raise",
        timeout: float | None = None,
    ) -> Iterator[Message]:
        """The messages of a topic's log behind a position (reverse: before), page by page."""
        while limit is None or limit > 0:
            page = self.history_page(topic, after=after, reverse=reverse, limit=limit or 0, timeout=timeout)
            if page.gap is not None and gaps == "raise":
                raise gap_error(page.gap)
            yield from page.messages
            if not page.more or not page.messages:
                return
            after = page.messages[-1].position
            if limit is not None:
                limit -= len(page.messages)

    def history_page(
        self,
        topic: str,
        *,
        after: str | None = None,
        reverse: bool = False,
        limit: int = 0,
        timeout: float | None = None,
    ) -> Page:
        """One page of a topic's log."""
        position = None if after is None else place_of(after)
        future: Future[HistoryPage] = self._begin(
            lambda: self._core.history(self._now(), topic, position, reverse, limit, milliseconds(timeout))
        )
        return page_of(future.result())

    def renew(self, token: str) -> None:
        """Continues with another token of the same subject."""
        with self._lock:
            self._core.renew(token)
        self._reactor.wake()

    def inspect(self) -> dict[str, Any]:
        """State, round trip, subscriptions, queue, counters, the last 64 events; no token and no payload."""
        with self._lock:
            return self._core.inspect()

    def close(self, *, drain: float = DRAIN_S) -> None:
        """Waits for the answers of open calls, at most `drain` seconds, then leaves for good."""
        with self._lock:
            self._core.close(self._now(), drain * 1000)
        self._reactor.wake()
        if threading.current_thread() is self._reactor.thread:
            return
        with self._open:
            pass
        self._reactor.thread.join(3 * LINGER_S)

    # Calls.

    def _begin(self, call: Callable[[], Call]) -> Future[Any]:
        future: Future[Any] = Future()
        with self._lock:
            # The thread settles it after the lock is free.
            begun = call()
            begun.waiter = future
        self._reactor.wake()
        return future

    def _forget_when_answered(self, outbox: Outbox, call: Call, publication: Publication) -> None:
        future: Future[Any] = call.waiter or Future[Any]()
        call.waiter = future

        def answered(done: Future[Any]) -> None:
            error = done.exception()
            # What the end of the program leaves unanswered is for the next one.
            if error is None or (self.state.state != "closed" and not isinstance(error, Closed)):
                outbox.forget(publication.sequence or 0)

        future.add_done_callback(answered)

    def take(self, it: CoreSubscription) -> Item | None:
        with self._lock:
            item = self._core.take(self._now() if it.is_paused else 0, it)
            has_outputs = bool(self._core.outputs)
        self.taken(it)
        if has_outputs:
            self._reactor.wake()
        return item

    def taken(self, it: CoreSubscription) -> None:
        has_room = self._has_room
        if has_room is not None and self._awaits_room and it.count <= self._slice:
            has_room.set()

    def end(self, it: CoreSubscription) -> None:
        with self._lock:
            self._core.unsubscribe(self._now(), it)
        self._reactor.wake()

    def save(self, key: str, text: str) -> None:
        if self._storage is not None:
            self._storage.set(key, text)

    # The shell: outputs of the core become acts. These run in the client's thread.

    def _now(self) -> float:
        return time.monotonic() * 1000

    def on_wake(self) -> float | None:
        """Carries out what is due; returns when to wake, by the monotonic clock."""
        with self._lock:
            wake_at = self._core.wake_at
            if wake_at is not None and wake_at <= self._now():
                self._core.tick(self._now())
        self._flush()
        with self._lock:
            wake_at = self._core.wake_at
            if self._core.outputs:
                return 0
        return None if wake_at is None else wake_at / 1000

    def early(self) -> list[bytes]:
        with self._lock:
            return self._core.early(self._now())

    def on_writable(self) -> None:
        with self._lock:
            self._core.drained(self._now())

    def on_events(self, socket: Socket, events: list[Event], detail: str = "") -> None:
        """
        Takes what a connection says, in parts: readers take theirs in between, so that a large read does not fill the
        buffer of a reader that keeps up.
        """
        if detail:
            self._say("debug", "lost", {"detail": detail})
        for begin in range(0, len(events), self._slice):
            if socket is not self._socket:
                return
            with self._lock:
                core, now = self._core, self._now()
                for event in events[begin : begin + self._slice]:
                    if isinstance(event, bytes) or isinstance(event, str):
                        core.received(now, event)
                    elif not self._on_event(socket, event):
                        break
            self._flush()
            if self._is_filling:
                self._await_room()

    @property
    def _is_filling(self) -> bool:
        with self._lock:
            return self._core.most_buffered > 2 * self._slice

    def _await_room(self) -> None:
        has_room = self._has_room
        if has_room is None:
            has_room = self._has_room = threading.Event()
        has_room.clear()
        self._awaits_room = True
        # The reader may have taken everything before it could know that somebody waits.
        if self._is_filling:
            has_room.wait(ROOM_S)
        self._awaits_room = False

    def _on_event(self, socket: Socket, event: Opened | Failed | Ended) -> bool:
        """Any event but a message; False after the end."""
        core, now = self._core, self._now()
        if isinstance(event, Opened):
            core.opened(now)
            return True
        self._socket = None
        socket.is_mine = False
        if isinstance(event, Ended):
            core.closed(now, event.code)
        else:
            core.failed(now, event.status, event.retry_after_s)
        if not socket.is_gone:
            socket.abort_at = time.monotonic() + LINGER_S
            self._reactor.leaving.append(socket)
        return False

    def _flush(self) -> None:
        if self._is_flushing:
            return
        self._is_flushing = True
        try:
            self._carry_out_all()
        finally:
            self._is_flushing = False

    def _carry_out_all(self) -> None:
        while True:
            with self._lock:
                outputs, self._core.outputs = self._core.outputs, []
                saving = None if self._tickets is None else self._tickets.news(self._core)
            if saving is not None:
                self._call_back(saving)
            if not outputs:
                return
            for output in outputs:
                self._carry_out(output)
            socket = self._socket
            if socket is not None:
                socket.write()
                if not socket.is_paused:
                    self.on_writable()

    def _carry_out(self, output: Output) -> None:
        match output:
            case Send(data):
                if self._socket is not None:
                    self._socket.link.send(data)
            case Ready(it):
                if isinstance(it.reader, Subscription):
                    it.reader.wake()
            case Settle(call, error, value):
                future: Future[Any] | None = call.waiter
                if future is not None:
                    if error is None:
                        future.set_result(value)
                    else:
                        future.set_exception(again(error))
            case Connect(url):
                self._socket = Socket(self._reactor, url, self._tls_context)
                self._socket.dial()
            case Close(code):
                socket, self._socket = self._socket, None
                if socket is not None:
                    socket.leave(code)
                    self._reactor.leaving.append(socket)
            case AskToken(number, reason):
                threading.Thread(target=self._token, args=(number, reason), name="crore-token", daemon=True).start()
            case Changed(state):
                for listener in list(self._state_listeners):
                    self._call_back(listener, state)
                if state.state == "closed":
                    self._reactor.stop()
                    self._end_callbacks()
                    self._open.release()
            case Told(refusal):
                for error_listener in list(self._error_listeners):
                    self._call_back(error_listener, refusal)
            case Log(level, event, fields):
                self._say(level, event, fields)

    def _say(self, level: Level, event: str, fields: dict[str, Any]) -> None:
        if self._log is None:
            say(level, event, fields)
        else:
            self._call_back(self._log, level, event, fields)

    def _tls_context(self) -> tls.SSLContext:
        if self._tls is None:
            self._tls = tls.create_default_context()
        return self._tls

    # Callbacks.

    def _call_back(self, callback: Callable[..., object], *arguments: object) -> None:
        """X5: in a thread of its own, so a callback may call the client."""
        if self._callback_thread is None:
            self._callback_thread = threading.Thread(target=self._run_callbacks, name="crore-callbacks", daemon=True)
            self._callback_thread.start()
        self._callbacks.put(lambda: callback(*arguments))

    def _end_callbacks(self) -> None:
        if self._callback_thread is not None:
            self._callbacks.put(None)

    def _run_callbacks(self) -> None:
        while True:
            callback = self._callbacks.get()
            if callback is None:
                return
            try:
                callback()
            except Exception as error:
                self.callback_failed(error)

    def callback_failed(self, error: BaseException) -> None:
        fields = {"error": repr(error)}
        try:
            (self._log or say)("error", "callback_failed", fields)
        except Exception:
            say("error", "callback_failed", {"error": "the log hook raises"})

    def _token(self, number: int, reason: TokenReason) -> None:
        """T9"""
        assert self._token_source is not None
        try:
            token = self._token_source(reason)
        except Exception as error:
            # T11: the text of an error may have the token.
            self.callback_failed(RuntimeError(f"the token source raised {type(error).__name__}"))
            with self._lock:
                self._core.token_failed(self._now(), number, isinstance(error, Unauthorized))
        else:
            with self._lock:
                self._core.token(self._now(), number, token)
        self._reactor.wake()


def _listen(listeners: list[_T], listener: _T) -> Callable[[], None]:
    listeners.append(listener)

    def stop() -> None:
        if listener in listeners:
            listeners.remove(listener)

    return stop
