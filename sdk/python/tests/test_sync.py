"""The blocking client against a real node of the server."""

from __future__ import annotations

import json
import queue
import tempfile
import threading
import unittest
from pathlib import Path
from typing import Any

import crore
import crore.sync
from crore import Backoff, FileStorage, Message
from node import ON_DISK, PATIENCE_S, Guarded, Node, own_address

QUICK = Backoff(base=0.02, maximum=0.2)


def message(subscription: crore.sync.Subscription) -> Message:
    """The next message; a gap is a failure."""
    while True:
        item = subscription.next(timeout=PATIENCE_S)
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
            client.ready(PATIENCE_S)
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

    def test_s12_a_subscription_is_ready_when_granted_and_raises_if_it_ends_before(self) -> None:
        node = self.node()
        client = self.connect()
        wild = client.subscribe("a/#")
        wild.ready(PATIENCE_S)
        # Another client's message comes after the begin, so it comes.
        self.connect().publish("a/b", "1")
        self.assertEqual(message(wild).text(), "1")
        wild.ready(0)
        with self.assertRaisesRegex(crore.Refused, "start"):
            client.subscribe("b/+", crore.last(3)).ready(PATIENCE_S)
        node.kill()
        never = client.subscribe("c")
        self.assertRaises(TimeoutError, never.ready, 0)
        never.close()
        self.assertRaises(crore.Closed, never.ready, PATIENCE_S)

    def test_once_and_subscriptions_survive_kills_of_the_node(self) -> None:
        node = self.node(ON_DISK)
        client = self.connect()
        subscription = client.subscribe("a")
        subscription.ready(PATIENCE_S)
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
        listens = threading.Event()

        def source(reason: str) -> str:
            listens.wait(PATIENCE_S)
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
        listens.set()
        client.ready(PATIENCE_S)
        self.assertTrue(published.wait(PATIENCE_S))
        self.assertEqual(reasons, ["first", "first"])
        refused = self.connect(token="not.a.token")
        self.assertRaises(crore.Closed, refused.ready, PATIENCE_S)

    def test_r11_a_filter_resumes_in_partitions_of_which_nothing_was_processed(self) -> None:
        self.node(ON_DISK)
        other = self.connect()
        with tempfile.TemporaryDirectory() as folder:
            storage = FileStorage(folder)
            first = self.connect(storage=storage)
            subscription = first.subscribe("w/#", name="reader")
            subscription.ready(PATIENCE_S)
            # Nothing is processed; it only asks.
            self.assertRaises(TimeoutError, subscription.next, 0)
            first.close()
            for number in range(8):
                other.publish(f"w/{number}", str(number))
            second = self.connect(storage=storage)
            again = second.subscribe("w/#", name="reader")
            self.assertEqual({message(again).text() for _ in range(8)}, set("01234567"))
            second.close()
            storage.close()

    def test_r11_with_store_tickets_the_next_program_resumes_in_one_frame(self) -> None:
        self.node(ON_DISK)
        other = self.connect()
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "ticket%3A"
            storage = FileStorage(folder)
            for program, store_tickets in enumerate((False, True, True)):
                events: queue.SimpleQueue[tuple[str, Any]] = queue.SimpleQueue()

                def log(_level: str, event: str, fields: dict[str, Any], events: Any = events) -> None:
                    if event in ("connected", "ticket"):
                        events.put((event, fields.get("resumed")))

                client = self.connect(storage=storage, store_tickets=store_tickets, log=log)
                readers = [client.subscribe(topic, name=topic) for topic in ("a", "w/#")]
                self.assertEqual(events.get(timeout=PATIENCE_S), ("connected", 2 if program == 2 else None))
                if program < 2:
                    self.assertEqual(events.get(timeout=PATIENCE_S), ("ticket", None))
                for reader, target in zip(readers, ("a", "w/x"), strict=True):
                    if program < 2:
                        other.publish(target, str(program))
                    self.assertEqual(message(reader).text(), "0" if program == 0 else "1")
                    if program == 0:
                        # It is processed.
                        self.assertRaises(TimeoutError, reader.next, 0)
                client.close()
                self.assertEqual(file.exists(), store_tickets)
            # It is a secret.
            self.assertEqual(file.stat().st_mode & 0o777, 0o600)
            storage.close()
        self.assertRaises(crore.InvalidArgument, crore.sync.connect, self.url, store_tickets=True)

    def test_p13_messages_raises_in_place_of_a_gap_and_goes_on(self) -> None:
        self.node(ON_DISK)
        client = self.connect()
        first = client.publish("g", "first")
        client.publish("g", "second")
        # A position of an epoch that never was: everything before is a gap.
        position = f"1:{first.position.split(':')[1]}"
        subscription = client.subscribe("g", crore.since(position))
        with self.assertRaises(crore.GapError) as caught:
            next(subscription.messages())
        self.assertEqual(caught.exception.start, position)
        client.publish("g", "third")
        self.assertIn("third", (it.text() for it in subscription.messages()))
        self.assertEqual((subscription.report().complete, subscription.report().gaps), (False, 1))
        subscription.close()

        strict = client.subscribe("g", crore.since(position), fail_on_gap=True)
        with self.assertRaises(crore.Refused) as refused:
            strict.next(PATIENCE_S)
        self.assertEqual(refused.exception.name, "position_unavailable")
        self.assertRegex(refused.exception.restart or "", r"^\d+:\d+$")

        counting = client.subscribe("g", crore.since(position))
        client.publish("g", "fourth")
        self.assertIn("fourth", (it.text() for it in counting.messages(gaps="report")))
        self.assertEqual(counting.report().gaps, 1)

    def test_p14_only_what_the_reader_has_asked_past_is_processed(self) -> None:
        self.node(ON_DISK)
        for topic in ("a", "w/#"):
            with self.subTest(topic), tempfile.TemporaryDirectory() as folder:
                target = topic.replace("#", "x")
                storage = FileStorage(folder)
                first = self.connect(storage=storage)
                reader = first.subscribe(topic, name="reader")
                first.ready(PATIENCE_S)
                item = reader.next(PATIENCE_S)
                assert item is not None
                self.assertEqual(item.kind, "caught_up")
                for number in range(5):
                    first.publish(target, str(number))
                self.assertEqual(message(reader).text(), "0")
                self.assertEqual(message(reader).text(), "1")
                # The program ends while it processes 1: it was not processed.
                first.close()
                second = self.connect(storage=storage)
                seen: list[str] = []
                again = second.subscribe(topic, name="reader")

                def callback(item: crore.Item, seen: list[str] = seen) -> None:
                    if isinstance(item, Message):
                        seen.append(item.text())
                        if item.text() == "3":
                            # The program is interrupted: the callback does not return, so 3 is not processed.
                            raise KeyboardInterrupt

                self.assertRaises(KeyboardInterrupt, again.each, callback)
                self.assertEqual(seen, ["1", "2", "3"])
                second.close()
                third = self.connect(storage=storage)
                self.assertEqual(message(third.subscribe(topic, name="reader")).text(), "3")
                third.close()
                storage.close()

    def test_t2_t4_t11_a_short_token_is_renewed_in_place_and_stands_nowhere(self) -> None:
        node = Guarded()
        self.addCleanup(node.remove)
        node.start()
        self.url = node.url
        renewed: list[str] = []
        shown: list[str] = []
        done, has_ticket = threading.Event(), threading.Event()

        def source(reason: str) -> str:
            renewed.append(reason)
            return node.token("--sub", "b", "--all", "#", expires="3h" if len(renewed) > 1 else "1h")

        def log(_level: str, event: str, fields: dict[str, Any]) -> None:
            shown.append(json.dumps([event, fields]))
            if event == "token_renewed":
                done.set()
            if event == "ticket":
                has_ticket.set()

        client = self.connect(token=source, log=log)
        subscription = client.subscribe("s")
        self.assertTrue(done.wait(PATIENCE_S))
        client.publish("s", "x")
        self.assertEqual(message(subscription).text(), "x")
        self.assertEqual(renewed, ["first", "expires"])
        self.assertTrue(subscription.report().complete)
        self.assertTrue(has_ticket.wait(PATIENCE_S))

        # A source that puts its token into an error, and a server's refusal of a bad token.
        def failing(_reason: str) -> str:
            raise ValueError("the token eyJhbGciOi is bad")

        broken = self.connect(token=failing, log=log)
        refused = self.connect(token="eyJhbGciOi.bad.token", log=log)
        with self.assertRaises(crore.Closed) as caught:
            refused.ready(PATIENCE_S)
        self.assertFalse(broken.state.state == "live")
        shown += (repr(it) for it in (client.inspect(), broken.inspect(), refused.inspect(), caught.exception))
        shown += (repr(it) for it in (client, client.state, subscription, subscription.report()))
        self.assertNotIn("eyJ", "".join(shown))
        self.assertNotRegex("".join(shown), "[0-9a-f]{32}|[A-Za-z0-9+/_-]{40}", "no ticket, in no form")

    def test_u15_many_publications_wait_for_room_and_arrive_in_order(self) -> None:
        self.node()
        client = self.connect()
        client.ready(PATIENCE_S)
        futures = [client.publish_later("big", bytes(60_000)) for _ in range(100)]
        offsets = [int(future.result().position.split(":")[1]) for future in futures]
        self.assertEqual(offsets, sorted(set(offsets)))

    def test_x6_inspect_is_plain_data(self) -> None:
        self.node()
        client = self.connect()
        subscription = client.subscribe("x")
        client.publish("x", "1")
        message(subscription)
        shown = json.loads(json.dumps(client.inspect()))
        self.assertEqual(shown["state"], "live")
        self.assertEqual((shown["subscriptions"][0]["topic"], shown["subscriptions"][0]["messages"]), ("x", 1))
        self.assertEqual(shown["queue"]["sent"], 0)
        self.assertIn("connected", [it["event"] for it in shown["events"]])

    def test_x3_close_in_every_state_and_from_many_threads(self) -> None:
        self.node()
        for url in (self.url, f"ws://{own_address()}:9", f"ws://{own_address()}:9"):
            client = self.connect(url=url)
            if url == self.url:
                client.ready(PATIENCE_S)
            subscription = client.subscribe("x")
            reader = threading.Thread(target=lambda it=subscription: list(it))
            reader.start()
            closers = [threading.Thread(target=client.close) for _ in range(3)]
            for closer in closers:
                closer.start()
            for thread in (*closers, reader):
                thread.join(PATIENCE_S)
                self.assertFalse(thread.is_alive())
            client.close()
            self.assertRaises(crore.Closed, client.subscribe, "z")


if __name__ == "__main__":
    unittest.main()
