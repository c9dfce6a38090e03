"""The one thread of a blocking client: it owns the socket, and drives the core."""

from __future__ import annotations

import errno
import os
import selectors
import socket
import ssl as tls
import threading
import time
from collections.abc import Callable
from typing import Protocol

from ._link import LINGER_S, Event, Failed, Link

_CHUNK = 256 * 1024
_UNSENT_MAX = 1024 * 1024  # U15
_RETRY = (BlockingIOError, InterruptedError, tls.SSLWantReadError, tls.SSLWantWriteError)


class Owner(Protocol):
    """What the thread calls, without any lock held."""

    def on_events(self, socket: Socket, events: list[Event], detail: str = "") -> None: ...
    def on_writable(self) -> None: ...
    def early(self) -> list[bytes]: ...
    def on_wake(self) -> float | None: ...


class Socket:
    """One connection, from the attempt to its end. Only the thread touches it."""

    def __init__(self, reactor: Reactor, url: str, context: Callable[[], tls.SSLContext]) -> None:
        self.link = Link(url)
        self.is_mine = True
        self._reactor = reactor
        self._context = context
        self._addresses: list[tuple[int, int, int, object]] = []
        self._socket: socket.socket | None = None
        self._stage = "dial"
        self._unsent = bytearray()
        # Why the last address could not be reached.
        self._detail = ""
        self.abort_at: float | None = None

    def dial(self) -> None:
        try:
            found = socket.getaddrinfo(self.link.host, self.link.port, type=socket.SOCK_STREAM)
        except OSError as error:
            self._over([Failed()], str(error))
            return
        self._addresses = [(family, kind, protocol, address) for family, kind, protocol, _, address in found]
        self._next_address()

    def _next_address(self) -> None:
        while self._addresses:
            family, kind, protocol, address = self._addresses.pop(0)
            try:
                self._socket = socket.socket(family, kind, protocol)
                self._socket.setblocking(False)
                self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                code = self._socket.connect_ex(address)  # type: ignore[arg-type]
            except OSError as error:
                code = error.errno or errno.ECONNREFUSED
            if self._socket is not None and code in (0, errno.EINPROGRESS, errno.EWOULDBLOCK):
                self._reactor.watch(self._socket, selectors.EVENT_WRITE, self)
                return
            self._detail = os.strerror(code)
            self._drop()
        self._over([Failed()], self._detail)

    def ready(self, mask: int) -> None:
        """The socket may be read or written."""
        try:
            if self._stage == "dial":
                self._connected()
            elif self._stage == "tls":
                self._shake()
            else:
                if mask & selectors.EVENT_READ:
                    self._read()
                if self._socket is not None and self._unsent:
                    self._send()
        except _RETRY:
            pass
        except OSError as error:
            self._ended(str(error))

    def _connected(self) -> None:
        assert self._socket is not None
        code = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            self._detail = os.strerror(code)
            self._drop()
            self._next_address()
            return
        if not self.link.secure:
            self._greet()
            return
        self._stage = "tls"
        plain = self._socket
        self._reactor.forget(plain)
        self._socket = self._context().wrap_socket(plain, server_hostname=self.link.host, do_handshake_on_connect=False)
        self._reactor.watch(self._socket, selectors.EVENT_READ | selectors.EVENT_WRITE, self)
        self._shake()

    def _shake(self) -> None:
        assert isinstance(self._socket, tls.SSLSocket)
        try:
            self._socket.do_handshake()
        except tls.SSLWantReadError:
            self._reactor.change(self._socket, selectors.EVENT_READ, self)
            return
        except tls.SSLWantWriteError:
            self._reactor.change(self._socket, selectors.EVENT_WRITE, self)
            return
        self._greet()

    def _greet(self) -> None:
        assert self._socket is not None
        self._stage = "open"
        self._reactor.change(self._socket, selectors.EVENT_READ, self)
        self.link.greet(self._reactor.owner.early() if self.is_mine else ())
        self.write()

    def _read(self) -> None:
        assert self._socket is not None
        data = self._socket.recv(_CHUNK)
        while data:
            self._tell(self.link.receive(data))
            self.write()
            if self.is_gone:
                return
            if self.link.has_peer_closed:
                self._drop()
                return
            if not (isinstance(self._socket, tls.SSLSocket) and self._socket.pending()):
                return
            data = self._socket.recv(_CHUNK)
        self._ended()

    def _ended(self, detail: str = "") -> None:
        self._over(self.link.eof() if self._stage == "open" else [Failed()], detail)

    def _over(self, events: list[Event], detail: str) -> None:
        self._drop()
        self._tell(events, detail)

    def _tell(self, events: list[Event], detail: str = "") -> None:
        if self.is_mine and events:
            self._reactor.owner.on_events(self, events, detail)

    @property
    def is_paused(self) -> bool:
        return len(self._unsent) > _UNSENT_MAX

    def write(self) -> None:
        """Sends what the link has."""
        if self._stage != "open" or self._socket is None:
            return
        self._unsent += self.link.output()
        if self._unsent:
            try:
                self._send()
            except _RETRY:
                pass
            except OSError as error:
                self._ended(str(error))

    def _send(self) -> None:
        assert self._socket is not None
        was_paused = self.is_paused
        try:
            while self._unsent:
                sent = self._socket.send(memoryview(self._unsent)[:_CHUNK])
                del self._unsent[:sent]
        finally:
            mask = selectors.EVENT_READ | (selectors.EVENT_WRITE if self._unsent else 0)
            self._reactor.change(self._socket, mask, self)
        if was_paused and self.is_mine:
            self._reactor.owner.on_writable()

    def leave(self, code: int) -> None:
        """The client is done with it. 1006: without a close frame."""
        self.is_mine = False
        if self._stage != "open" or code == 1006:
            self._drop()
            return
        self.link.close(code)
        self.write()
        self.abort_at = time.monotonic() + LINGER_S

    def _drop(self) -> None:
        if self._socket is not None:
            self._reactor.forget(self._socket)
            self._socket.close()
            self._socket = None

    @property
    def is_gone(self) -> bool:
        return self._socket is None

    def tick(self, now: float) -> None:
        if self.abort_at is not None and now >= self.abort_at:
            self._drop()


