"""The asyncio client. The package's own names, such as `crore.connect`, are those of this module."""

from __future__ import annotations

import asyncio
import inspect
import ssl as tls
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
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
from ._connection import Connection
from ._core.calls import Call, Publication
from ._core.ends import closed_by
from ._core.outputs import AskToken, Changed, Close, Connect, Log, Output, Ready, Send, Settle, TokenReason, Told
from ._core.subscription import CoreSubscription, SubscribeOptions
from ._link import LINGER_S, Ended, Event, Opened
from ._subscription import Subscription
from .errors import Closed, CroreError, Unauthorized, again
from .items import Item, Message, Page, Published, State
from .starts import LIVE, place_of
from .storage import Outbox, Storage, TicketStore, position_key

#: Called with the reason `first`, `expires` or `refused`; returns a token, or None for "no other".
TokenSource: TypeAlias = Callable[[TokenReason], "str | None | Awaitable[str | None]"]

_T = TypeVar("_T")


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
    A client of one or several nodes, such as `wss://example.com`. It connects at once and for ever; nothing waits for
    the connection but the calls themselves. Use it as `async with crore.connect(url) as client:`.

    - `token`: a bearer token, or a function (also a coroutine function) that returns one.
    - `name`: shown in the node's logs.
    - `producer_id`: the id of `once` publications; random if it is not given.
    - `storage`: keeps the positions of subscriptions with a name; with `persist` also `once` publications, and with
      `store_tickets` the resume ticket, which is a secret: the next start resumes all of them at once.
    - `buffer_items`, `buffer_bytes`: bounds of each subscription's buffer.
    - `handshake_frames`: the first frames, with the token, go out with the handshake, which saves a round trip. Proxies
      on the way should accept a head of 12 KiB, and must not log it.
    - `log`: gets the events of the log, in place of the logger `crore`.
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
    """
    A client of Crore. It comes back by itself for as long as that makes sense; subscriptions and `once` publications
    outlive connections. Made by `connect`, inside a running event loop.
    """

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
        self._loop = asyncio.get_running_loop()
        self._token_source = token if callable(token) else None
        self._log: LogHook = say if log is None else log
        self._tls = ssl
        self._storage = storage
        self._executor = None if storage is None else ThreadPoolExecutor(1, "crore-storage")
        #: Messages handed on in one turn of the loop: a reader that keeps up is never full.
        self.slice = max(1, buffer_items // 4)
        self._connection: Connection | None = None
        self._leaving: set[asyncio.Future[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._is_flushing = self._is_flush_planned = False
        self._state_listeners: list[StateListener] = []
        self._error_listeners: list[ErrorListener] = []
        self._named: set[Subscription] = set()
        self._token_task: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._closed = asyncio.Event()
        self._outbox: Outbox | None = None
        self._loading: asyncio.Task[None] | None = None
        self._storing = 0
        check_storage(persist, store_tickets, storage, producer_id)
        if persist and storage is not None:
            self._outbox = Outbox(storage, name)
            self._loading = self.spawn(self._load(self._outbox))
        self._tickets: TicketStore | None = None
        if store_tickets and storage is not None:
            self._tickets = TicketStore(storage, name)
            self.spawn(self._start_with(self._tickets))
        else:
            self._core.start(self._now())
        self._flush()

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close(drain=DRAIN_S if kind is None else 0)

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

    async def ready(self) -> None:
        """Returns when the client is live; raises `Closed` only if it never will be."""
        while self.state.state != "live":
            if self.state.state == "closed":
                raise closed_by(self.state)
            changed: asyncio.Future[None] = self._loop.create_future()
            stop = self.on_state(lambda _, changed=changed: changed.done() or changed.set_result(None))  # type: ignore[misc]
            try:
                await changed
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
        """
        Subscribes to a topic or filter, connected or not. Raises `InvalidArgument`, `AlreadySubscribed` and `Closed`; a
        refusal of the server is raised by the reader.

        - `start`: `LIVE`, `since(position)`, `since_each({partition: position})`, `last(count)` or `SNAPSHOT`.
        - `fail_on_gap`: end with `position_unavailable` and `restart` if the position can no longer be served.
        - `policy`: what the server does when this subscription lags.
        - `overflow`: a full buffer pauses the subscription, and the server's log is the queue; `skip` drops the oldest.
        - `name`: with a storage, the subscription resumes from what was processed under this name.
        """
        options = subscribe_options(start, fail_on_gap, policy, overflow)
        self._core.check(topic)
        subscription = Subscription(topic, self)
        if name is None or self._storage is None:
            self._begin(subscription, options)
        else:
            subscription.key = position_key(name)
            self._named.add(subscription)
            self.spawn(self._resume(subscription, options))
        return subscription

    async def publish(
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
        """
        Publishes bytes, text, or anything else as JSON; returns the position in the log.

        At most once by default: `Unknown` if the answer never came. With `once` (or a `key`, unique for the topic) the
        client repeats it over connections until it is answered: exactly once. `timeout` is 10 s, with `once` 60 s.
        """
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
        if self._outbox is not None and once and key is None:
            return await self._publish_stored(self._outbox, publication)
        return await self._answer(self._core.publish(self._now(), publication), Published)

    async def history(
        self,
        topic: str,
        *,
        after: str | None = None,
        reverse: bool = False,
        limit: int | None = None,
        gaps: Literal["raise", "report"] = "raise",
        timeout: float | None = None,
    ) -> AsyncIterator[Message]:
        """The messages of a topic's log behind a position (reverse: before), page by page."""
        while limit is None or limit > 0:
            page = await self.history_page(topic, after=after, reverse=reverse, limit=limit or 0, timeout=timeout)
            if page.gap is not None and gaps == "raise":
                raise gap_error(page.gap)
            for message in page.messages:
                yield message
            if not page.more or not page.messages:
                return
            after = page.messages[-1].position
            if limit is not None:
                limit -= len(page.messages)

    async def history_page(
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
        call = self._core.history(self._now(), topic, position, reverse, limit, milliseconds(timeout))
        return page_of(await self._answer(call, HistoryPage))

    def renew(self, token: str) -> None:
        """Continues with another token of the same subject."""
        self._core.renew(token)
        self._flush()

    def inspect(self) -> dict[str, Any]:
        """State, round trip, subscriptions, queue, counters, the last 64 events; no token and no payload."""
        return self._core.inspect()

    async def close(self, *, drain: float = DRAIN_S) -> None:
        """Waits for the answers of open calls, at most `drain` seconds, then leaves for good."""
        while self._storing and not self._closed.is_set():
            # What was published before is being stored.
            await asyncio.sleep(0)
            await self._in_storage(int)
        self._core.close(self._now(), drain * 1000)
        self._flush()
        await self._closed.wait()
        if self._leaving:
            await asyncio.wait(self._leaving, timeout=2 * LINGER_S)
        for subscription in self._named:
            await subscription.saved()
        while self._tasks - {asyncio.current_task()}:
            await asyncio.wait(self._tasks - {asyncio.current_task()})
        if self._executor is not None:
            self._executor.shutdown(wait=False)

    # Storage.

    async def _in_storage(self, act: Callable[..., _T], *arguments: Any) -> _T:
        return await self._loop.run_in_executor(self._executor, act, *arguments)

    def spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _resume(self, subscription: Subscription, options: SubscribeOptions) -> None:
        """R11: begins at the stored position."""
        try:
            assert self._storage is not None
            text = await self._in_storage(self._storage.get, subscription.key)
            options = resumed(options, subscription.topic, text)
        except Exception as error:
            self.callback_failed(error)
        if subscription.is_ended:
            return
        try:
            self._begin(subscription, options)
        except CroreError as error:
            subscription.fail(error)

    async def save(self, key: str, text: str) -> None:
        try:
            assert self._storage is not None
            await self._in_storage(self._storage.set, key, text)
        except Exception as error:
            self.callback_failed(error)

    async def _start_with(self, tickets: TicketStore) -> None:
        """R11: begins with the ticket of an earlier program."""
        try:
            kept = await self._in_storage(tickets.load)
            if kept is not None:
                self._core.restore(self._now(), time.time() * 1000, kept)
        except Exception as error:
            self.callback_failed(error)
        self._core.start(self._now())
        self._flush()

    async def _save_ticket(self, act: Callable[[], None]) -> None:
        try:
            await self._in_storage(act)
        except Exception as error:
            self.callback_failed(error)

    async def _load(self, outbox: Outbox) -> None:
        try:
            producer, left = await self._in_storage(outbox.load)
            self._core.set_producer(producer)
            for publication in left:
                self.spawn(self._send_stored(outbox, publication, is_left=True))
        except Exception as error:
            self.callback_failed(error)
            raise

    async def _publish_stored(self, outbox: Outbox, publication: Publication) -> Published:
        """U13: stored first, then sent, in the order of the calls."""
        assert self._loading is not None
        self._storing += 1
        storing = self.spawn(self._store(outbox, publication))
        storing.add_done_callback(self._stored)
        try:
            stored: Publication = await asyncio.shield(storing)
        except asyncio.CancelledError:
            storing.add_done_callback(lambda task: self._forget_unsent(outbox, task))
            raise
        return await self._send_stored(outbox, stored)

    def _stored(self, task: asyncio.Task[Publication]) -> None:
        self._storing -= 1

    def _forget_unsent(self, outbox: Outbox, task: asyncio.Task[Publication]) -> None:
        if not task.cancelled() and task.exception() is None and task.result().sequence is not None:
            self.spawn(self._in_storage(outbox.forget, task.result().sequence))

    async def _store(self, outbox: Outbox, publication: Publication) -> Publication:
        assert self._loading is not None
        await asyncio.shield(self._loading)
        return await self._in_storage(outbox.store, publication)

    async def _send_stored(self, outbox: Outbox, publication: Publication, is_left: bool = False) -> Published:
        sequence = publication.sequence
        assert sequence is not None
        try:
            published = await self._answer(self._core.publish(self._now(), publication), Published)
        except BaseException as error:
            # What the end of the program leaves unanswered is for the next one.
            if self.state.state != "closed" and not isinstance(error, Closed):
                self.spawn(self._in_storage(outbox.forget, sequence))
            if is_left and isinstance(error, CroreError):
                self.callback_failed(error)
                return Published("0:0", False)
            raise
        await self._in_storage(outbox.forget, sequence)
        return published

    # The shell: outputs of the core become acts, and events of the platform inputs.

    def _now(self) -> float:
        return self._loop.time() * 1000

    def _begin(self, subscription: Subscription, options: SubscribeOptions) -> None:
        it = self._core.subscribe(self._now(), subscription.topic, options)
        it.reader = subscription
        subscription.begin(it)
        self._flush()

    async def _answer(self, call: Call, kind: type[_T]) -> _T:
        future: asyncio.Future[_T] = self._loop.create_future()
        call.waiter = future
        self._plan_flush()
        try:
            return await future
        except asyncio.CancelledError:
            self._core.abandon(self._now(), call)
            self._flush()
            raise

    def take(self, it: CoreSubscription) -> Item | None:
        item = self._core.take(self._now() if it.is_paused else 0, it)
        if self._core.outputs:
            self._plan_flush()
        return item

    def end(self, it: CoreSubscription) -> None:
        self._core.unsubscribe(self._now(), it)
        self._flush()

    def _plan_flush(self) -> None:
        """U15: writes of one turn leave together."""
        if not self._is_flush_planned:
            self._is_flush_planned = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        if self._is_flushing:
            return
        self._is_flushing = True
        self._is_flush_planned = False
        core = self._core
        while core.outputs:
            outputs, core.outputs = core.outputs, []
            for output in outputs:
                self._carry_out(output)
            if not core.outputs:
                self._write()
        self._is_flushing = False
        saving = None if self._tickets is None else self._tickets.news(core)
        if saving is not None:
            self.spawn(self._save_ticket(saving))
        self._set_timer()

    def _write(self) -> None:
        connection = self._connection
        if connection is not None:
            connection.write()
            if not connection.is_paused:
                self._core.drained(self._now())

    def _carry_out(self, output: Output) -> None:
        match output:
            case Send(data):
                if self._connection is not None:
                    self._connection.link.send(data)
            case Ready(it):
                if isinstance(it.reader, Subscription):
                    it.reader.wake()
            case Settle(call, error, value):
                future: asyncio.Future[Any] | None = call.waiter
                if future is not None and not future.done():
                    if error is None:
                        future.set_result(value)
                    else:
                        future.set_exception(again(error))
            case Connect(url):
                self._connection = Connection(self, url)
            case Close(code):
                self._leave(code)
            case AskToken(number, reason):
                self._ask_token(number, reason)
            case Changed(state):
                if state.state == "closed":
                    self._stop()
                for listener in list(self._state_listeners):
                    self._safely(listener, state)
            case Told(refusal):
                for error_listener in list(self._error_listeners):
                    self._safely(error_listener, refusal)
            case Log(level, event, fields):
                self._safely(self._log, level, event, fields)

    def _safely(self, callback: Callable[..., object], *arguments: object) -> None:
        """X5: a callback that raises harms nobody else."""
        try:
            callback(*arguments)
        except Exception as error:
            self.callback_failed(error)

    def callback_failed(self, error: BaseException) -> None:
        try:
            self._log("error", "callback_failed", {"error": repr(error)})
        except Exception:
            say("error", "callback_failed", {"error": "the log hook raises"})

    def _leave(self, code: int) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.leave(code)
            self._keep_leaving(connection)

    def _keep_leaving(self, connection: Connection) -> None:
        if not connection.gone.done():
            self._leaving.add(connection.gone)
            connection.gone.add_done_callback(self._leaving.discard)

    def on_events(self, connection: Connection, events: list[Event], detail: str) -> None:
        """What a connection says."""
        core, now = self._core, self._now()
        for event in events:
            if connection is not self._connection:
                return
            if isinstance(event, bytes) or isinstance(event, str):
                core.received(now, event)
            elif isinstance(event, Opened):
                core.opened(now)
            else:
                self._connection = None
                connection.client = None
                self._keep_leaving(connection)
                if isinstance(event, Ended):
                    core.closed(now, event.code)
                else:
                    if detail:
                        self._safely(self._log, "debug", "lost", {"detail": detail})
                    core.failed(now, event.status, event.retry_after_s)
                if connection.transport is not None:
                    connection.write()
                    connection.transport.close()
                break
        self._flush()

    def early(self) -> list[bytes]:
        return self._core.early(self._now())

    def on_writable(self) -> None:
        self._core.drained(self._now())
        self._flush()

    def tls_context(self) -> tls.SSLContext:
        if self._tls is None:
            self._tls = tls.create_default_context()
        return self._tls

    def _ask_token(self, number: int, reason: TokenReason) -> None:
        """T9"""
        if self._token_task is not None:
            self._token_task.cancel()
        self._token_task = self.spawn(self._token(number, reason))

    async def _token(self, number: int, reason: TokenReason) -> None:
        assert self._token_source is not None
        try:
            answer = self._token_source(reason)
            token = await answer if inspect.isawaitable(answer) else answer
        except Exception as error:
            # T11: the text of an error may have the token.
            self.callback_failed(RuntimeError(f"the token source raised {type(error).__name__}"))
            self._core.token_failed(self._now(), number, isinstance(error, Unauthorized))
        else:
            self._core.token(self._now(), number, token)
        self._flush()

    def _set_timer(self) -> None:
        wake_at = self._core.wake_at
        if self._timer is not None:
            # A timer that fires too early only looks again.
            if wake_at is not None and self._timer.when() * 1000 <= wake_at:
                return
            self._timer.cancel()
            self._timer = None
        if wake_at is not None:
            self._timer = self._loop.call_at(wake_at / 1000, self._tick)

    def _tick(self) -> None:
        self._timer = None
        self._core.tick(self._now())
        self._flush()

    def _stop(self) -> None:
        """The client has ended: nothing of it stays behind."""
        if self._token_task is not None and self._token_task is not asyncio.current_task():
            self._token_task.cancel()
        self._closed.set()


def _listen(listeners: list[_T], listener: _T) -> Callable[[], None]:
    listeners.append(listener)

    def stop() -> None:
        if listener in listeners:
            listeners.remove(listener)

    return stop
