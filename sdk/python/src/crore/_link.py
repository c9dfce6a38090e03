"""
One WebSocket connection without I/O: bytes of a socket in, messages out. Both shells use it.

The handshake and all frames but one kind belong to the library: it gets them one by one, whole. A whole binary message
in one frame, which is nearly every frame, is cut out here: that costs a tenth.
"""

from __future__ import annotations

import logging
from base64 import urlsafe_b64encode
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias
from urllib.parse import urlsplit, urlunsplit

from websockets.client import ClientProtocol
from websockets.exceptions import InvalidURI
from websockets.frames import Frame, Opcode
from websockets.http11 import Response
from websockets.protocol import OPEN
from websockets.typing import Subprotocol
from websockets.uri import parse_uri

from .errors import InvalidArgument

SUBPROTOCOL: Final = Subprotocol("crore.v1")
#: Longest message that is accepted; a server sends far less.
MESSAGE_BYTES_MAX: Final = 64 * 1024 * 1024
#: After the own close frame: how long the peer has to answer it.
LINGER_S: Final = 1.0
#: Longest head of the answer to the handshake.
HEAD_BYTES_MAX: Final = 64 * 1024
#: The first byte of a binary message in one frame.
_WHOLE_BINARY: Final = 0x82

# The library logs frames, and HELLO has the token: T11.
_SILENT = logging.Logger("crore.websocket", logging.CRITICAL + 1)


@dataclass(frozen=True, slots=True)
class Opened:
    """The WebSocket is open."""


@dataclass(frozen=True, slots=True)
class Failed:
    """It could not be opened; with the status of the answer, if there was one."""

    status: int | None = None
    retry_after_s: float | None = None


@dataclass(frozen=True, slots=True)
class Ended:
    """The peer has ended it; 1006: without a close frame."""

    code: int


Event: TypeAlias = Opened | Failed | Ended | bytes | str


def socket_url(url: str) -> str:
    """The address of the WebSocket: C1."""
    parts = urlsplit(url)
    scheme = {"http": "ws", "https": "wss"}.get(parts.scheme, parts.scheme)
    address = urlunsplit((scheme, parts.netloc, parts.path or "/crore", parts.query, ""))
    try:
        parse_uri(address)
    except (InvalidURI, ValueError) as error:
        raise InvalidArgument(f"{url!r} is not the URL of a WebSocket") from error
    return address


def _retry_after(response: Response) -> float | None:
    text = response.headers.get("Retry-After", "")
    return float(text) if text.isdecimal() and len(text) < 10 else None


