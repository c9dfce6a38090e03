"""The asyncio client against a real node of the server."""

from __future__ import annotations

import asyncio
import json
import signal
import unittest
from typing import Any

import crore
from crore import Backoff, Client, Item, Message, Subscription
from node import ON_DISK, PATIENCE_S, Guarded, Node, own_address

QUICK = Backoff(base=0.02, maximum=0.2)


class Memory:
    """A storage in memory."""

    def __init__(self) -> None:
        self.kept: dict[str, str] = {}

    def get(self, key: str) -> str | None:
        return self.kept.get(key)

    def set(self, key: str, value: str) -> None:
        self.kept[key] = value

    def delete(self, key: str) -> None:
        self.kept.pop(key, None)


async def message(subscription: Subscription) -> Message:
    """The next message; a gap is a failure."""
    while True:
        item = await subscription.next()
        assert item is not None, "the subscription has ended"
        assert item.kind != "gap", item
        if isinstance(item, Message):
            return item


async def when(client: Client, wanted: str) -> crore.State:
    """Waits for a state."""
    future: asyncio.Future[crore.State] = asyncio.get_running_loop().create_future()

    def listen(state: crore.State) -> None:
        if state.state == wanted and not future.done():
            future.set_result(state)

    stop = client.on_state(listen)
    try:
        return await asyncio.wait_for(future, PATIENCE_S)
    finally:
        stop()


class WithNode(unittest.IsolatedAsyncioTestCase):
    def node(self, configuration: str = "") -> Node:
        node = Node(configuration)
        self.addCleanup(node.remove)
        node.start()
        self.url = node.url
        return node

    def connect(self, **options: Any) -> Client:
        client = crore.connect(options.pop("url", None) or self.url, **{"backoff": QUICK, **options})
        self.addAsyncCleanup(client.close, drain=0)
        return client


