"""spec/vectors: the client's frames are encoded, the server's decoded, and faults refused."""

from __future__ import annotations

import json
import unittest
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from crore._codec import client as frames
from crore._codec import server
from crore._codec.client import Start, SubscribeItem
from crore._codec.quick import quick_message
from crore._codec.reader import FrameError
from crore._codec.topics import has_length, is_wild, matches
from crore._core.proof import Proof
from crore._position import Place, parse
from crore.items import Message
from places import SPEC
from replay import KINDS


def vectors(name: str) -> Any:
    return json.loads((SPEC / "vectors" / f"{name}.json").read_text(encoding="utf-8"))


def place(it: dict[str, Any]) -> Place:
    it = it.get("position", it)
    return Place(int(it["epoch"]), int(it["offset"]))


def blob(text: str | None) -> bytes | None:
    return None if text is None else bytes.fromhex(text)


def start_of(start: dict[str, Any]) -> Start:
    match start["kind"]:
        case "since":
            return Start("since", place(start))
        case "since_each":
            return Start("since_each", places=tuple((it["partition"], place(it)) for it in start["positions"]))
        case "last":
            return Start("last", count=start["count"])
        case kind:
            return Start(kind)


def encoded(it: dict[str, Any]) -> bytes:
    match it["type"]:
        case "hello":
            cursors = [(at["subscription"], at["partition"], place(at)) for at in it["cursors"]]
            return frames.hello(it["token"], it["name"], blob(it["ticket"]), cursors, it["ping_interval_s"])
        case "subscribe":
            items = (
                SubscribeItem(
                    item["subscription"],
                    item["filter"],
                    start_of(item["start"]),
                    item["fail_on_gap"],
                    item["replay_credit"],
                    item["policy"],
                )
                for item in it["items"]
            )
            return frames.subscribe(list(items))
        case "unsubscribe":
            return frames.unsubscribe(it["subscriptions"])
        case "publish":
            producer, epoch = it["producer"], it["expected_epoch"]
            return frames.publish(
                it["request"],
                it["topic"],
                bytes.fromhex(it["payload"]),
                retain=it["retain"],
                content_type=it["content_type"],
                tags=[(name, value) for name, value in it["tags"]],
                producer=None if producer is None else (bytes.fromhex(producer["id"]), int(producer["sequence"])),
                key=blob(it["idempotency_key"]),
                expected_epoch=None if epoch is None else int(epoch),
            )
        case "history":
            at = it["position"]
            return frames.history(
                it["request"],
                it["topic"],
                reverse=it["reverse"],
                position=None if at is None else place(at),
                records_max=it["records_max"],
                bytes_max=it["bytes_max"],
            )
        case "credit":
            return frames.credit(it["subscription"], it["messages"])
        case "ping":
            return frames.ping(int(it["token"]))
        case "pong":
            return frames.pong(int(it["token"]))
        case "renew":
            return frames.renew(it["request"], it["token"])
        case "ticket":
            return frames.ticket(it["request"])
        case kind:
            raise AssertionError(kind)


def lineage_of(lineage: int | None) -> dict[str, Any]:
    """The member is absent where the frame has none."""
    return {} if lineage is None else {"lineage": lineage}


def attributes(it: Message) -> dict[str, Any]:
    return {
        "retained": it.retained,
        "content_type": it.content_type,
        "tags": [list(tag) for tag in it.tags],
        "payload": it.payload.hex(),
        "offset": str(it.offset),
        "prev": str(it.prev),
    }


def _beginning(it: server.Beginning) -> dict[str, Any]:
    through = {"epoch": str(it.place.epoch), "through": str(it.place.offset)}
    return {**through, "replaying": it.replaying, "continued": it.continued}