class Link:
    def __init__(self, url: str) -> None:
        uri = parse_uri(url)
        self.host, self.port, self.secure = uri.host, uri.port, uri.secure
        self._protocol = ClientProtocol(uri, max_size=MESSAGE_BYTES_MAX, logger=_SILENT)
        self._take: Callable[[bytes, list[Event]], None] = self._take_head
        # The begin of what is not whole yet, and how much of it is missing at least.
        self._begun: list[bytes] = []
        self._missing = 0
        self._parts: list[bytes] = []
        self._is_text = False
        self._is_open = False
        self._is_over = False

    def greet(self, early: Sequence[bytes] = ()) -> None:
        """The socket is connected: the handshake goes out, and frames with it (`spec/protocol.md`, section 1)."""
        offers = (f"crore.frame.{urlsafe_b64encode(frame).decode().rstrip('=')}" for frame in early)
        self._protocol.available_subprotocols = [SUBPROTOCOL, *map(Subprotocol, offers)]
        self._protocol.send_request(self._protocol.connect())

    def receive(self, data: bytes) -> list[Event]:
        events: list[Event] = []
        if self._begun:
            self._begun.append(data)
            self._missing -= len(data)
            if self._missing > 0:
                return events
            data = b"".join(self._begun)
            self._begun.clear()
        self._take(data, events)
        return events

    def _keep(self, begun: bytes, missing: int) -> None:
        if begun:
            self._begun.append(begun)
            self._missing = missing

    def _take_head(self, data: bytes, events: list[Event]) -> None:
        """The answer to the handshake; frames may follow it at once."""
        end = data.find(b"\r\n\r\n") + 4
        if end < 4:
            if len(data) < HEAD_BYTES_MAX:
                self._keep(data, 1)
                return
            end = len(data)
        self._take = self._feed
        self._feed(data[:end], events)
        if self._is_open:
            self._take = self._take_frames
        if end < len(data):
            self._take(data[end:], events)

    def _take_frames(self, data: bytes, events: list[Event]) -> None:
        parts = self._parts
        at, end, missing = 0, len(data), 1
        while end - at > 1:
            size = data[at + 1]
            begin = at + 2
            if size > 125:
                # 126, 127: two or eight bytes have the size. From 128 on it is masked, which the library refuses.
                begin = at + (4 if size == 126 else 10)
                if size < 128 and end < begin:
                    break
                size = MESSAGE_BYTES_MAX + 1 if size > 127 else int.from_bytes(data[at + 2 : begin], "big")
                if size > MESSAGE_BYTES_MAX:
                    self._take = self._feed
                    self._feed(data[at:], events)
                    return
            stop = begin + size
            if stop > end:
                missing = stop - end
                break
            if data[at] == _WHOLE_BINARY and not parts:
                events.append(data[begin:stop])
            else:
                self._feed(data[at:stop], events)
                if self._is_over:
                    self._take = self._feed
                    self._feed(data[stop:], events)
                    return
            at = stop
        self._keep(data[at:], missing)

    def _feed(self, data: bytes, events: list[Event]) -> None:
        """To the library."""
        protocol = self._protocol
        protocol.receive_data(data)
        for event in protocol.events_received():
            if isinstance(event, Frame):
                self._frame(event, events)
            elif isinstance(event, Response):
                self._answered(event, events)
        if protocol.handshake_exc is not None and not self._is_open:
            self._over(events, Failed())
        elif protocol.parser_exc is not None:
            self._over(events, Ended(1006))

    def eof(self) -> list[Event]:
        """The peer's bytes have ended."""
        events: list[Event] = []
        self._over(events, Ended(1006) if self._is_open else Failed())
        return events

    def _over(self, events: list[Event], event: Event) -> None:
        if not self._is_over:
            self._is_over = True
            events.append(event)

    def _answered(self, response: Response, events: list[Event]) -> None:
        if self._protocol.state is OPEN and self._protocol.subprotocol == SUBPROTOCOL:
            self._is_open = True
            events.append(Opened())
        elif response.status_code == 101:
            self._over(events, Failed())
        else:
            self._over(events, Failed(response.status_code, _retry_after(response)))

    def _frame(self, frame: Frame, events: list[Event]) -> None:
        opcode = frame.opcode
        if opcode is Opcode.BINARY and frame.fin:
            data = frame.data
            events.append(data if type(data) is bytes else bytes(data))
        elif opcode is Opcode.CLOSE:
            close = self._protocol.close_rcvd
            self._over(events, Ended(1006 if close is None else close.code))
        elif opcode in (Opcode.BINARY, Opcode.TEXT, Opcode.CONT):
            if opcode is not Opcode.CONT:
                self._is_text = opcode is Opcode.TEXT
            self._parts.append(bytes(frame.data))
            if frame.fin:
                data = b"".join(self._parts)
                self._parts.clear()
                events.append(data.decode(errors="replace") if self._is_text else data)

    def send(self, data: bytes) -> None:
        if self._protocol.state is OPEN:
            self._protocol.send_binary(data)

    def close(self, code: int) -> None:
        """The own close frame goes out; what comes afterwards is of no use."""
        self._is_over = True
        # The library looks for the peer's close frame, from the frame on that has begun.
        self._take = self._feed
        self._missing = 0
        if self._protocol.state is OPEN:
            self._protocol.send_close(code)

    def output(self) -> bytes:
        """The bytes to send."""
        return b"".join(self._protocol.data_to_send())

    @property
    def has_peer_closed(self) -> bool:
        """Whether the peer's close frame has come."""
        return self._protocol.close_rcvd is not None
