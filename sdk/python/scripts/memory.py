"""
What an idle client and a message occupy.

    python scripts/memory.py [--clients 1000] [--messages 10000]

A client is connected and subscribed to one topic, and nothing comes. Beside it: a bare connection of `websockets` to
the same server. Traced: what Python's allocator has given, by the file that asked (tracemalloc); RSS: what the process
has grown by, in a process without tracing. A message is what stays of it for the reader: blocks of memory, and bytes
beyond its payload. The server is a process of its own (tests/replay.py).
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import subprocess
import sys
import tracemalloc
from collections.abc import Awaitable, Callable
from pathlib import Path

import websockets.asyncio.client

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / folder) for folder in ("src", "tests")]

import crore  # noqa: E402
import crore.sync  # noqa: E402
from crore._codec.client import varint  # noqa: E402
from crore._core.core import Core  # noqa: E402
from crore._core.settings import Settings  # noqa: E402
from crore._core.subscription import SubscribeOptions  # noqa: E402
from replay import SUBSCRIBED, WELCOME, Replay  # noqa: E402

AT_ONCE = 50


def rss() -> int:
    """Bytes of memory of this process."""
    for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) * 1024
    return 0


async def own_aio(url: str) -> object:
    client = crore.connect(url)
    subscription = client.subscribe("a")
    await subscription.next()
    return client, subscription


async def bare_aio(url: str) -> object:
    peer = await websockets.asyncio.client.connect(
        url, subprotocols=[websockets.Subprotocol("crore.v1")], compression=None, ping_interval=None
    )
    await peer.send(b"\x01")
    await peer.recv()
    return peer


async def own_sync(url: str) -> object:
    client = crore.sync.connect(url)
    subscription = client.subscribe("a")
    await asyncio.to_thread(subscription.next)
    return client, subscription


KINDS: dict[str, Callable[[str], Awaitable[object]]] = {
    "crore, asyncio": own_aio,
    "crore, sync": own_sync,
    "websockets, asyncio": bare_aio,
}


def traced() -> dict[str, int]:
    """Traced bytes by the library whose file asked for them."""
    shares = {"crore": 0, "websockets": 0, "asyncio": 0, "all": 0}
    for statistic in tracemalloc.take_snapshot().statistics("filename"):
        parts = Path(statistic.traceback[0].filename).parts
        shares["all"] += statistic.size
        for name in ("crore", "websockets", "asyncio"):
            if name in parts:
                shares[name] += statistic.size
                break
    return shares


async def occupy(kind: str, clients: int, with_trace: bool) -> None:
    """Prints what `clients` of this kind occupy, each."""
    with Replay() as url:
        warm = await KINDS[kind](url)
        gc.collect()
        if with_trace:
            tracemalloc.start()
        before, before_rss = traced() if with_trace else {}, rss()
        kept: list[object] = []
        for _ in range(0, clients, AT_ONCE):
            kept += await asyncio.gather(*(KINDS[kind](url) for _ in range(AT_ONCE)))
        gc.collect()
        if with_trace:
            after = traced()
            shares = (f"{name} {(after[name] - before[name]) / len(kept) / 1024:.1f}" for name in after)
            print(f"{kind:20} traced KiB: {', '.join(shares)}", flush=True)
        else:
            print(f"{kind:20} RSS KiB: {(rss() - before_rss) / len(kept) / 1024:.1f}", flush=True)
        del warm
        # The clients end with the process, and not one after the other.
        os._exit(0)


def message_blocks(messages: int) -> None:
    """What stays of a message in the buffer."""
    core = Core(Settings(["ws://x/crore"], lambda: 0.0, b"p", buffer_items=messages + 10, buffer_bytes=2**40))
    core.start(0)
    core.subscribe(0, "a", SubscribeOptions())
    core.opened(0)
    core.received(0, WELCOME)
    core.received(0, SUBSCRIBED)
    core.outputs.clear()
    frames = [b"\x84\x00\x05" + varint(offset) + b"\x01" + bytes(100) for offset in range(1_000, 1_000 + messages)]
    gc.collect()
    tracemalloc.start()
    blocks, size = sys.getallocatedblocks(), tracemalloc.get_traced_memory()[0]
    for frame in frames:
        core.received(0, frame)
    more, bigger = sys.getallocatedblocks(), tracemalloc.get_traced_memory()[0]
    print(
        f"a message: {(more - blocks) / messages:.1f} blocks, {(bigger - size) / messages - 100:.0f} bytes and payload"
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--clients", type=int, default=1000)
    parser.add_argument("--messages", type=int, default=10_000)
    parser.add_argument("--only", choices=KINDS)
    parser.add_argument("--trace", action="store_true")
    options = parser.parse_args()
    if options.only:
        asyncio.run(asyncio.wait_for(occupy(options.only, options.clients, options.trace), 60))
        return
    for kind in KINDS:
        for trace in ((), ("--trace",)):
            command = [sys.executable, __file__, "--only", kind, "--clients", str(options.clients), *trace]
            subprocess.run(command, check=True, timeout=90)
    message_blocks(options.messages)


if __name__ == "__main__":
    main()
