"""
Messages per second of both clients, beside a bare WebSocket loop over the same frames in the same run.

    python scripts/bench.py [--messages 200000] [--bytes 100] [--rounds 5] [--kind plain] [--deadline 120]

The kinds of messages: `plain` of a topic, `json` with a content type, `filter` of a subscription with wildcards.

The server (tests/replay.py) is a process of its own that writes frames made before; it never waits for the client. The
bare loops are those of `websockets`: `async for` and `for` over the connection, counting. Each run counts from the
attempt to connect to the last message. The rounds alternate, and the best of each counts. The processor time is that of
the whole process, both threads of the blocking clients. After the deadline, in seconds, the program shows where it
stands and ends.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import faulthandler
import pstats
import sys
import time
from collections.abc import Callable
from pathlib import Path

import websockets
import websockets.asyncio.client
import websockets.sync.client
import websockets.version

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / folder) for folder in ("src", "tests")]

import crore  # noqa: E402
import crore.sync  # noqa: E402
from replay import KINDS, Replay  # noqa: E402

#: What the server answers; it reads no further.
HELLO, SUBSCRIBE = b"\x01", b"\x02"
#: WELCOME and SUBSCRIBED come before the messages.
HEAD = 2
SUBPROTOCOLS = [websockets.Subprotocol("crore.v1")]


async def bare_aio(url: str, messages: int) -> float:
    begin = time.perf_counter()
    left = messages + HEAD
    async with websockets.asyncio.client.connect(url, subprotocols=SUBPROTOCOLS, compression=None) as peer:
        await peer.send(HELLO)
        await peer.send(SUBSCRIBE)
        async for _ in peer:
            left -= 1
            if left == 0:
                break
        return time.perf_counter() - begin


async def own_aio(url: str, messages: int, topic: str) -> float:
    begin = time.perf_counter()
    left = messages
    async with crore.connect(url) as client:
        subscription = client.subscribe(topic)
        async for _ in subscription.messages():
            left -= 1
            if left == 0:
                break
        elapsed = time.perf_counter() - begin
        report = subscription.report()
        assert report.complete and report.messages == messages, report
        await client.close(drain=0)
        return elapsed


def bare_sync(url: str, messages: int) -> float:
    begin = time.perf_counter()
    left = messages + HEAD
    with websockets.sync.client.connect(url, subprotocols=SUBPROTOCOLS, compression=None) as peer:
        peer.send(HELLO)
        peer.send(SUBSCRIBE)
        for _ in peer:
            left -= 1
            if left == 0:
                break
        return time.perf_counter() - begin


def own_sync(url: str, messages: int, topic: str) -> float:
    begin = time.perf_counter()
    left = messages
    with crore.sync.connect(url) as client:
        subscription = client.subscribe(topic)
        for _ in subscription.messages():
            left -= 1
            if left == 0:
                break
        elapsed = time.perf_counter() - begin
        report = subscription.report()
        assert report.complete and report.messages == messages, report
        return elapsed


def profile(run: Callable[[], float]) -> None:
    """Where the time of one run goes (of the main thread)."""
    profiler = cProfile.Profile()
    profiler.runcall(run)
    pstats.Stats(profiler).sort_stats("tottime").print_stats(25)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--messages", type=int, default=200_000)
    parser.add_argument("--bytes", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--deadline", type=float, default=120)
    parser.add_argument("--kind", choices=KINDS, default="plain")
    parser.add_argument("--profile", choices=("asyncio", "sync"))
    options = parser.parse_args()
    faulthandler.dump_traceback_later(options.deadline, exit=True)
    topic = "prices/#" if options.kind == "filter" else "a"
    with Replay(options.messages, options.bytes, options.kind) as url:
        runs: dict[str, Callable[[], float]] = {
            "websockets, asyncio": lambda: asyncio.run(bare_aio(url, options.messages)),
            "crore, asyncio": lambda: asyncio.run(own_aio(url, options.messages, topic)),
            "websockets, sync": lambda: bare_sync(url, options.messages),
            "crore, sync": lambda: own_sync(url, options.messages, topic),
        }
        if options.profile:
            profile(runs[f"crore, {options.profile}"])
            return
        best = dict.fromkeys(runs, 0.0)
        cost = dict.fromkeys(runs, float("inf"))
        for _ in range(options.rounds):
            for name, run in runs.items():
                before = time.process_time()
                best[name] = max(best[name], options.messages / run())
                cost[name] = min(cost[name], (time.process_time() - before) / options.messages)
    print(f"Python {sys.version.split()[0]}, websockets {websockets.version.version}")
    for name, rate in best.items():
        print(
            f"{name:22}{rate:12,.0f} messages/s of {options.bytes} bytes, {cost[name] * 1e6:.1f} us of processor each"
        )
    for kind in ("asyncio", "sync"):
        own, bare = f"crore, {kind}", f"websockets, {kind}"
        print(f"{kind}: {best[own] / best[bare]:.0%} of the bare loop, by processor time {cost[bare] / cost[own]:.0%}")


if __name__ == "__main__":
    main()
