"""
A server that replays: it answers HELLO, and SUBSCRIBE with a stream of frames made before. It knows one subscription,
the client's first, and waits for nobody. A program of its own, so that its work is not measured:

    python tests/replay.py [--messages 0] [--bytes 100] [--kind plain|json|filter]

prints its port, and ends with its standard input.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import os
import socket
import subprocess
import sys
import threading
from io import BufferedReader
from types import TracebackType

from crore._codec.client import varint

WELCOME = bytes.fromhex("81000108070605040302010080a8ee959b34808840808040") + varint(1024)
#: Subscription 1 has the alias 5; the log of epoch 7 begins.
SUBSCRIBED = bytes.fromhex("820001050700")
#: Subscription 1 to a filter, in partition 0 of a log of epoch 2^54.
SUBSCRIBED_FILTER = bytes.fromhex("8201010100") + b"\0" + varint(2**54) + b"\0"
#: The head of a message before its offset, and what follows the offset, by the kind of the stream.
KINDS = {
    "plain": (SUBSCRIBED, b"\x84\x00\x05", b"\x01"),
    "json": (SUBSCRIBED, b"\x84\x80\x05", b"\x01\x01\x02\x10application/json"),
    "filter": (SUBSCRIBED_FILTER, b"\x85\x00\x0aprices/eur\0" + varint(2**54), b"\x01"),
}
_HELLO, _SUBSCRIBE = 0x01, 0x02
_BINARY = 0x82
_CLOSED = bytes.fromhex("880203e8")
_KEY = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


def _framed(data: bytes) -> bytes:
    size = bytes((len(data),)) if len(data) < 126 else b"\x7e" + len(data).to_bytes(2, "big")
    return bytes((_BINARY,)) + size + data


def stream(messages: int, size: int, kind: str = "plain") -> bytes:
    """SUBSCRIBED, and messages with payloads of `size` bytes, each in a WebSocket frame."""
    subscribed, prefix, suffix = KINDS[kind]
    suffix += bytes(size)
    parts = [_framed(subscribed)]
    parts += (_framed(prefix + varint(offset) + suffix) for offset in range(1, messages + 1))
    return b"".join(parts)


def _next_type(reader: BufferedReader) -> int:
    """The type of the client's next frame; 0 for WebSocket's own frames, and at the end."""
    head = reader.read(2)
    if len(head) < 2:
        return 0
    size = head[1] & 127
    if size > 125:
        size = int.from_bytes(reader.read(2 if size == 126 else 8), "big")
    masked = reader.read(4 + size)
    return masked[0] ^ masked[4] if head[0] == _BINARY else 0


def _converse(peer: socket.socket, data: bytes) -> None:
    with peer, peer.makefile("rb") as reader:
        key = b""
        while line := reader.readline().strip():
            name, _, value = line.partition(b":")
            if name.lower() == b"sec-websocket-key":
                key = value.strip()
        accept = base64.b64encode(hashlib.sha1(key + _KEY).digest()).decode()
        peer.sendall(
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Protocol: crore.v1\r\nSec-WebSocket-Accept: " + accept.encode() + b"\r\n\r\n"
        )
        while kind := _next_type(reader):
            if kind == _HELLO:
                peer.sendall(_framed(WELCOME))
            elif kind == _SUBSCRIBE:
                peer.sendall(data)
        peer.sendall(_CLOSED)


def _serve(peer: socket.socket, data: bytes) -> None:
    try:
        _converse(peer, data)
    except OSError:
        pass  # The client has left.


def _accept(listener: socket.socket, data: bytes) -> None:
    while True:
        peer, _ = listener.accept()
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threading.Thread(target=_serve, args=(peer, data), daemon=True).start()


class Replay:
    """The program, for as long as the block runs."""

    def __init__(self, messages: int = 0, size: int = 100, kind: str = "plain") -> None:
        self._command = [sys.executable, __file__, "--messages", str(messages), "--bytes", str(size), "--kind", kind]

    def __enter__(self) -> str:
        """Returns its URL when it listens."""
        source = str(os.path.dirname(os.path.dirname(sys.modules["crore"].__file__ or "")))
        self._process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": source},
        )
        assert self._process.stdout is not None
        return f"ws://127.0.0.1:{int(self._process.stdout.readline())}/crore"

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--messages", type=int, default=0)
    parser.add_argument("--bytes", type=int, default=100)
    parser.add_argument("--kind", choices=KINDS, default="plain")
    options = parser.parse_args()
    data = stream(options.messages, options.bytes, options.kind)
    listener = socket.create_server(("127.0.0.1", 0), backlog=256)
    print(listener.getsockname()[1], flush=True)
    threading.Thread(target=_accept, args=(listener, data), daemon=True).start()
    sys.stdin.read()


if __name__ == "__main__":
    main()
