"""The reader's side of a subscription of the blocking client."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Literal, Protocol

from ._base import ENDED, gap_error
from ._core.subscription import CoreSubscription
from .errors import Closed, again
from .items import Gap, Item, Message, Report
from .storage import processed_text


class Keeper(Protocol):
    """What a subscription needs of its client."""

    def take(self, it: CoreSubscription) -> Item | None: ...
    def taken(self, it: CoreSubscription) -> None: ...
    def end(self, it: CoreSubscription) -> None: ...
    def save(self, key: str, text: str) -> None: ...
    def callback_failed(self, error: BaseException) -> None: ...


class Subscription:
    """
    The items of one topic or filter, over all connections, in the log's order: `for item in subscription`. It has one
    reader: an item counts as processed when the reader asks for the next one.
    """

    def __init__(self, topic: str, client: Keeper, core: CoreSubscription, key: str) -> None:
        #: The topic or filter.
        self.topic = topic
        self._client = client
        self._core = core
        self._key = key
        self._saved = ""
        self._news = threading.Condition()
        self._has_news = False
        # Of the reader alone: the thread that pushes does not wait for it.
        self._reading = threading.Lock()

    def __enter__(self) -> Subscription:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def wake(self) -> None:
        with self._news:
            self._has_news = True
            self._news.notify_all()

    def next(self, timeout: float | None = None) -> Item | None:
        """
        The next item; None after the end. Raises if the server or the client has ended it, and `TimeoutError` if there
        is none in time (seconds).
        """
        if self._key:
            self._store()
        else:
            with self._reading:
                item = self._core.take_plain()
            if item is not None:
                self._client.taken(self._core)
                return item
        return self._wait_for_item(timeout)

    def _wait_for_item(self, timeout: float | None) -> Item | None:
        until = None if timeout is None else time.monotonic() + timeout
        core = self._core
        while True:
            with self._reading:
                item = self._client.take(core)
            if item is not None:
                return item
            end = core.end
            if end is not None:
                if end.error is not None:
                    raise again(end.error)
                return None
            with self._news:
                wait = None if until is None else max(0.0, until - time.monotonic())
                if not self._news.wait_for(lambda: self._has_news, wait):
                    raise TimeoutError("no item in time")
                self._has_news = False
            if self._key:
                self._store()

    def ready(self, timeout: float | None = None) -> None:
        """
        Returns when the server has granted it for the first time: from then on it misses nothing. Raises if it ends
        before, and `TimeoutError` if neither happens in time (seconds).
        """
        core = self._core
        with self._news:
            if not self._news.wait_for(lambda: core.has_begun or core.end is not None, timeout):
                raise TimeoutError("not granted in time")
        if not core.has_begun:
            raise again((core.end and core.end.error) or Closed(ENDED))

    def __iter__(self) -> Subscription:
        return self

    def __next__(self) -> Item:
        item = self.next()
        if item is None:
            raise StopIteration
        return item

    def messages(self, *, gaps: Literal["raise", "report"] = "raise") -> Messages:
        """Only the messages. A gap raises `GapError` in its place; iterate again to go on. `report` counts."""
        return Messages(self, gaps)

    def each(self, callback: Callable[[Item], object]) -> None:
        """Calls back for each item; a callback that raises is logged, and harms nobody else. Returns at the end."""
        for item in self:
            try:
                callback(item)
            except Exception as error:
                self._client.callback_failed(error)

    def report(self) -> Report:
        """Whether everything has come so far, and what has not."""
        return self._core.report()

    def close(self) -> None:
        """Ends it: no item comes afterwards."""
        self._client.end(self._core)
        self.wake()

    def _store(self) -> None:
        """P14: what the reader has processed is stored."""
        text = processed_text(self._core)
        if text is not None and text != self._saved:
            self._saved = text
            self._client.save(self._key, text)


class Messages:
    """The messages of a subscription: see `Subscription.messages`."""

    def __init__(self, subscription: Subscription, gaps: Literal["raise", "report"]) -> None:
        self._subscription = subscription
        self._gaps = gaps

    def __iter__(self) -> Messages:
        return self

    def __next__(self) -> Message:
        while True:
            item = self._subscription.next()
            if isinstance(item, Message):
                return item
            if item is None:
                raise StopIteration
            if isinstance(item, Gap) and self._gaps == "raise":
                raise gap_error(item)
