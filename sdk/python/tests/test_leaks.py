"""
Cycles of connect, subscribe and close leave nothing: no task, timer, thread, descriptor or object of the client.

`CYCLES` says how many, for each client; without it 1,000 (`scripts/test.py --all`: 10,000).
"""

from __future__ import annotations

import asyncio
import gc
import os
import threading
import time
import unittest
from collections import Counter
from collections.abc import Callable

import crore
import crore.sync
from node import PATIENCE_S, own_address
from replay import Replay

CYCLES = int(os.environ.get("CYCLES", "1000"))
AT_ONCE = 10


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def held() -> tuple[int, int]:
    """Descriptors and threads."""
    return descriptors(), threading.active_count()


def alive() -> Counter[str]:
    """Objects of the client by type; items, errors and the like do not hold anything."""
    gc.collect()
    kept = ("Client", "Connection", "Core", "CoreSubscription", "Link", "Reactor", "Socket", "Subscription", "Call")
    kinds = (type(it) for it in gc.get_objects())
    return Counter(it.__name__ for it in kinds if it.__module__.startswith("crore.") and it.__name__ in kept)


async def cycle(url: str) -> None:
    async with crore.connect(url) as client:
        subscription = client.subscribe("a")
        item = await subscription.next()
        assert isinstance(item, crore.CaughtUp), item
        await client.close(drain=0)


def blocking_cycle(url: str) -> None:
    with crore.sync.connect(url) as client:
        item = client.subscribe("a").next(PATIENCE_S)
        assert isinstance(item, crore.CaughtUp), item


def blocking_cycle_without_a_server() -> None:
    client = crore.sync.connect(f"ws://{own_address()}:9")
    client.subscribe("a").close()
    client.close(drain=0)


@unittest.skipUnless(os.path.isdir("/proc/self/fd"), "descriptors are counted in /proc")
class Leaks(unittest.TestCase):
    def setUp(self) -> None:
        #: Of other tests.
        self.kept = alive()

    def settles(self, look: Callable[[], object], wanted: object) -> None:
        """What has ended may need a moment to be gone."""
        until = time.monotonic() + PATIENCE_S
        while look() != wanted and time.monotonic() < until:
            time.sleep(0.01)
        self.assertEqual(look(), wanted)

    def test_cycles_of_the_asyncio_client(self) -> None:
        async def worker(url: str, cycles: int) -> None:
            for _ in range(cycles):
                await cycle(url)

        async def run(url: str) -> None:
            await cycle(url)
            before = held()
            await asyncio.gather(*(worker(url, CYCLES // AT_ONCE) for _ in range(AT_ONCE)))
            for _ in range(100 * PATIENCE_S):
                if (held(), len(asyncio.all_tasks())) == (before, 1):
                    break
                await asyncio.sleep(0.01)
            self.assertEqual((held(), len(asyncio.all_tasks())), (before, 1))
            timers = [it for it in asyncio.get_running_loop()._scheduled if not it.cancelled()]  # type: ignore[attr-defined]
            self.assertEqual(timers, [])

        with Replay() as url:
            asyncio.run(run(url))
        self.settles(alive, self.kept)

    def test_cycles_of_the_blocking_client(self) -> None:
        def worker(url: str, cycles: int) -> None:
            for _ in range(cycles):
                try:
                    blocking_cycle(url)
                except BaseException as error:
                    errors.append(repr(error))

        errors: list[str] = []
        with Replay() as url:
            blocking_cycle(url)
            before = held()
            workers = [threading.Thread(target=worker, args=(url, CYCLES // AT_ONCE)) for _ in range(AT_ONCE)]
            for thread in workers:
                thread.start()
            for thread in workers:
                thread.join()
            self.assertEqual(errors, [])
            self.settles(held, before)
        self.settles(alive, self.kept)

    def test_cycles_without_a_server(self) -> None:
        async def run() -> None:
            for _ in range(CYCLES // 10):
                client = crore.connect(f"ws://{own_address()}:9")
                subscription = client.subscribe("a")
                await asyncio.sleep(0)
                subscription.close()
                await client.close(drain=0)
            self.assertEqual(len(asyncio.all_tasks()), 1)

        before = held()
        asyncio.run(run())
        for _ in range(CYCLES // 10):
            blocking_cycle_without_a_server()
        self.settles(held, before)
        self.settles(alive, self.kept)


if __name__ == "__main__":
    unittest.main()
