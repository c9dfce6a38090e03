"""Rules that no scenario can show: the core in virtual time, with a clock that jumps."""

from __future__ import annotations

import unittest

from crore._codec.client import Policy, varint
from crore._core.core import Core
from crore._core.kept_ticket import KeptSubscription, KeptTicket, kept_ticket
from crore._core.outputs import AskToken, Close, Connect, Output, Send
from crore._core.settings import Settings
from crore._core.subscription import SubscribeOptions
from crore.items import CaughtUp, Message
from crore.starts import since, since_each

HELLO, SUBSCRIBE, PING, TICKET = 0x01, 0x02, 0x07, 0x0A
SILENCE_MS = 310_000


def welcome(interval_s: int = 300, ticket_lifetime_s: int | None = None, resumed: int | None = None) -> bytes:
    options = [(12, resumed), (14, ticket_lifetime_s)]
    given = [(key, varint(value)) for key, value in options if value is not None]
    block = varint(len(given)) + b"".join(varint(key) + varint(len(value)) + value for key, value in given)
    fixed = bytes(8) + varint(interval_s) + varint(1_000_000) + varint(2**20) + varint(2**20) + varint(1024)
    return bytes((0x81, 0x80 if given else 0, 1)) + fixed + (block if given else b"")


def subscribed(number: int, alias: int, offset: int = 0) -> bytes:
    return b"\x82\x00" + varint(number) + varint(alias) + varint(7) + varint(offset)


def subscribed_filter(number: int, partitions: int) -> bytes:
    """A grant of a filter in so many partitions, that continues."""
    begins = b"".join(b"\x04" + varint(it) + varint(7) + varint(5) for it in range(partitions))
    return b"\x82\x01" + varint(number) + varint(partitions) + begins


def ticket_issued(request: int, ticket: bytes) -> bytes:
    return b"\x8e\x00" + varint(request) + varint(10**12) + varint(len(ticket)) + ticket