class Messages(WithNode):
    async def test_messages_go_from_a_publisher_to_a_subscriber_with_every_kind_of_data(self) -> None:
        self.node()
        client = self.connect(name="test")
        plain, wild = client.subscribe("a/b"), client.subscribe("a/#")
        await client.ready()
        first = await plain.next()
        assert first is not None
        self.assertEqual(first.kind, "caught_up")
        published = await client.publish("a/b", {"x": 1}, tags={"unit": "mm", "room": "7"})
        self.assertRegex(published.position, r"^\d+:\d+$")
        self.assertFalse(published.duplicate)
        for subscription in (plain, wild):
            it = await message(subscription)
            self.assertEqual(it.json(), {"x": 1})
            self.assertEqual((it.topic, it.content_type, it.tag("room")), ("a/b", "application/json", "7"))
            self.assertEqual(it.position, published.position)
        await client.publish("a/b", "grüße")
        self.assertEqual((await message(plain)).text(), "grüße")
        await client.publish("a/b", bytearray(b"\0\xff"))
        bad = await message(plain)
        self.assertEqual(bad.payload, b"\0\xff")
        # S10: a bad payload fails where it is read, and nowhere else.
        self.assertRaises(UnicodeDecodeError, bad.text)
        self.assertRaises(ValueError, bad.json)
        await client.publish("a/b", "next")
        self.assertEqual((await message(plain)).text(), "next")
        report = plain.report()
        self.assertEqual((report.complete, report.basis, report.messages), (True, "proved", 4))
        self.assertEqual(wild.report().basis, "announced")

    async def test_s12_a_subscription_is_ready_when_granted_and_raises_if_it_ends_before(self) -> None:
        node = self.node()
        client = self.connect()
        wild = client.subscribe("a/#")
        await wild.ready()
        # Another client's message comes after the begin, so it comes.
        await self.connect().publish("a/b", "1")
        self.assertEqual((await message(wild)).text(), "1")
        await wild.ready()
        with self.assertRaisesRegex(crore.Refused, "start"):
            await client.subscribe("b/+", crore.last(3)).ready()
        await asyncio.to_thread(node.kill)
        never = client.subscribe("c")
        ready = asyncio.create_task(never.ready())
        await asyncio.sleep(0)
        never.close()
        with self.assertRaises(crore.Closed):
            await ready
        await wild.ready()

    async def test_refusals_are_errors_with_code_and_name(self) -> None:
        self.node()
        client = self.connect()
        with self.assertRaises(crore.Refused) as caught:
            await client.publish("$sys/x", "no")
        error = caught.exception
        self.assertEqual((error.name, error.code, error.temporary), ("forbidden", 202, False))
        with self.assertRaises(crore.Refused) as caught:
            await client.subscribe("a/+", crore.last(3)).next()
        self.assertEqual(caught.exception.name, "unsupported_start")
        self.assertRaises(crore.InvalidArgument, client.subscribe, "")
        self.assertRaises(crore.InvalidArgument, crore.since, "7")
        with self.assertRaises(crore.InvalidArgument):
            await client.publish("", "x")
        one = client.subscribe("t")
        self.assertRaises(crore.AlreadySubscribed, client.subscribe, "t")
        one.close()
        self.assertIsNone(await one.next())
        client.subscribe("t")

    async def test_history_comes_page_by_page_in_both_directions(self) -> None:
        self.node()
        client = self.connect()
        positions = [(await client.publish("h", str(number))).position for number in range(25)]

        async def read(**options: Any) -> list[str]:
            return [it.text() async for it in client.history("h", **options)]

        everything = [str(number) for number in range(25)]
        self.assertEqual(await read(), everything)
        self.assertEqual(await read(reverse=True), everything[::-1])
        self.assertEqual(await read(after=positions[9], limit=3), ["10", "11", "12"])
        page = await client.history_page("h", limit=10)
        self.assertEqual((len(page.messages), page.more, page.gap), (10, True, None))
        assert page.messages[0].time is not None
        self.assertGreater(page.messages[0].time.year, 2024)

    async def test_a_cancelled_reader_loses_no_item(self) -> None:
        self.node()
        client = self.connect()
        subscription = client.subscribe("c")
        await client.ready()
        first = await subscription.next()
        assert first is not None
        self.assertEqual(first.kind, "caught_up")
        for number in range(50):
            reader = asyncio.ensure_future(subscription.next())
            await asyncio.sleep(0)
            publishing = asyncio.ensure_future(client.publish("c", str(number)))
            if number % 2:
                await publishing
            reader.cancel()
            try:
                item: Item | None = await reader
            except asyncio.CancelledError:
                item = None
            await publishing
            while not isinstance(item, Message):
                item = await subscription.next()
            self.assertEqual(item.text(), str(number))


