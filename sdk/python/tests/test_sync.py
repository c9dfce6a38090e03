"""The blocking client against a real node of the server."""

from __future__ import annotations

import tempfile
import threading
import unittest
from typing import Any

import crore
import crore.sync
from crore import Backoff, FileStorage, Message
from node import ON_DISK, Guarded, Node

QUICK = Backoff(base=0.02, maximum=0.2)


def message(subscription: crore.sync.Subscription) -> Message:
    """The next message; a gap is a failure."""
    while True:
        item = subscription.next(timeout=30)
        assert item is not None, "the subscription has ended"
        assert item.kind != "gap", item
        if isinstance(item, Message):
            return item


class BlockingClient(unittest.TestCase):
    def node(self, configuration: str = "") -> Node:
        node = Node(configuration)
        self.addCleanup(node.remove)
        node.start()
        self.url = node.url
        return node

    def connect(self, **options: Any) -> crore.sync.Client:
        client = crore.sync.connect(options.pop("url", None) or self.url, **{"backoff": QUICK, **options})
        self.addCleanup(client.close, drain=0)
        return client

    def test_messages_history_and_refusals(self) -> None:
        self.node()
        with crore.sync.connect(self.url) as client:
            plain, wild = client.subscribe("a/b"), client.subscribe("a/#")
            client.ready(30)
            published = client.publish("a/b", {"x": 1}, tags=[("room", "7")])
            for subscription in (plain, wild):
                it = message(subscription)
                self.assertEqual((it.json(), it.position, it.tag("room")), ({"x": 1}, published.position, "7"))
            for number in range(25):
                client.publish("h", str(number))
            self.assertEqual([it.text() for it in client.history("h", limit=20)], [str(n) for n in range(20)])
            with self.assertRaisesRegex(crore.Refused, "forbidden"):
                client.publish("$sys/x", "no")
            self.assertRaises(crore.AlreadySubscribed, client.subscribe, "a/b")
            with self.assertRaises(TimeoutError):
                while True:
                    plain.next(timeout=0.01)
            self.assertTrue(plain.report().complete)
        self.assertEqual(client.state.state, "closed")
        self.assertRaises(crore.Closed, client.publish, "a", "b")

    def test_once_and_subscriptions_survive_kills_of_the_node(self) -> None:
        node = self.node(ON_DISK)
        client = self.connect()
        subscription = client.subscribe("a")
        client.ready(30)
        futures = []
        for turn in range(3):
            futures += [client.publish_later("a", f"{turn}.{number}", once=True) for number in range(100)]
            futures[-90].result()
            node.restart()
        self.assertEqual(len({future.result().position for future in futures}), 300)
        wanted = [f"{at // 100}.{at % 100}" for at in range(300)]
        self.assertEqual([message(subscription).text() for _ in wanted], wanted)
        self.assertEqual([it.text() for it in client.history("a")], wanted)
        self.assertTrue(subscription.report().complete)

    def test_u13_r11_files_keep_publications_and_positions_over_programs(self) -> None:
        node = self.node(ON_DISK)
        with tempfile.TemporaryDirectory() as folder:
            storage = FileStorage(folder)
            with self.assertRaisesRegex(crore.CroreError, "another program"):
                FileStorage(folder)
            first = self.connect(storage=storage, persist=True)
            reader = first.subscribe("p", name="reader")
            first.publish("p", "0", once=True)
            self.assertEqual(message(reader).text(), "0")
            node.kill()
            lost = [first.publish_later("p", str(number), once=True) for number in (1, 2, 3)]
            first.close(drain=0)
            for future in lost:
                self.assertIsInstance(future.exception(), crore.Closed | crore.Unknown)
            storage.close()
            node.start()
            storage = FileStorage(folder)
            second = self.connect(storage=storage, persist=True)
            again = second.subscribe("p", name="reader")
            second.publish("p", "4", once=True)
            # The reader had not asked for the item behind 0, so 0 was not processed.
            self.assertIn(message(again).text(), ("0", "1"))
            self.assertEqual([it.text() for it in second.history("p")], ["0", "1", "2", "3", "4"])
            second.close()
            storage.close()

    def test_t9_x5_sources_and_callbacks_may_call_the_client(self) -> None:
        node = Guarded()
        self.addCleanup(node.remove)
        node.start()
        self.url = node.url
        good = node.token("--sub", "a", "--all", "#")
        reasons: list[str] = []

        def source(reason: str) -> str:
            reasons.append(reason)
            if len(reasons) == 1:
                raise OSError("the network is down")
            return good

        client = self.connect(token=source, log=lambda _level, _event, _fields: None)
        published = threading.Event()

        def listener(state: crore.State) -> None:
            if state.state == "live":
                client.publish("x", "from a callback")
                published.set()
            raise ValueError("mine")

        client.on_state(listener)
        client.ready(30)
        self.assertTrue(published.wait(30))
        self.assertEqual(reasons, ["first", "first"])
        refused = self.connect(token="not.a.token")
        self.assertRaises(crore.Closed, refused.ready, 30)

    def test_x3_close_in_every_state_and_from_many_threads(self) -> None:
        self.node()
        for url in (self.url, "ws://127.0.0.1:9", "ws://127.0.0.1:9"):
            client = self.connect(url=url)
            if url == self.url:
                client.ready(30)
            subscription = client.subscribe("x")
            reader = threading.Thread(target=lambda it=subscription: list(it))
            reader.start()
            closers = [threading.Thread(target=client.close) for _ in range(3)]
            for closer in closers:
                closer.start()
            for thread in (*closers, reader):
                thread.join(30)
                self.assertFalse(thread.is_alive())
            client.close()
            self.assertRaises(crore.Closed, client.subscribe, "z")


if __name__ == "__main__":
    unittest.main()