class Rules(unittest.TestCase):
    def setUp(self) -> None:
        self.core = Core(Settings(urls=["ws://x/crore"], random=lambda: 0.0, producer_id=b"p"))
        self.now = 0.0

    def outputs(self) -> list[Output]:
        outputs, self.core.outputs = self.core.outputs, []
        self.core.drained(self.now)
        return outputs

    def sent(self) -> list[bytes]:
        return [it.data for it in self.outputs() if isinstance(it, Send)]

    def kinds(self) -> list[int]:
        return [data[0] for data in self.sent()]

    def receive(self, *frames: bytes) -> None:
        for frame in frames:
            self.core.received(self.now, frame)

    def wait(self, ms: float) -> None:
        self.now += ms
        self.core.tick(self.now)

    def cut(self) -> None:
        """The connection ends, and the next one opens."""
        self.core.closed(self.now, 1006)
        assert self.core.wake_at is not None
        self.wait(self.core.wake_at - self.now)
        self.assertTrue(any(isinstance(it, Connect) for it in self.outputs()))
        self.core.opened(self.now)

    def test_c11_offsets_of_64_bits_are_exact_and_more_bits_are_no_frame(self) -> None:
        self.core.start(self.now)
        it = self.core.subscribe(self.now, "a", SubscribeOptions())
        self.core.opened(self.now)
        for offset in (2**53, 2**63, 2**64 - 1):
            message = b"\x84\x00\x05" + varint(offset) + b"\x01x"
            if it.proof.cursor is None:
                self.receive(welcome(), subscribed(1, 5, offset - 1))
                self.assertEqual(self.core.take(self.now, it), CaughtUp(f"7:{offset - 1}"))
            else:
                self.receive(b"\x86\x00\x01" + varint(offset - 1))
                self.assertEqual(self.core.take(self.now, it), CaughtUp(f"7:{offset - 1}"))
            self.receive(message)
            item = self.core.take(self.now, it)
            assert isinstance(item, Message)
            self.assertEqual((item.offset, item.prev, item.position), (offset, offset - 1, f"7:{offset}"))
        self.assertTrue(it.report().complete)
        self.receive(b"\x84\x00\x05" + varint(2**64) + b"\x01x")
        self.assertIn(Close(1002), self.outputs())

    def test_l5_a_timer_that_slept_sends_ping_and_grants_a_whole_deadline(self) -> None:
        self.core.start(self.now)
        self.core.opened(self.now)
        self.receive(welcome())
        self.outputs()
        # The machine slept for a day, with nothing on its way.
        self.wait(86_400_000)
        self.assertEqual(self.kinds(), [PING])
        self.wait(SILENCE_MS - 1)
        self.assertEqual(self.outputs(), [])
        # It sleeps again while it waits for the answer, which is in the socket's buffer.
        self.wait(86_400_000)
        self.assertEqual(self.kinds(), [PING])
        self.wait(SILENCE_MS - 1)
        self.assertEqual(self.outputs(), [])
        self.receive(b"\x08\x00\x07")
        # A timer in time gives up: L2.
        self.wait(SILENCE_MS)
        self.assertEqual(self.kinds(), [PING])
        self.wait(SILENCE_MS)
        self.assertIn(Close(1006), self.outputs())
        self.assertEqual(self.core.state.reason, "idle")

    def test_x1_a_token_that_comes_after_the_close_opens_nothing(self) -> None:
        for is_error in (False, True):
            core = Core(Settings(["ws://x/crore"], lambda: 0.0, b"p", has_token_source=True))
            core.start(0)
            (asked,) = (it for it in core.outputs if isinstance(it, AskToken))
            core.close(0, 0)
            core.tick(1)
            self.assertEqual(core.state.state, "closed")
            core.outputs = []
            if is_error:
                core.token_failed(2, asked.id, False)
            else:
                core.token(2, asked.id, "late")
            self.assertEqual(core.outputs, [])
            self.assertIsNone(core.wake_at)

    def with_ticket(self, ticket: bytes, partitions: int = 1) -> None:
        """A client that has subscribed, and has been given a ticket."""
        places = since_each(dict.fromkeys(range(partitions), "7:5"))
        self.core.start(self.now)
        self.core.subscribe(self.now, "a/#", SubscribeOptions(places))
        self.core.opened(self.now)
        self.receive(welcome(ticket_lifetime_s=3600), subscribed_filter(1, partitions))
        self.outputs()
        self.wait(1_000)
        asked = self.sent()
        self.assertEqual([data[0] for data in asked], [TICKET])
        self.receive(ticket_issued(asked[0][2], ticket))

    def test_r10_a_ticket_is_used_up_to_250_cursors(self) -> None:
        self.with_ticket(b"the ticket", partitions=250)
        self.cut()
        (hello,) = self.sent()
        self.assertEqual(hello[0], HELLO)
        self.assertIn(b"the ticket", hello)
        self.assertLess(len(hello), 32 * 1024)

    def test_r10_above_250_cursors_it_subscribes_without_the_ticket(self) -> None:
        self.with_ticket(b"the ticket", partitions=251)
        self.cut()
        hello, subscribe = self.sent()
        self.assertEqual((hello[0], subscribe[0]), (HELLO, SUBSCRIBE))
        self.assertNotIn(b"the ticket", hello)

    def test_r10_above_16_kib_it_subscribes_without_the_ticket_and_does_not_ask_at_once(self) -> None:
        self.with_ticket(b"t" * (16 * 1024 + 1))
        for _ in range(5):
            self.wait(1_000)
        self.assertEqual(self.kinds(), [])
        self.cut()
        hello, subscribe = self.sent()
        self.assertEqual((hello[0], subscribe[0]), (HELLO, SUBSCRIBE))
        self.assertNotIn(b"ttt", hello)

    def with_kept(self, expires_ms: float | None = None, policy: Policy | None = None, come: str = "7:5") -> None:
        """A client with the ticket of an earlier program, which held subscriptions 3 and 9."""
        self.setUp()
        places = {"0": come}
        subscriptions = {"a": KeptSubscription(9, False, policy, places), "b": KeptSubscription(3, True, None, places)}
        kept = KeptTicket(b"the ticket", expires_ms, subscriptions)
        self.core.restore(self.now, 5_000, kept_ticket(kept.text()))
        self.core.start(self.now)

    def go_on(self, topic: str, fail_on_gap: bool = False) -> None:
        self.core.subscribe(self.now, topic, SubscribeOptions(since("7:5"), fail_on_gap, is_resumed=True))

    def hello(self) -> bytes:
        self.assertTrue(any(isinstance(it, Connect) for it in self.outputs()))
        self.core.opened(self.now)
        return self.sent()[0]

    def test_r11_a_stored_ticket_is_used_once_all_of_its_subscriptions_go_on(self) -> None:
        self.with_kept()
        self.core.subscribe(self.now, "another", SubscribeOptions())
        self.go_on("a")
        self.assertEqual(self.outputs(), [])
        self.go_on("b", fail_on_gap=True)
        self.assertIn(b"the ticket", self.hello())
        self.receive(welcome(ticket_lifetime_s=3600, resumed=2), subscribed(9, 1, 5), subscribed(3, 2, 5))
        granted = {it["topic"]: it["granted"] for it in self.core.inspect()["subscriptions"]}
        self.assertEqual(granted, {"another": False, "a": True, "b": True})
        kept = self.core.kept_ticket()
        assert kept is not None
        self.assertEqual({it.number for it in kept.subscriptions.values()}, {3, 9})

    def test_r11_a_stored_ticket_is_not_used_for_anything_else(self) -> None:
        for case in (
            "one is missing",
            "another start",
            "another option",
            "another epoch",
            "not all was processed",
            "expired",
        ):
            with self.subTest(case):
                self.with_kept(
                    expires_ms=5_000 if case == "expired" else 6_000,
                    policy="drop" if case == "another option" else None,
                    come={"another epoch": "8:5", "not all was processed": "7:6"}.get(case, "7:5"),
                )
                self.go_on("a")
                if case == "another start":
                    self.core.subscribe(self.now, "b", SubscribeOptions(fail_on_gap=True))
                elif case != "one is missing":
                    self.go_on("b", fail_on_gap=True)
                if case != "expired":
                    # It does not wait for long.
                    self.assertEqual(self.core.wake_at, self.now + 250)
                    self.wait(250)
                self.assertNotIn(b"the ticket", self.hello())

    def test_t9_a_source_has_10_s_and_its_late_result_is_dropped(self) -> None:
        core = Core(Settings(urls=["ws://x/crore"], random=lambda: 0.5, producer_id=b"p", has_token_source=True))
        self.core = core
        core.start(self.now)
        (first,) = (it.id for it in self.outputs() if isinstance(it, AskToken))
        self.wait(9_999)
        self.assertEqual(self.outputs(), [])
        self.wait(1)
        self.assertEqual(core.state.reason, "token")
        core.token(self.now, first, "too late")
        self.assertFalse(any(isinstance(it, Connect) for it in self.outputs()))
        self.wait(250)
        (second,) = (it.id for it in self.outputs() if isinstance(it, AskToken))
        core.token(self.now, second, "in time")
        self.assertTrue(any(isinstance(it, Connect) for it in self.outputs()))
        core.opened(self.now)
        self.assertIn(b"in time", self.sent()[0])
        # The result of a call that an expiring token caused is dropped with its connection.
        self.receive(welcome(), b"\x8f\x00" + varint(1_060_000))
        (third,) = (it.id for it in self.outputs() if isinstance(it, AskToken))
        self.cut()
        self.assertIn(b"in time", self.sent()[0])
        core.token(self.now, third, "of another connection")
        self.receive(welcome())
        self.assertEqual(self.kinds(), [])


if __name__ == "__main__":
    unittest.main()