class Returning(WithNode):
    async def test_a_subscription_survives_kill_9_of_the_node_without_a_gap_and_without_a_repeat(self) -> None:
        node = self.node(ON_DISK)
        client, other = self.connect(), self.connect()
        subscription = client.subscribe("a")
        await subscription.ready()
        for turn in range(3):
            for number in range(20):
                await other.publish("a", f"{turn}.{number}", once=True)
            # What was confirmed is on disk: nothing of it may be lost.
            await asyncio.to_thread(node.restart)
            for number in range(20, 30):
                await other.publish("a", f"{turn}.{number}", once=True)
            for number in range(30):
                self.assertEqual((await message(subscription)).text(), f"{turn}.{number}")
        self.assertTrue(subscription.report().complete)
        self.assertEqual(subscription.report().messages, 90)

    async def test_once_is_exactly_once_over_kills_of_the_node(self) -> None:
        node = self.node(ON_DISK)
        client = self.connect()
        calls: list[asyncio.Task[crore.Published]] = []
        for turn in range(4):
            calls += (
                asyncio.create_task(client.publish("once", f"{turn}.{number}", once=True)) for number in range(100)
            )
            # Some are answered, some are on their way, some wait.
            await calls[-90]
            await asyncio.to_thread(node.restart)
        positions = {it.position for it in await asyncio.gather(*calls)}
        self.assertEqual(len(positions), 400)
        texts = [it.text() async for it in client.history("once")]
        self.assertEqual(texts, [f"{at // 100}.{at % 100}" for at in range(400)])

    async def test_a_drained_node_sends_its_clients_away_and_they_come_back(self) -> None:
        node = self.node(ON_DISK)
        events: list[str] = []
        client = self.connect(log=lambda _level, event, _fields: events.append(event))
        subscription = client.subscribe("a")
        await client.ready()
        await client.publish("a", "before")
        gone = asyncio.create_task(when(client, "waiting"))
        await asyncio.sleep(0)
        node.signal(signal.SIGTERM)
        self.assertEqual((await gone).reason, "go_away")
        await asyncio.to_thread(node.wait)
        await asyncio.to_thread(node.start)
        await client.ready()
        await client.publish("a", "after")
        self.assertEqual((await message(subscription)).text(), "before")
        self.assertEqual((await message(subscription)).text(), "after")
        self.assertTrue(subscription.report().complete)
        self.assertIn("go_away", events)

    async def test_tickets_resume_a_session(self) -> None:
        node = self.node(ON_DISK)
        events: list[str] = []
        has_ticket = asyncio.Event()

        def log(_level: str, event: str, _fields: object) -> None:
            events.append(event)
            if event == "ticket":
                has_ticket.set()

        client = self.connect(log=log)
        subscription, wild = client.subscribe("a"), client.subscribe("b/#")
        await has_ticket.wait()
        await client.publish("a", "1")
        # Before the client knows, a publication goes into the dead socket.
        gone = asyncio.create_task(when(client, "waiting"))
        await asyncio.to_thread(node.kill)
        await gone
        await asyncio.to_thread(node.start)
        await client.ready()
        await client.publish("a", "2")
        await client.publish("b/c", "3")
        self.assertEqual((await message(subscription)).text(), "1")
        self.assertEqual((await message(subscription)).text(), "2")
        self.assertEqual((await message(wild)).text(), "3")
        self.assertNotIn("ticket_refused", events)
        self.assertTrue(subscription.report().complete and wild.report().complete)

    async def test_r11_p14_a_named_subscription_resumes_from_what_was_processed(self) -> None:
        self.node(ON_DISK)
        for topic in ("a", "w/#"):
            storage, target = Memory(), topic.replace("#", "x")
            first = self.connect(storage=storage)
            subscription = first.subscribe(topic, name="reader")
            item = await subscription.next()
            assert item is not None
            self.assertNotEqual(item.kind, "gap")
            for number in range(5):
                await first.publish(target, str(number))
            self.assertEqual((await message(subscription)).text(), "0")
            self.assertEqual((await message(subscription)).text(), "1")
            # The program ends while it processes 1: it was not processed.
            await first.close()
            second = self.connect(storage=storage)
            resumed = second.subscribe(topic, name="reader")
            for wanted in ("1", "2", "3", "4"):
                self.assertEqual((await message(resumed)).text(), wanted)
            self.assertTrue(resumed.report().complete)
            await second.close()

    async def test_r11_a_filter_resumes_in_partitions_of_which_nothing_was_processed(self) -> None:
        self.node(ON_DISK)
        storage, other = Memory(), self.connect()
        first = self.connect(storage=storage)
        subscription = first.subscribe("w/#", name="reader")
        reading = asyncio.create_task(subscription.next())
        await subscription.ready()
        await other.publish("w/x", "0")
        item = await reading
        assert isinstance(item, Message)
        asyncio.get_running_loop().call_soon(subscription.close)
        self.assertIsNone(await subscription.next())
        await first.close()
        # Of all partitions.
        for number in range(8):
            await other.publish(f"w/{number}", str(number))
        again = self.connect(storage=storage).subscribe("w/#", name="reader")
        self.assertEqual({(await message(again)).text() for _ in range(8)}, set("01234567"))
        self.assertTrue(again.report().complete)

    async def test_r11_t11_with_store_tickets_the_next_program_resumes_in_one_frame(self) -> None:
        self.node(ON_DISK)
        storage, shown, other = Memory(), list[str](), self.connect()

        def tickets() -> list[str]:
            return [json.loads(text)["ticket"] for key, text in storage.kept.items() if key.startswith("ticket:")]

        async def program(topics: dict[str, str], wanted: str, resumed: int | None, **options: Any) -> None:
            """Reads one message of each topic; the program before ended while it processed the same one."""
            events: asyncio.Queue[tuple[str, Any]] = asyncio.Queue()

            def log(_level: str, event: str, fields: dict[str, Any]) -> None:
                shown.append(repr((event, fields)))
                if event in ("connected", "ticket"):
                    events.put_nowait((event, fields.get("resumed")))

            client = self.connect(storage=storage, log=log, **options)
            readers = {client.subscribe(topic, name=topic, fail_on_gap=topic == "a"): topics[topic] for topic in topics}
            self.assertEqual(await events.get(), ("connected", resumed))
            if resumed is None:
                self.assertEqual(await events.get(), ("ticket", None))
            for reader, target in readers.items():
                if not resumed:
                    await other.publish(target, wanted)
                self.assertEqual((await message(reader)).text(), wanted)
                if wanted == "0":
                    asyncio.get_running_loop().call_soon(reader.close)
                    self.assertIsNone(await reader.next())
            shown.append(repr(client.inspect()))
            await client.close()

        both = {"a": "a", "w/#": "w/x"}
        await program(both, "0", None)
        self.assertEqual(tickets(), [])
        await program(both, "1", None, store_tickets=True)
        self.assertEqual(len(tickets()), 1)
        await program(both, "1", 2, store_tickets=True)
        self.assertEqual(len(tickets()), 1)
        for ticket in tickets():
            self.assertGreater(len(ticket), 32)
            self.assertNotIn(ticket, "".join(shown))
            self.assertNotIn(repr(bytes.fromhex(ticket))[2:-1], "".join(shown))
        with self.assertRaises(crore.InvalidArgument):
            crore.connect(self.url, store_tickets=True)

    async def test_r11_a_stored_ticket_hides_nothing_that_was_not_processed(self) -> None:
        self.node(ON_DISK)
        storage = Memory()
        for program in range(2):
            has_ticket = asyncio.Event()

            def log(_level: str, event: str, _fields: object, has_ticket: asyncio.Event = has_ticket) -> None:
                if event == "ticket":
                    has_ticket.set()

            client = self.connect(storage=storage, store_tickets=True, log=log)
            subscription = client.subscribe("a", name="a")
            if program == 0:
                await subscription.ready()
                for text in "012":
                    await client.publish("a", text)
            # All three had come before the ticket; the first program ends while it processes 0.
            for text in "0" if program == 0 else "012":
                self.assertEqual((await message(subscription)).text(), text)
            await has_ticket.wait()
            await client.close()

    async def test_u13_stored_publications_survive_the_program_and_are_in_the_log_once(self) -> None:
        node = self.node(ON_DISK)
        storage = Memory()
        first = self.connect(storage=storage, persist=True)
        await first.publish("p", "0", once=True)
        await asyncio.to_thread(node.kill)
        # Without a node: stored, and never answered in this program.
        lost = [
            asyncio.create_task(first.publish("p", str(number), once=True, tags={"n": str(number)}))
            for number in (1, 2, 3)
        ]
        await asyncio.sleep(0)
        await first.close(drain=0)
        for result in await asyncio.gather(*lost, return_exceptions=True):
            self.assertIsInstance(result, crore.Closed | crore.Unknown)
        self.assertEqual(len(storage.kept), 4, list(storage.kept))
        await asyncio.to_thread(node.start)
        second = self.connect(storage=storage, persist=True)
        await second.publish("p", "4", once=True)
        found = [(it.text(), it.tag("n")) async for it in second.history("p")]
        self.assertEqual(found, [("0", None), ("1", "1"), ("2", "2"), ("3", "3"), ("4", None)])
        await second.close()
        self.assertEqual(len(storage.kept), 1, "only the producer is left")

    async def test_p13_messages_raises_in_place_of_a_gap_and_goes_on(self) -> None:
        self.node(ON_DISK)
        client = self.connect()
        first = await client.publish("g", "first")
        await client.publish("g", "second")
        # A position of an epoch that never was: everything before is a gap.
        position = f"1:{first.position.split(':')[1]}"
        subscription = client.subscribe("g", crore.since(position))
        with self.assertRaises(crore.GapError) as caught:
            async for it in subscription.messages():
                self.fail(it.text())
        self.assertEqual(caught.exception.start, position)
        await client.publish("g", "third")
        async for it in subscription.messages():
            if it.text() == "third":
                break
        self.assertEqual((subscription.report().complete, subscription.report().gaps), (False, 1))
        subscription.close()

        strict = client.subscribe("g", crore.since(position), fail_on_gap=True)
        with self.assertRaises(crore.Refused) as refused:
            await strict.next()
        self.assertEqual(refused.exception.name, "position_unavailable")
        self.assertRegex(refused.exception.restart or "", r"^\d+:\d+$")

        counting = client.subscribe("g", crore.since(position))
        await client.publish("g", "fourth")
        async for it in counting.messages(gaps="report"):
            if it.text() == "fourth":
                break
        self.assertEqual(counting.report().gaps, 1)

    async def test_b5_a_slow_reader_stops_no_other_subscription_and_misses_nothing(self) -> None:
        self.node(ON_DISK)
        client, publisher = self.connect(buffer_items=16), self.connect()
        slow, quick = client.subscribe("slow"), client.subscribe("quick")
        await client.ready()
        await asyncio.gather(slow.ready(), quick.ready())
        for number in range(200):
            await publisher.publish("slow", str(number))
            await publisher.publish("quick", str(number))
            self.assertEqual((await message(quick)).text(), str(number))
        self.assertLessEqual(client.inspect()["subscriptions"][0]["buffered"], 16)
        for number in range(200):
            self.assertEqual((await message(slow)).text(), str(number))
        self.assertTrue(slow.report().complete)