class Reactor:
    """The thread. `wake` is for other threads, all else for its own."""

    def __init__(self, owner: Owner) -> None:
        self.owner = owner
        self.leaving: list[Socket] = []
        self._selector = selectors.DefaultSelector()
        self._bell, self._ringer = socket.socketpair()
        self._bell.setblocking(False)
        self._ringer.setblocking(False)
        self._selector.register(self._bell, selectors.EVENT_READ)
        self._is_stopped = False
        self._watched: dict[socket.socket, int] = {}
        self.thread = threading.Thread(target=self._run, name="crore", daemon=True)

    def start(self) -> None:
        self.thread.start()

    def wake(self) -> None:
        try:
            self._ringer.send(b"\0")
        except (BlockingIOError, OSError):
            pass  # It is awake already, or has ended.

    def stop(self) -> None:
        """The thread ends when the sockets that leave are gone."""
        self._is_stopped = True

    def watch(self, it: socket.socket, mask: int, of: Socket) -> None:
        self._selector.register(it, mask, of)
        self._watched[it] = mask

    def change(self, it: socket.socket, mask: int, of: Socket) -> None:
        if it in self._watched and self._watched[it] != mask:
            self._selector.modify(it, mask, of)
            self._watched[it] = mask

    def forget(self, it: socket.socket) -> None:
        if self._watched.pop(it, None) is not None:
            self._selector.unregister(it)

    def _run(self) -> None:
        try:
            while True:
                wake_at = self.owner.on_wake()
                self.leaving = [it for it in self.leaving if not it.is_gone]
                if self._is_stopped and not self.leaving:
                    return
                times = [it.abort_at for it in self.leaving if it.abort_at is not None]
                if wake_at is not None:
                    times.append(wake_at)
                wait = None if not times else max(0.0, min(times) - time.monotonic())
                for key, mask in self._selector.select(wait):
                    if isinstance(key.data, Socket):
                        key.data.ready(mask)
                    else:
                        self._answer_bell()
                now = time.monotonic()
                for it in self.leaving:
                    it.tick(now)
        finally:
            self._selector.close()
            self._bell.close()
            self._ringer.close()

    def _answer_bell(self) -> None:
        try:
            while len(self._bell.recv(4096)) == 4096:
                pass
        except BlockingIOError:
            pass
