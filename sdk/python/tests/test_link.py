"""The WebSocket of both clients: the frames that it cuts out by itself, beside those that the library reads."""

from __future__ import annotations

import unittest
from collections.abc import Iterable

from hypothesis import given, settings
from hypothesis import strategies as st
from websockets.frames import Close, Frame, Opcode
from websockets.http11 import Request
from websockets.server import ServerProtocol

from crore._link import MESSAGE_BYTES_MAX, Ended, Event, Failed, Link, Opened


def sent(opcode: Opcode, data: bytes, fin: bool = True, mask: bool = False) -> bytes:
    return Frame(opcode, data, fin).serialize(mask=mask)


def answer(link: Link, offered: str = "crore.v1") -> bytes:
    """The server's answer to the handshake."""
    link.greet()
    peer = ServerProtocol(subprotocols=[offered])  # type: ignore[list-item]
    peer.receive_data(link.output())
    request = peer.events_received()[0]
    assert isinstance(request, Request)
    peer.send_response(peer.accept(request))
    return b"".join(peer.data_to_send())


def received(link: Link, chunks: Iterable[bytes]) -> list[Event]:
    return [event for chunk in chunks for event in link.receive(chunk)]


def chunks_of(data: bytes, sizes: list[int]) -> list[bytes]:
    """The bytes in chunks of these sizes, in turn."""
    chunks: list[bytes] = []
    while data:
        size = sizes[len(chunks) % len(sizes)]
        chunks.append(data[:size])
        data = data[size:]
    return chunks


#: Bytes of the server, and the messages that are in them.
WHOLE = st.builds(lambda size: (sent(Opcode.BINARY, b"\x84" * size), [b"\x84" * size]), st.integers(0, 300))
LONG = st.sampled_from([65_535, 65_536, 70_000]).map(lambda size: (sent(Opcode.BINARY, bytes(size)), [bytes(size)]))
TEXT = st.just((sent(Opcode.TEXT, b"text"), ["text"]))
PING: st.SearchStrategy[tuple[bytes, list[Event]]] = st.sampled_from(
    [(sent(Opcode.PING, b"p"), []), (sent(Opcode.PONG, b""), [])]
)
PARTS = st.sampled_from(
    [
        (sent(Opcode.BINARY, b"a", False) + sent(Opcode.CONT, b"b"), [b"ab"]),
        (sent(Opcode.BINARY, b"", False) + sent(Opcode.PING, b"") + sent(Opcode.CONT, b""), [b""]),
        (sent(Opcode.TEXT, b"t", False) + sent(Opcode.CONT, b"e", False) + sent(Opcode.CONT, b"x"), ["tex"]),
    ]
)


class Frames(unittest.TestCase):
    @settings(max_examples=100, deadline=None)
    @given(
        st.lists(WHOLE | WHOLE | LONG | TEXT | PING | PARTS, max_size=12),
        st.lists(st.integers(1, 400) | st.integers(1, 100_000), min_size=1, max_size=6),
    )
    def test_messages_come_whole_however_the_bytes_are_cut(
        self, parts: list[tuple[bytes, list[Event]]], sizes: list[int]
    ) -> None:
        link = Link("ws://x/crore")
        data = answer(link) + b"".join(data for data, _ in parts) + sent(Opcode.CLOSE, Close(3001, "").serialize())
        events = received(link, chunks_of(data, sizes))
        wanted = [event for _, events in parts for event in events]
        self.assertEqual(events, [Opened(), *wanted, Ended(3001)])
        self.assertTrue(link.has_peer_closed)
        self.assertEqual(link.eof(), [])

    def test_what_breaks_the_protocol_ends_the_connection(self) -> None:
        too_long = b"\x82\x7f" + (MESSAGE_BYTES_MAX + 1).to_bytes(8, "big")
        for fault in (
            sent(Opcode.BINARY, b"masked", mask=True),
            sent(Opcode.BINARY, b"a", False) + sent(Opcode.BINARY, b"b"),
            sent(Opcode.CONT, b"of nothing"),
            b"\xc2\x01x",
            b"\x83\x00",
            too_long,
        ):
            for size in (1, 2, 1000):
                link = Link("ws://x/crore")
                data = answer(link) + sent(Opcode.BINARY, b"good") + fault + sent(Opcode.BINARY, b"more")
                events = received(link, chunks_of(data, [size]))
                self.assertEqual(events, [Opened(), b"good", Ended(1006)], fault)
                self.assertTrue(link.output())

    def test_an_answer_that_opens_nothing_fails(self) -> None:
        refused = b"HTTP/1.1 503 Busy\r\nRetry-After: 7\r\nContent-Length: 4\r\n\r\nbusy"
        for data, wanted in (
            (refused, Failed(503, 7.0)),
            (b"HTTP/1.1 101 Switching Protocols\r\n\r\n", Failed()),
            (b"nonsense\r\n\r\n", Failed()),
            (b"x" * 70_000, Failed()),
        ):
            for size in (1000, 70_000):
                link = Link("ws://x/crore")
                link.greet()
                self.assertEqual(received(link, chunks_of(data, [size])), [wanted], data[:20])
                self.assertEqual(link.eof(), [])

    def test_after_the_own_close_only_that_of_the_peer_counts(self) -> None:
        link = Link("ws://x/crore")
        link.receive(answer(link))
        half = sent(Opcode.BINARY, b"half of it")
        self.assertEqual(link.receive(half[:5]), [])
        link.close(1000)
        events = link.receive(half[5:] + sent(Opcode.BINARY, b"more") + sent(Opcode.CLOSE, Close(1000, "").serialize()))
        self.assertEqual([event for event in events if not isinstance(event, bytes)], [])
        self.assertTrue(link.has_peer_closed)


if __name__ == "__main__":
    unittest.main()
