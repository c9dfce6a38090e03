"""`wss`: both clients against a node with a certificate of its own."""

from __future__ import annotations

import asyncio
import ssl
import threading
import unittest
from typing import Any

import crore
import crore.sync
from crore import Backoff
from node import PATIENCE_S, Secure

QUICK = Backoff(base=0.02, maximum=0.2)
#: More than one record of TLS, so that the rest of a read waits inside it.
SIZES = (1, 20_000, 100_000, 3)


class Wss(unittest.TestCase):
    node: Secure
    url: str
    context: ssl.SSLContext

    @classmethod
    def setUpClass(cls) -> None:
        cls.node = Secure()
        cls.addClassCleanup(cls.node.remove)
        cls.node.start()
        cls.url = f"wss://localhost:{cls.node.port}"
        cls.context = ssl.create_default_context(cafile=cls.node.certificate)

    def test_the_asyncio_client(self) -> None:
        async def run() -> None:
            async with crore.connect(self.url, ssl=self.context) as client:
                subscription = client.subscribe("a")
                await client.ready()
                first = await subscription.next()
                assert first is not None
                await asyncio.gather(*(client.publish("a", bytes(size)) for size in SIZES * 5))
                messages = subscription.messages()
                self.assertEqual([len((await anext(messages)).payload) for _ in SIZES * 5], [*SIZES * 5])

        asyncio.run(asyncio.wait_for(run(), PATIENCE_S))

    def test_the_blocking_client(self) -> None:
        with crore.sync.connect(self.url, ssl=self.context) as client:
            subscription = client.subscribe("a")
            client.ready(PATIENCE_S)
            subscription.next(PATIENCE_S)
            futures = [client.publish_later("a", bytes(size)) for size in SIZES * 5]
            messages = subscription.messages()
            self.assertEqual([len(next(messages).payload) for _ in futures], [*SIZES * 5])

    def test_a_certificate_that_nobody_vouches_for_or_of_another_name_is_refused(self) -> None:
        other_name = self.url.replace("localhost", "127.0.0.1")
        wrong: list[tuple[str, dict[str, Any]]] = [(self.url, {}), (other_name, {"ssl": self.context})]
        for url, options in wrong:
            with self.subTest(url):
                asyncio.run(asyncio.wait_for(self.refused_asyncio(url, **options), PATIENCE_S))
                self.refused_blocking(url, **options)

    async def refused_asyncio(self, url: str, **options: Any) -> None:
        reasons: asyncio.Queue[str | None] = asyncio.Queue()
        details: list[object] = []
        async with crore.connect(
            url, backoff=QUICK, log=lambda _level, _event, fields: details.append(fields.get("detail")), **options
        ) as client:
            client.on_state(lambda state: reasons.put_nowait(state.reason) if state.state == "waiting" else None)
            self.assertEqual([await reasons.get() for _ in range(3)], ["network"] * 3)
            self.assertTrue(any("certificate verify failed" in str(it) for it in details), details)

    def refused_blocking(self, url: str, **options: Any) -> None:
        tried = threading.Semaphore(0)
        details: list[object] = []

        def log(_level: str, event: str, fields: dict[str, Any]) -> None:
            details.append(fields.get("detail"))
            if event == "waiting":
                tried.release()

        with crore.sync.connect(url, backoff=QUICK, log=log, **options) as client:
            for _ in range(3):
                self.assertTrue(tried.acquire(timeout=PATIENCE_S))
            self.assertEqual(client.inspect()["counters"]["connections"], 0)
        self.assertTrue(any("certificate verify failed" in str(it) for it in details), details)


if __name__ == "__main__":
    unittest.main()
