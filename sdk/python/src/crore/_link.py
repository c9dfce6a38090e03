"""One WebSocket connection without I/O: bytes of a socket in, messages out. Both shells use it."""

from __future__ import annotations

import logging
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
        self._protocol = ClientProtocol(uri, subprotocols=[SUBPROTOCOL], max_size=MESSAGE_BYTES_MAX, logger=_SILENT)
        self._parts: list[bytes] = []
        self._is_text = False
        self._is_open = False
        self._is_over = False

    def greet(self) -> None:
        """The socket is connected: the handshake goes out."""
        self._protocol.send_request(self._protocol.connect())

    def receive(self, data: bytes) -> list[Event]:
        protocol = self._protocol
        protocol.receive_data(data)
        events: list[Event] = []
        for event in protocol.events_received():
            if isinstance(event, Frame):
                self._frame(event, events)
            elif isinstance(event, Response):
                self._answered(event, events)
        if protocol.handshake_exc is not None and not self._is_open:
            self._over(events, Failed())
        elif protocol.parser_exc is not None:
            self._over(events, Ended(1006))
        return events

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
        if self._protocol.state is OPEN:
            self._protocol.send_close(code)

    def output(self) -> bytes:
        """The bytes to send."""
        return b"".join(self._protocol.data_to_send())

    @property
    def has_peer_closed(self) -> bool:
        """Whether the peer's close frame has come."""
        return self._protocol.close_rcvd is not None
