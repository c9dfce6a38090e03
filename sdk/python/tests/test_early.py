"""C2: the first frames with the handshake (`handshake_frames`), in the core and with both clients on a node."""

from __future__ import annotations

import asyncio
import base64
import unittest

from test_rules import welcome

import crore
import crore.sync
from crore._codec.client import hello, unsubscribe, varint
from crore._core.core import Core
from crore._core.outputs import Connect, Send
from crore._core.settings import Settings
from crore._core.subscription import SubscribeOptions
from crore._link import Link
from node import PATIENCE_S, Guarded

HELLO, SUBSCRIBE, RENEW = 0x01, 0x02, 0x09


class Early(unittest.TestCase):
    def setUp(self) -> None:
        self.core = Core(Settings(["ws://x/crore"], lambda: 0.0, b"p", token="first", handshake_frames=True))
        self.core.start(0)
        self.assertTrue(any(isinstance(it, Connect) for it in self.outputs()))

    def outputs(self) -> list[object]:
        outputs, self.core.outputs = self.core.outputs, []
        self.core.drained(0)
        return [*outputs]

    def sent(self) -> list[bytes]:
        return [it.data for it in self.outputs() if isinstance(it, Send)]

    def test_c2_hello_and_subscribe_go_with_the_handshake_and_not_again(self) -> None:
        self.core.subscribe(0, "a", SubscribeOptions())
        self.assertEqual([frame[0] for frame in self.core.early(0)], [HELLO, SUBSCRIBE])
        self.core.opened(0)
        self.assertEqual(self.sent(), [])

    def test_c2_what_changes_meanwhile_follows(self) -> None:
        first = self.core.subscribe(0, "a", SubscribeOptions())
        self.core.early(0)
        self.core.unsubscribe(0, first)
        self.core.subscribe(0, "a", SubscribeOptions())
        self.core.renew("second")
        self.core.opened(0)
        sent = self.sent()
        self.assertEqual(sent[0], unsubscribe([1]))
        self.assertEqual((len(sent), sent[1][0], sent[1][3]), (2, SUBSCRIBE, 2))
        self.core.received(0, welcome())
        (renewal,) = self.sent()
        self.assertEqual(renewal[0], RENEW)
        self.assertIn(b"second", renewal)

    def test_c2_more_than_8_kib_follow_the_handshake(self) -> None:
        for number in range(40):
            self.core.subscribe(0, f"{number:0250}", SubscribeOptions())
        self.assertEqual(self.core.early(0), [])
        self.core.opened(0)
        self.assertEqual([frame[0] for frame in self.sent()], [HELLO, SUBSCRIBE, SUBSCRIBE, SUBSCRIBE, SUBSCRIBE])

    def test_c6_a_refusal_of_the_long_head_is_repeated_without_the_frames(self) -> None:
        for status, again in ((431, True), (400, False)):
            # Without them, 400 is final.
            self.assertEqual(bool(self.core.early(0)), again)
            self.core.failed(0, status)
            self.assertEqual(self.core.state.state, "waiting" if again else "closed")
            self.core.tick(0)
            self.outputs()

    def test_each_frame_is_an_offered_subprotocol(self) -> None:
        link = Link("ws://x/crore")
        frames = [hello("token", None), b"\x02\x00" + varint(300)]
        link.greet(frames)
        offers = next(line for line in link.output().decode().split("\r\n") if "protocol:" in line.lower())
        first, *early = offers.split(": ")[1].split(", ")
        self.assertEqual(first, "crore.v1")
        decoded = [base64.urlsafe_b64decode(offer.removeprefix("crore.frame.") + "==") for offer in early]
        self.assertEqual(decoded, frames)


class OnANode(unittest.TestCase):
    def setUp(self) -> None:
        self.node = Guarded()
        self.addCleanup(self.node.remove)
        self.node.start()
        self.token = self.node.token("--sub", "a", "--all", "#")

    def test_c2_both_clients_become_live_by_the_frames_of_the_handshake(self) -> None:
        async def run() -> None:
            async with crore.connect(self.node.url, token=self.token, handshake_frames=True) as client:
                subscription = client.subscribe("a")
                await client.ready()
                self.assertEqual(await subscription.next(), crore.CaughtUp(subscription.report().position or ""))
                await client.publish("a", "1")
                self.assertEqual((await anext(subscription.messages())).text(), "1")

        asyncio.run(asyncio.wait_for(run(), PATIENCE_S))
        with crore.sync.connect(self.node.url, token=self.token, handshake_frames=True) as client:
            subscription = client.subscribe("a", crore.last(1))
            self.assertEqual(next(subscription.messages()).text(), "1")


if __name__ == "__main__":
    unittest.main()