def shown(frame: server.ServerFrame) -> dict[str, Any]:
    """A decoded frame as the vectors write it."""
    match frame:
        case server.Welcome():
            return {
                "type": "welcome",
                "connection": str(frame.connection),
                "ping_interval_s": frame.ping_interval_s,
                "time_ms": str(frame.time_ms),
                "frame_bytes_max": str(frame.frame_bytes_max),
                "message_bytes_max": str(frame.message_bytes_max),
                "subscriptions_per_session_max": frame.subscriptions_max,
                "node": frame.node,
                "resumed": frame.resumed,
                "ticket_lifetime_s": frame.ticket_lifetime_s,
            }
        case server.Subscribed(subscription, alias, beginnings):
            topic = None if alias is None else {"alias": alias, **_beginning(beginnings[0])}
            listed = [{"partition": it.partition, **_beginning(it)} for it in beginnings]
            wild = listed if alias is None else None
            return {"type": "subscribed", "subscription": subscription, "topic": topic, "filter": wild}
        case server.Unsubscribed(subscription, code):
            return {"type": "unsubscribed", "subscription": subscription, "code": code}
        case server.TopicMessage():
            head = {"type": "message", "alias": frame.alias, **lineage_of(frame.lineage)}
            return {**head, **attributes(frame.message)}
        case server.NamedMessage(subscription, it, lineage):
            head = {"topic": it.topic, "partition": it.partition, "epoch": str(it.epoch), **lineage_of(lineage)}
            return {"type": "named_message", "subscription": subscription, **head, **attributes(it)}
        case server.CaughtUpFrame(subscription, partition, through, lineage):
            head = {"type": "caught_up", "subscription": subscription, "partition": partition, **lineage_of(lineage)}
            return {**head, "through": str(through)}
        case server.GapFrame():
            head = {"type": "gap", "subscription": frame.subscription, "partition": frame.partition}
            ends = {"from": str(frame.start), "to": str(frame.end)}
            return {**head, **ends, "epoch": str(frame.epoch), "reason": frame.reason}
        case server.SkippedFrame():
            own = {"partition": frame.partition, "epoch": str(frame.epoch)}
            ends = {"from": str(frame.start), "through": str(frame.through), "reason": frame.reason}
            head = {"type": "skipped", "subscription": frame.subscription, **lineage_of(frame.lineage)}
            return {**head, "partition": None if frame.partition is None else own, **ends}
        case server.PublishedFrame(request, at, duplicate):
            head = {"type": "published", "request": request, "duplicate": duplicate}
            return {**head, "epoch": str(at.epoch), "offset": str(at.offset)}
        case server.HistoryPage():
            gap = frame.gap
            return {
                "type": "history_page",
                "request": frame.request,
                "epoch": str(frame.epoch),
                "head": str(frame.head),
                "more": frame.more,
                "reverse": frame.reverse,
                "gap": None if gap is None else {"from": str(gap[0]), "to": str(gap[1]), "reason": gap[2]},
                "records": [{**attributes(it), "time_ms": str(it.time_ms)} for it in frame.messages],
            }
        case server.ErrorFrame():
            restart = frame.restart
            return {
                "type": "error",
                "reference": {"kind": ("connection", "request", "subscription")[frame.reference], "id": frame.id},
                "code": frame.code,
                "temporary": frame.temporary,
                "message": frame.message,
                "restart": None if restart is None else {"epoch": str(restart.epoch), "offset": str(restart.offset)},
                "limit": None if frame.limit is None else str(frame.limit),
            }
        case server.GoAway():
            ticket = None if frame.ticket is None else frame.ticket.hex()
            head = {"type": "go_away", "code": frame.code, "return_after_ms": str(frame.return_after_ms)}
            return {**head, "urls": frame.urls, "ticket": ticket}
        case server.TicketIssued(request, expires, ticket_bytes):
            head = {"type": "ticket_issued", "request": request, "expires_ms": str(expires)}
            return {**head, "ticket": ticket_bytes.hex()}
        case server.Renewed(request, expires):
            return {"type": "renewed", "request": request, "expires_ms": str(expires)}
        case server.TokenExpires(expires):
            return {"type": "token_expires", "expires_ms": str(expires)}
        case server.Ping(token):
            return {"type": "ping", "token": str(token)}
        case server.Pong(token):
            return {"type": "pong", "token": str(token)}
    raise AssertionError(frame)


def without_later_reasons(frame: dict[str, Any]) -> dict[str, Any]:
    """A reason of a later version is shown as `other`."""
    if frame.get("reason", "").isdigit():
        return {**frame, "reason": "other"}
    return frame


