"""
Messages per second of both clients, beside a bare WebSocket loop, over the same server in the same run.

    python scripts/bench.py [--messages 300000] [--bytes 100] [--rounds 5]

The server is a process that writes frames made before; it never waits for the client. The bare loops are those of
`websockets`: they receive the same frames and do nothing else. The best of the rounds counts.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import socket
import sys
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path

import websockets.asyncio.client
import websockets.sync.client
from websockets.http11 import Request
from websockets.server import ServerProtocol

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

import crore  # noqa: E402
import crore.sync  # noqa: E402
from crore._codec.client import varint  # noqa: E402

WELCOME = bytes.fromhex("81000108070605040302010080a8ee959b34808840808040") + varint(1024)
SUBSCRIBED = bytes.fromhex("82000105 07 00")


def framed(data: bytes) -> bytes:
    size = bytes((len(data),)) if len(data) < 126 else b"\x7e" + len(data).to_bytes(2, "big")
    return b"\x82" + size + data


def flood(messages: int, size: int) -> bytes:
    payload = bytes(size)
    head = framed(WELCOME) + framed(SUBSCRIBED)
    return head + b"".join(framed(b"\x84\x00\x05" + varint(it) + b"\x01" + payload) for it in range(1, messages + 1))


def serve(ready: Connection, messages: int, size: int) -> None:
    """Answers each handshake, and floods at the first frame."""
    data = flood(messages, size)
    listener = socket.create_server(("127.0.0.1", 0))
    ready.send(listener.getsockname()[1])
    while True:
        peer, _ = listener.accept()
        with peer:
            protocol = ServerProtocol(subprotocols=[websockets.Subprotocol("crore.v1")])
            try:
                is_open = False
                while True:
                    protocol.receive_data(peer.recv(65536))
                    for event in protocol.events_received():
                        if isinstance(event, Request):
                            protocol.send_response(protocol.accept(event))
                            peer.sendall(b"".join(protocol.data_to_send()))
                        else:
                            is_open = True
                    if is_open:
                        break
                peer.sendall(data)
                while peer.recv(65536):
                    pass
            except OSError:
                pass


async def bare_aio(url: str, messages: int) -> float:
    async with websockets.asyncio.client.connect(
        url, subprotocols=[websockets.Subprotocol("crore.v1")], compression=None
    ) as peer:
        await peer.send(b"\x01")
        await peer.recv()
        await peer.recv()
        begin = time.perf_counter()
        for _ in range(messages):
            await peer.recv()
        return time.perf_counter() - begin


async def own_aio(url: str, messages: int) -> float:
    async with crore.connect(url) as client:
        subscription = client.subscribe("a")
        await subscription.next()
        begin = time.perf_counter()
        count = 0
        async for _ in subscription.messages():
            count += 1
            if count == messages:
                break
        elapsed = time.perf_counter() - begin
        report = subscription.report()
        assert report.complete and report.messages == messages, report
        await client.close(drain=0)
        return elapsed


def bare_sync(url: str, messages: int) -> float:
    with websockets.sync.client.connect(
        url, subprotocols=[websockets.Subprotocol("crore.v1")], compression=None
    ) as peer:
        peer.send(b"\x01")
        peer.recv()
        peer.recv()
        begin = time.perf_counter()
        for _ in range(messages):
            peer.recv()
        return time.perf_counter() - begin


def own_sync(url: str, messages: int) -> float:
    with crore.sync.connect(url) as client:
        subscription = client.subscribe("a")
        subscription.next()
        begin = time.perf_counter()
        count = 0
        for _ in subscription.messages():
            count += 1
            if count == messages:
                break
        elapsed = time.perf_counter() - begin
        report = subscription.report()
        assert report.complete and report.messages == messages, report
        return elapsed


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--messages", type=int, default=200_000)
    parser.add_argument("--bytes", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    ours, theirs = multiprocessing.Pipe()
    server = multiprocessing.Process(target=serve, args=(theirs, options.messages, options.bytes), daemon=True)
    server.start()
    url = f"ws://127.0.0.1:{ours.recv()}/crore"
    runs: dict[str, Callable[[], float]] = {
        "websockets, asyncio": lambda: asyncio.run(bare_aio(url, options.messages)),
        "crore, asyncio": lambda: asyncio.run(own_aio(url, options.messages)),
        "websockets, sync": lambda: bare_sync(url, options.messages),
        "crore, sync": lambda: own_sync(url, options.messages),
    }
    best = dict.fromkeys(runs, 0.0)
    for _ in range(options.rounds):
        for name, run in runs.items():
            best[name] = max(best[name], options.messages / run())
    for name, rate in best.items():
        print(f"{name:22}{rate:12,.0f} messages/s of {options.bytes} bytes")
    for kind in ("asyncio", "sync"):
        print(f"{kind}: {best[f'crore, {kind}'] / best[f'websockets, {kind}']:.0%} of the bare loop")
    server.terminate()


if __name__ == "__main__":
    main()
