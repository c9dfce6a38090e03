"""The reader's side of a subscription of the asyncio client."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Literal, Protocol

from ._base import ENDED, gap_error
from ._codec.topics import is_wild
from ._core.subscription import CoreSubscription
from .errors import Closed, CroreError, again
from .items import Gap, Item, Message, Report
from .storage import processed_text


class Keeper(Protocol):
    """What a subscription needs of its client."""

    def take(self, it: CoreSubscription) -> Item | None: ...
    def end(self, it: CoreSubscription) -> None: ...
    async def save(self, key: str, text: str) -> None: ...
    def spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]: ...
    def callback_failed(self, error: BaseException) -> None: ...


class Subscription:
    """
    The items of one topic or filter, over all connections, in the log's order: `async for item in subscription`. It has
    one reader: an item counts as processed when the reader asks for the next one.
    """

    def __init__(self, topic: str, client: Keeper) -> None:
        #: The topic or filter.
        self.topic = topic
        self.key = ""
        self._client = client
        self._core: CoreSubscription | None = None
        self._waiting: list[asyncio.Future[None]] = []
        self._is_ended = False
        self._error: CroreError | None = None
        self._saved = self._wanted = ""
        self._saving: asyncio.Task[Any] | None = None

    async def __aenter__(self) -> Subscription:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def begin(self, core: CoreSubscription) -> None:
        self._core = core

    @property
    def is_ended(self) -> bool:
        return self._is_ended

    def fail(self, error: CroreError | None) -> None:
        if not self._is_ended:
            self._is_ended = True
            self._error = error
        self.wake()

    def wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)

    async def next(self) -> Item | None:
        """The next item; None after the end. Raises if the server or the client has ended it."""
        core = self._core
        if self.key:
            self._store()
        elif core is not None:
            item = core.take_plain()
            if item is not None:
                return item
        while True:
            core = self._core
            if core is not None:
                item = self._client.take(core)
                if item is not None:
                    return item
                if core.end is not None:
                    if core.end.error is not None:
                        raise again(core.end.error)
                    return None
            if self._is_ended:
                if self._error is not None:
                    raise again(self._error)
                return None
            await self._news()
            if self.key:
                self._store()

    async def ready(self) -> None:
        """
        Returns when the server has granted it for the first time: from then on it misses nothing. Raises if it ends
        before.
        """
        while self._core is None or not self._core.has_begun:
            if self._core is not None and self._core.end is not None:
                raise again(self._core.end.error or Closed(ENDED))
            if self._is_ended:
                raise again(self._error or Closed(ENDED))
            await self._news()

    async def _news(self) -> None:
        """Returns when there may be something new."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        await future

    def __aiter__(self) -> Subscription:
        return self

    async def __anext__(self) -> Item:
        item = await self.next()
        if item is None:
            raise StopAsyncIteration
        return item

    def messages(self, *, gaps: Literal["raise", "report"] = "raise") -> Messages:
        """Only the messages. A gap raises `GapError` in its place; iterate again to go on. `report` counts."""
        return Messages(self, gaps)

    async def each(self, callback: Callable[[Item], object]) -> None:
        """
        Calls back for each item, one after the other: the next one when the callback (also a coroutine function) has
        returned. A callback that raises is logged, and harms nobody else. Returns at the end.
        """
        async for item in self:
            try:
                result = callback(item)
                if inspect.isawaitable(result):
                    await result
            except Exception as error:
                self._client.callback_failed(error)

    def report(self) -> Report:
        """Whether everything has come so far, and what has not."""
        if self._core is not None:
            return self._core.report()
        basis: Literal["announced", "proved"] = "announced" if is_wild(self.topic) else "proved"
        return Report(True, basis, 0, (), 0, 0, None)

    def close(self) -> None:
        """Ends it: no item comes afterwards."""
        if self._core is not None:
            self._client.end(self._core)
        self.fail(None)

    def _store(self) -> None:
        """P14: what the reader has processed is stored, the newest only."""
        text = None if self._core is None else processed_text(self._core)
        if text is None or text == self._wanted:
            return
        self._wanted = text
        if self._saving is None or self._saving.done():
            self._saving = self._client.spawn(self._save())

    async def _save(self) -> None:
        while self._saved != self._wanted:
            text = self._wanted
            await self._client.save(self.key, text)
            self._saved = text

    async def saved(self) -> None:
        """Returns when the processed position is stored."""
        if self._saving is not None:
            await asyncio.shield(self._saving)


class Messages:
    """The messages of a subscription: see `Subscription.messages`."""

    def __init__(self, subscription: Subscription, gaps: Literal["raise", "report"]) -> None:
        self._subscription = subscription
        self._gaps = gaps

    def __aiter__(self) -> Messages:
        return self

    async def __anext__(self) -> Message:
        while True:
            item = await self._subscription.next()
            if isinstance(item, Message):
                return item
            if item is None:
                raise StopAsyncIteration
            if isinstance(item, Gap) and self._gaps == "raise":
                raise gap_error(item)