class Vectors(unittest.TestCase):
    def test_every_client_frame_is_encoded(self) -> None:
        count = 0
        for it in vectors("client_frames")["valid"]:
            wanted = it.get("encodes_to", it["hex"])
            if wanted is not None:
                with self.subTest(it["name"]):
                    self.assertEqual(encoded(it["frame"]).hex(), wanted)
                    count += 1
        print(f"vectors: {count} client frames encoded")
        self.assertGreaterEqual(count, 40)

    def test_every_server_frame_is_decoded(self) -> None:
        count = 0
        for it in vectors("server_frames")["valid"]:
            with self.subTest(it["name"]):
                frame = shown(server.decode(bytes.fromhex(it["hex"])))
                self.assertEqual(frame, without_later_reasons(it["frame"]))
                count += 1
        print(f"vectors: {count} server frames decoded")

    def test_every_fault_is_refused_with_its_error(self) -> None:
        count = 0
        for it in vectors("server_frames")["invalid"]:
            with self.subTest(it["name"]):
                with self.assertRaises(FrameError) as caught:
                    server.decode(bytes.fromhex(it["hex"]))
                wanted = it["error"]
                self.assertEqual(caught.exception.error, wanted)
                self.assertEqual(caught.exception.unsupported, wanted.startswith("unsupported"))
                count += 1
        print(f"vectors: {count} faults refused")

    def test_every_prefix_of_a_frame_is_a_frame_or_a_frame_error(self) -> None:
        for it in vectors("server_frames")["valid"]:
            data = bytes.fromhex(it["hex"])
            for end in range(len(data)):
                try:
                    server.decode(data[:end])
                except FrameError:
                    pass

    def test_topics_and_filters(self) -> None:
        tables = vectors("topics")
        for it in tables["matching"]:
            with self.subTest(it):
                self.assertEqual(matches(it["filter"], it["topic"]), it["matches"])
        for it in tables["topics"] + tables["filters"]:
            if it["valid"]:
                self.assertTrue(has_length(it.get("topic", it.get("filter"))))
        self.assertFalse(has_length(""))
        self.assertFalse(has_length("ä" * 128))
        self.assertTrue(is_wild("a/#") and is_wild("+/a") and not is_wild("a+/b"))

    def test_proof(self) -> None:
        for case in vectors("proof")["cases"]:
            with self.subTest(case["name"]):
                start = case["start"]
                proof = Proof(place(start) if start["kind"] == "since" else None)
                for step in case["steps"]:
                    self.assertEqual(events(proof, server.decode(bytes.fromhex(step["hex"]))), simple(step["events"]))
                cursor = proof.cursor
                assert cursor is not None
                end = case["end"]
                self.assertEqual((str(cursor.epoch), str(cursor.offset)), (end["epoch"], end["through"]))

    def test_positions(self) -> None:
        self.assertEqual(parse("7:42"), Place(7, 42))
        self.assertEqual(str(Place(2**64 - 1, 2**64 - 1)), "18446744073709551615:18446744073709551615")
        for text in ("", "7", "7:", ":7", "07:1", "7:-1", "7:1:1", "18446744073709551616:0", "7:1\n", "٧:1"):
            self.assertIsNone(parse(text), text)


def simple(wanted: list[dict[str, Any]]) -> list[tuple[str, ...]]:
    shown_events: list[tuple[str, ...]] = []
    for it in wanted:
        if it["event"] in ("message", "repeated"):
            shown_events.append((it["event"], it["offset"]))
        else:
            shown_events.append((it["event"], _offset(it["from"]), _offset(it["to"])))
    return shown_events


def _offset(at: Any) -> str:
    return str(at["offset"] if isinstance(at, dict) else at)


