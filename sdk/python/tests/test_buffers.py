"""B1 to B3 at full speed: readers with buffers of all sizes, of both clients, while the node is killed."""

from __future__ import annotations

import asyncio
import random
import threading
import time
import unittest
from concurrent.futures import Future, ThreadPoolExecutor

import crore
import crore.sync
from crore import Backoff
from node import ON_DISK, PATIENCE_S, Node

MESSAGES = 2_000
#: Messages of the publisher that wait for their answers.
AHEAD = 500
BUFFERS = (1, 3, 16, 64, 1024)
QUICK = Backoff(base=0.02, maximum=0.2)
#: Every message is served, however far behind a reader is.
LOG = f'{ON_DISK}\n[[rule]]\nfilter = "#"\nhistory_messages_max = 100000\n'


class Pauses:
    """Short stops of a reader, now and then: full buffers and empty ones."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def seconds(self) -> float:
        return 0.01 if self._random.random() < 0.005 else 0


class Buffers(unittest.TestCase):
    def setUp(self) -> None:
        self.node = Node(LOG)
        self.addCleanup(self.node.remove)
        self.node.start()
        self.reading = threading.Semaphore(0)

    def test_every_reader_gets_every_message_once_and_in_order(self) -> None:
        with ThreadPoolExecutor(len(BUFFERS) + 1) as threads:
            readers = [threads.submit(self.read_blocking, items) for items in BUFFERS]
            readers.append(threads.submit(asyncio.run, self.read_asyncio()))
            for _ in range(2 * len(BUFFERS)):
                self.assertTrue(self.reading.acquire(timeout=PATIENCE_S))
            self.publish()
            for reader in readers:
                reader.result(5 * PATIENCE_S)

    def publish(self) -> None:
        with crore.sync.connect(self.node.url, backoff=QUICK) as client:
            calls: list[Future[crore.Published]] = []
            for number in range(MESSAGES):
                calls.append(client.publish_later("t", str(number), once=True))
                if number >= AHEAD:
                    calls[number - AHEAD].result()
                if number in (MESSAGES // 3, MESSAGES // 2):
                    self.node.restart()
            for call in calls:
                call.result()

    def read_blocking(self, items: int) -> None:
        pauses = Pauses(items)
        with crore.sync.connect(self.node.url, buffer_items=items, backoff=QUICK) as client:
            subscription = client.subscribe("t")
            subscription.next(PATIENCE_S)
            self.reading.release()
            messages = subscription.messages()
            for number in range(MESSAGES):
                self.assertEqual(next(messages).text(), str(number))
                time.sleep(pauses.seconds())
            self.check(subscription.report())

    async def read_asyncio(self) -> None:
        await asyncio.gather(*(self.read_one(items) for items in BUFFERS))

    async def read_one(self, items: int) -> None:
        pauses = Pauses(items)
        async with crore.connect(self.node.url, buffer_items=items, backoff=QUICK) as client:
            subscription = client.subscribe("t")
            await subscription.next()
            self.reading.release()
            messages = subscription.messages()
            for number in range(MESSAGES):
                self.assertEqual((await anext(messages)).text(), str(number))
                pause = pauses.seconds()
                if pause:
                    await asyncio.sleep(pause)
            self.check(subscription.report())

    def check(self, report: crore.Report) -> None:
        self.assertEqual((report.complete, report.messages), (True, MESSAGES))


if __name__ == "__main__":
    unittest.main()