class Tokens(WithNode):
    async def test_a_source_is_called_a_refused_token_is_final_and_permissions_hold(self) -> None:
        node = Guarded()
        self.addCleanup(node.remove)
        node.start()
        self.url = node.url
        reasons: list[str] = []
        good = node.token("--sub", "a", "--all", "mine/#")

        async def source(reason: str) -> str:
            reasons.append(reason)
            return good

        client = self.connect(token=source)
        await client.ready()
        self.assertEqual(reasons, ["first"])
        await client.publish("mine/x", "yes")
        with self.assertRaisesRegex(crore.Refused, "forbidden"):
            await client.publish("other", "no")
        with self.assertRaisesRegex(crore.Refused, "forbidden"):
            await client.subscribe("other").next()

        # T7: a fixed token that is refused is final, and so is one that a source repeats.
        with self.assertRaises(crore.Closed):
            await self.connect(token="not.a.token").ready()
        asked: list[str] = []

        def repeating(reason: str) -> str:
            asked.append(reason)
            return "not.a.token"

        with self.assertRaises(crore.Closed):
            await self.connect(token=repeating).ready()
        self.assertEqual(asked, ["first", "refused"])
        tokens = ["not.a.token", good]
        await self.connect(token=lambda _: tokens.pop(0)).ready()

        # T9: a source that raises is called again, `Unauthorized` is final.
        calls = 0

        def failing(_reason: str) -> str:
            nonlocal calls
            calls += 1
            if calls < 3:
                raise OSError("the network is down")
            return good

        await self.connect(token=failing).ready()
        self.assertEqual(calls, 3)

        async def refusing(_reason: str) -> str:
            raise crore.Unauthorized("log in again")

        refused = self.connect(token=refusing)
        with self.assertRaises(crore.Closed):
            await refused.ready()
        self.assertEqual(refused.state.reason, "token")

    async def test_t2_t4_t11_a_short_token_is_renewed_in_place_and_stands_in_no_log(self) -> None:
        node = Guarded()
        self.addCleanup(node.remove)
        node.start()
        self.url = node.url
        renewed: list[str] = []
        events: list[str] = []
        done = asyncio.Event()

        def source(reason: str) -> str:
            renewed.append(reason)
            return node.token("--sub", "b", "--all", "#", expires="3h" if len(renewed) > 1 else "1h")

        def log(_level: str, event: str, fields: dict[str, Any]) -> None:
            events.append(json.dumps([event, fields]))
            if event == "token_renewed":
                done.set()

        client = self.connect(token=source, log=log)
        subscription = client.subscribe("s")
        await asyncio.wait_for(done.wait(), PATIENCE_S)
        await client.publish("s", "x")
        self.assertEqual((await message(subscription)).text(), "x")
        self.assertEqual(renewed, ["first", "expires"])
        self.assertTrue(subscription.report().complete)
        self.assertNotIn("eyJ", json.dumps([events, client.inspect()]))