def events(proof: Proof, frame: server.ServerFrame) -> list[tuple[str, ...]]:
    """What the proof says of a frame, as the vectors write it."""
    said: list[tuple[str, ...]] = []

    def lost(hole: Any) -> None:
        if hole is not None and not isinstance(hole, bool):
            said.append(("lost", str(hole.start.offset), str(hole.end.offset)))

    match frame:
        case server.Subscribed():
            begin = frame.beginnings[0]
            proof.subscribed(begin.place, begin.continued)
            if not begin.replaying and not proof.is_gap_due:
                proof.caught_up(begin.place.offset)
        case server.TopicMessage():
            verdict = proof.message(frame.message.prev, frame.message.offset)
            lost(verdict)
            said.append(("repeated" if verdict is False else "message", str(frame.message.offset)))
        case server.GapFrame():
            start = proof.gap(Place(frame.epoch, frame.end))
            said.append(("gap", str(start.offset if start else None), str(frame.end)))
        case server.SkippedFrame():
            at = max(proof.offset, frame.start)
            lost(proof.skipped(frame.start, frame.through))
            said.append(("skipped", str(at), str(frame.through)))
        case server.CaughtUpFrame():
            lost(proof.caught_up(frame.through))
    return said


class Fuzz(unittest.TestCase):
    """The decoder raises `FrameError` and nothing else."""

    @settings(max_examples=500, deadline=None)
    @given(st.binary(max_size=80))
    def test_any_bytes(self, data: bytes) -> None:
        self.decode(data)

    @settings(max_examples=1000, deadline=None)
    @given(st.data())
    def test_mutations_of_frames(self, data: st.DataObject) -> None:
        known = [bytes.fromhex(it["hex"]) for it in VALID]
        frame = bytearray(data.draw(st.sampled_from(known)))
        for _ in range(data.draw(st.integers(1, 3))):
            at = data.draw(st.integers(0, len(frame)))
            match data.draw(st.integers(0, 2)):
                case 0:
                    frame[at : at + 1] = data.draw(st.binary(min_size=1, max_size=1))
                case 1:
                    del frame[at:]
                case _:
                    frame[at:at] = data.draw(st.binary(max_size=4))
        self.decode(bytes(frame))

    def test_the_messages_of_the_benchmark_go_the_short_way(self) -> None:
        for _, prefix, suffix in KINDS.values():
            for offset in (1, 127, 128, 2**21, 2**54):
                self.assertIsNotNone(quick_message(prefix + frames.varint(offset) + suffix + b"x"))

    @settings(max_examples=1000, deadline=None)
    @given(
        st.sampled_from([b"\x84", b"\x85"]),
        st.sampled_from([0, 1, 2, 0x80, 0x80, 0x81]),
        st.binary(max_size=3) | st.sampled_from([b"a/b", b"x" * 127, b"x" * 128]),
        st.lists(st.integers(0, 2**64 + 2**60) | st.integers(0, 300), min_size=4, max_size=4),
        st.lists(
            st.tuples(
                st.sampled_from([2, 4, 4, 10, 6, 7]),
                st.binary(max_size=4) | st.sampled_from([b"text/plain", b"\x01kv", b"\x04", b"\xff", b"x" * 130]),
            ),
            max_size=3,
        ),
        st.binary(max_size=3),
        st.integers(0, 20),
    )
    def test_the_short_way_of_a_message_says_what_the_long_one_says(
        self,
        kind: bytes,
        flags: int,
        topic: bytes,
        numbers: list[int],
        options: list[tuple[int, bytes]],
        payload: bytes,
        cut: int,
    ) -> None:
        named = frames.varint(len(topic)) + topic + frames.varint(numbers.pop()) if kind == b"\x85" else b""
        data = kind + bytes((flags,)) + named + b"".join(frames.varint(it) for it in numbers)
        if flags & 0x80:
            data += frames.varint(len(options))
            data += b"".join(bytes((key,)) + frames.varint(len(value)) + value for key, value in options)
        data += payload
        self.decode(data)
        self.decode(data[: len(data) - cut])

    def decode(self, data: bytes) -> None:
        quick = quick_message(data)
        try:
            frame = server.decode(data)
        except FrameError as error:
            self.assertTrue(error.error)
            self.assertIsNone(quick)
        else:
            self.assertIsNotNone(shown(frame))
            if quick is not None:
                self.assertEqual(shown(quick), shown(frame))


VALID = vectors("server_frames")["valid"]


if __name__ == "__main__":
    unittest.main()
