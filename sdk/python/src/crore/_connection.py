"""One socket of the asyncio client, from the attempt to its end."""

from __future__ import annotations

import asyncio
import ssl as tls
from collections import deque
from typing import Protocol, cast

from ._link import LINGER_S, Event, Failed, Link

UNSENT_MAX = 1024 * 1024  # U15


class ConnectionOwner(Protocol):
    """What a connection needs of its client."""

    @property
    def slice(self) -> int: ...
    def on_events(self, connection: Connection, events: list[Event], detail: str) -> None: ...
    def on_writable(self) -> None: ...
    def early(self) -> list[bytes]: ...
    def tls_context(self) -> tls.SSLContext: ...


class Connection(asyncio.Protocol):
    """One socket of the client, from the attempt to its end."""

    def __init__(self, client: ConnectionOwner, url: str) -> None:
        self.client: ConnectionOwner | None = client
        self.link = Link(url)
        self.transport: asyncio.Transport | None = None
        self.is_paused = False
        self._backlog: deque[Event] = deque()
        self._has_more = False
        loop = asyncio.get_running_loop()
        self.gone: asyncio.Future[None] = loop.create_future()
        self._dialing: asyncio.Task[None] | None = loop.create_task(self._dial(client))
        self._dialing.add_done_callback(self._dialed)
        self._abort: asyncio.TimerHandle | None = None

    async def _dial(self, client: ConnectionOwner) -> None:
        link = self.link
        try:
            context = client.tls_context() if link.secure else None
            loop = asyncio.get_running_loop()
            await loop.create_connection(lambda: self, link.host, link.port, ssl=context)
        except (OSError, ValueError) as error:
            self._tell([Failed()], str(error))

    def _dialed(self, _: asyncio.Task[None]) -> None:
        self._dialing = None
        if self.transport is None:
            self._set_gone()

    def _set_gone(self) -> None:
        if not self.gone.done():
            self.gone.set_result(None)

    def _tell(self, events: list[Event], detail: str = "") -> None:
        if self.client is not None:
            self.client.on_events(self, events, detail)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.set_write_buffer_limits(high=UNSENT_MAX)
        if self.client is None:
            self.transport.abort()
            return
        self.link.greet(self.client.early())
        self.write()

    def data_received(self, data: bytes) -> None:
        self._backlog.extend(self.link.receive(data))
        if not self._has_more:
            self._hand_on()

    def _hand_on(self) -> None:
        """
        Hands on what has come, a part in each turn of the loop: readers take it in between, so that a large read
        does not fill the buffer of a reader that keeps up.
        """
        self._has_more = False
        client, backlog = self.client, self._backlog
        if client is None:
            backlog.clear()
        else:
            part = [backlog.popleft() for _ in range(min(client.slice, len(backlog)))]
            self._tell(part)
        self.write()
        if self.transport is None or self.transport.is_closing():
            return
        if backlog:
            self._has_more = True
            self.transport.pause_reading()
            asyncio.get_running_loop().call_soon(self._hand_on)
            return
        self.transport.resume_reading()
        if self.client is None and self.link.has_peer_closed:
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._tell(list(self._backlog))
        self._backlog.clear()
        self._tell(self.link.eof(), "" if exc is None else str(exc))
        if self._abort is not None:
            self._abort.cancel()
        self._set_gone()

    def pause_writing(self) -> None:
        self.is_paused = True

    def resume_writing(self) -> None:
        self.is_paused = False
        if self.client is not None:
            self.client.on_writable()

    def write(self) -> None:
        if self.transport is None or self.transport.is_closing():
            return
        data = self.link.output()
        if data:
            self.transport.write(data)

    def leave(self, code: int) -> None:
        """The client is done with it. 1006: without a close frame."""
        self.client = None
        if self.transport is None:
            if self._dialing is not None:
                self._dialing.cancel()
            return
        if code == 1006:
            self.transport.abort()
            return
        self.link.close(code)
        self.write()
        self._abort = asyncio.get_running_loop().call_later(LINGER_S, self.transport.abort)