class Closing(WithNode):
    async def test_x3_close_in_every_state_and_twice_is_safe_and_a_call_after_it_fails(self) -> None:
        self.node()
        for state in ("connecting", "live", "waiting"):
            with self.subTest(state):
                client = self.connect(url=f"ws://{own_address()}:9" if state == "waiting" else None)
                if state == "live":
                    await client.ready()
                elif state == "waiting":
                    await when(client, "waiting")
                subscription = client.subscribe("x")
                reading = asyncio.create_task(subscription.each(lambda item: self.assertEqual(item.kind, "caught_up")))
                await asyncio.gather(client.close(), client.close())
                await client.close()
                await reading
                self.assertEqual(client.state.state, "closed")
                for call in (client.publish("x", "y"), client.history_page("x"), client.ready()):
                    with self.assertRaises(crore.Closed):
                        await call
                self.assertRaises(crore.Closed, client.subscribe, "z")

    async def test_x5_a_callback_that_raises_harms_nobody_and_may_call_the_client(self) -> None:
        self.node()
        failures: list[str] = []
        client = self.connect(log=lambda _l, event, _f: failures.append(event) if event == "callback_failed" else None)

        def listener(_state: crore.State) -> None:
            raise ValueError("mine")

        client.on_state(listener)
        subscription = client.subscribe("x")
        seen: list[str] = []

        async def callback(item: Item) -> None:
            if isinstance(item, Message):
                seen.append(item.text())
                if item.text() == "1":
                    await client.publish("x", "2")
                else:
                    subscription.close()
                raise ValueError("mine too")

        done = asyncio.create_task(subscription.each(callback))
        await client.publish("x", "1")
        await done
        self.assertEqual(seen, ["1", "2"])
        self.assertGreaterEqual(len(failures), 3)

    async def test_x6_inspect_is_plain_data(self) -> None:
        self.node()
        client = self.connect()
        subscription = client.subscribe("x")
        await client.publish("x", "1")
        await message(subscription)
        shown = json.loads(json.dumps(client.inspect()))
        self.assertEqual(shown["state"], "live")
        self.assertEqual((shown["subscriptions"][0]["topic"], shown["subscriptions"][0]["messages"]), ("x", 1))
        self.assertEqual(shown["queue"]["sent"], 0)
        self.assertGreaterEqual(shown["round_trip_ms"], 0)
        self.assertIn("connected", [it["event"] for it in shown["events"]])

    async def test_u11_a_cancelled_call_that_was_not_sent_never_is(self) -> None:
        node = self.node()
        await asyncio.to_thread(node.kill)
        client = self.connect()
        call = asyncio.create_task(client.publish("x", "never"))
        await asyncio.sleep(0)
        call.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await call
        with self.assertRaises(crore.Expired):
            await client.publish("x", "never", timeout=0.01)
        await asyncio.to_thread(node.start)
        await client.publish("x", "then")
        self.assertEqual([it.text() async for it in client.history("x")], ["then"])

    async def test_u15_many_publications_of_one_turn_wait_for_room_and_arrive_in_order(self) -> None:
        self.node()
        client = self.connect()
        await client.ready()
        published = await asyncio.gather(*(client.publish("big", bytes(60_000)) for _ in range(100)))
        offsets = [int(it.position.split(":")[1]) for it in published]
        self.assertEqual(offsets, sorted(set(offsets)))


if __name__ == "__main__":
    unittest.main()
