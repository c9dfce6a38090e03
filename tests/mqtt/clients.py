"""MQTT clients that others wrote, against the binary: each connects, publishes, subscribes and comes back.

python clients.py CRORE

Invariants: every wait is for an event, with a bound; every port is one that the system gives. Programs that are not
Python are found by the environment: MOSQUITTO (the folder of `mosquitto_pub` and `mosquitto_sub`), MQTT_JS (a folder
with MQTT.js in node_modules).
"""

from __future__ import annotations

import asyncio
import os
import queue
import re
import subprocess
import sys
import tempfile
import threading
import unittest
import urllib.request
from pathlib import Path

import aiomqtt
import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.subscribeoptions import SubscribeOptions

CRORE = str(Path(sys.argv.pop(1)).resolve())
PATIENCE_S = 30
VERSIONS = {"3.1": paho.MQTTv31, "3.1.1": paho.MQTTv311, "5": paho.MQTTv5}


class Node:
    """A running node, and the addresses that it has printed."""

    def __init__(self, *more: str) -> None:
        bare = {name: value for name, value in os.environ.items() if not name.startswith("CRORE_")}
        words = [CRORE, "serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"]
        words += ["--set", "mqtt.listen=127.0.0.1:0", *more]
        self.process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=bare)
        self.url, self.port = "", 0
        for line in self.process.stdout:
            if found := re.search(r"listening clients (http://\S+)", line):
                self.url = found[1]
            if found := re.search(r"mqtt://[^:]+:(\d+)", line):
                self.port = int(found[1])
            if line.startswith("ready"):
                break
        # Nothing may fill the pipe.
        threading.Thread(target=self.process.stdout.read, daemon=True).start()

    def publish(self, topic: str, text: str) -> None:
        request = urllib.request.Request(f"{self.url}/topics/{topic}", text.encode(), {"Content-Type": "text/plain"})
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            answer.read()

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


class Client:
    """A client of paho, with its events in a queue."""

    def __init__(self, node: Node, name: str, version: str, clean: bool = True, expiry_s: int = 0, **will: object) -> None:
        number = VERSIONS[version]
        kind = {"clean_session": clean} if number != paho.MQTTv5 else {}
        self.client = paho.Client(CallbackAPIVersion.VERSION2, name, protocol=number, **kind)
        self.events: queue.Queue = queue.Queue()
        self.client.on_connect = lambda _, __, flags, reason, ___: self.events.put(("connected", flags.session_present, reason))
        self.client.on_message = lambda _, __, message: self.events.put(message)
        self.client.on_subscribe = lambda *_: self.events.put("subscribed")
        self.client.on_publish = lambda *_: self.events.put("published")
        if will:
            self.client.will_set(**will)
        more: dict[str, object] = {}
        if number == paho.MQTTv5:
            properties = Properties(PacketTypes.CONNECT)
            properties.SessionExpiryInterval = expiry_s
            more = {"clean_start": clean, "properties": properties}
        self.client.connect("127.0.0.1", node.port, **more)
        self.client.loop_start()
        event, self.session_present, reason = self.next()
        assert event == "connected" and not reason.is_failure, reason

    def next(self) -> object:
        return self.events.get(timeout=PATIENCE_S)

    def message(self) -> paho.MQTTMessage:
        while True:
            event = self.next()
            if isinstance(event, paho.MQTTMessage):
                return event

    def wait_for(self, wanted: str) -> None:
        while self.next() != wanted:
            pass

    def subscribe(self, *arguments: object, **more: object) -> None:
        self.client.subscribe(*arguments, **more)
        self.wait_for("subscribed")

    def publish(self, *arguments: object, **more: object) -> None:
        self.client.publish(*arguments, **more).wait_for_publish(PATIENCE_S)

    def vanish(self) -> None:
        """Ends the connection without DISCONNECT."""
        self.client.loop_stop()
        self.client.socket().close()

    def leave(self) -> None:
        self.client.disconnect()
        self.client.loop_stop()


class Tests(unittest.TestCase):
    def setUp(self) -> None:
        self.node = Node()
        self.addCleanup(self.node.end)

    def client(self, *arguments: object, **more: object) -> Client:
        client = Client(self.node, *arguments, **more)
        self.addCleanup(client.leave)
        return client


class Paho(Tests):
    def test_every_version_and_qos_delivers_in_order(self) -> None:
        for version in VERSIONS:
            for qos in range(3):
                with self.subTest(version=version, qos=qos):
                    topic = f"order/{version}/{qos}"
                    reader = self.client(f"r{version}{qos}", version)
                    reader.subscribe(topic, qos)
                    writer = self.client(f"w{version}{qos}", version)
                    for number in range(500):
                        writer.client.publish(topic, str(number), qos)
                    texts = [reader.message().payload.decode() for _ in range(500)]
                    self.assertEqual(texts, [str(number) for number in range(500)])

    def test_a_session_gets_what_it_missed(self) -> None:
        for version in VERSIONS:
            for qos in (1, 2):
                with self.subTest(version=version, qos=qos):
                    name, topic = f"away{version}{qos}", f"away/{version}/{qos}"
                    reader = self.client(name, version, clean=False, expiry_s=60)
                    self.assertFalse(reader.session_present)
                    reader.subscribe(f"away/{version}/+", qos)
                    reader.leave()
                    writer = self.client(f"w{name}", version)
                    for number in range(300):
                        writer.publish(topic, str(number), qos)
                    again = self.client(name, version, clean=False, expiry_s=60)
                    self.assertEqual(bool(again.session_present), version != "3.1")
                    texts = [again.message().payload.decode() for _ in range(300)]
                    self.assertEqual(texts, [str(number) for number in range(300)])
                    again.leave()

    def test_a_retained_message_reaches_later_subscribers(self) -> None:
        writer = self.client("writer", "5")
        for number in range(50):
            writer.publish(f"kept/{number}", str(number), 1, retain=True)
        writer.publish("kept/7", "", 1, retain=True)
        reader = self.client("reader", "3.1.1")
        reader.subscribe("kept/#", 1)
        found = [reader.message() for _ in range(49)]
        self.assertTrue(all(message.retain for message in found))
        self.assertEqual(sorted(int(message.payload) for message in found), [n for n in range(50) if n != 7])

    def test_the_will_of_a_client_that_vanishes_is_published(self) -> None:
        reader = self.client("reader", "5")
        reader.subscribe("wills/#", 1)
        gone = self.client("gone", "3.1.1", topic="wills/gone", payload="gone", qos=1)
        gone.vanish()
        self.assertEqual(reader.message().payload, b"gone")

    def test_properties_travel_with_a_message(self) -> None:
        reader = self.client("reader", "5")
        reader.subscribe("asked", options=SubscribeOptions(qos=1))
        properties = Properties(PacketTypes.PUBLISH)
        properties.ResponseTopic = "answers"
        properties.CorrelationData = b"\x00\x01"
        properties.ContentType = "text/plain"
        properties.MessageExpiryInterval = 100
        properties.UserProperty = [("one", "1"), ("one", "2")]
        self.client("writer", "5").publish("asked", "what", 1, properties=properties)
        got = reader.message().properties
        self.assertEqual((got.ResponseTopic, got.CorrelationData, got.ContentType), ("answers", b"\x00\x01", "text/plain"))
        self.assertEqual(got.UserProperty, [("one", "1"), ("one", "2")])
        self.assertIn(got.MessageExpiryInterval, range(60, 101))

    def test_protocols_share_topics(self) -> None:
        reader = self.client("reader", "3.1.1")
        reader.subscribe("shared/a", 1)
        self.node.publish("shared/a", "by HTTP")
        message = reader.message()
        self.assertEqual((message.payload, message.qos), (b"by HTTP", 1))
        request = urllib.request.Request(f"{self.node.url}/topics/shared/b", headers={"Accept": "text/event-stream"})
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as stream:
            self.client("writer", "5").publish("shared/b", "by MQTT", 1)
            lines = iter(stream.readline, b"")
            self.assertIn(b"data: by MQTT\n", lines)

    def test_the_same_name_takes_a_session_over(self) -> None:
        first = self.client("same", "5", clean=False, expiry_s=60)
        first.subscribe("taken/#", 1)
        ended: queue.Queue = queue.Queue()
        first.client.on_disconnect = lambda *event: ended.put(event)
        second = Client(self.node, "same", "5", clean=False, expiry_s=60)
        self.addCleanup(second.leave)
        self.assertTrue(second.session_present)
        reason = ended.get(timeout=PATIENCE_S)[3]
        self.assertEqual(reason.value, 0x8E)
        first.client.loop_stop()
        self.client("writer", "5").publish("taken/x", "for the second", 1)
        self.assertEqual(second.message().payload, b"for the second")


class Aio(Tests):
    def test_it_subscribes_and_publishes(self) -> None:
        async def talk() -> list[bytes]:
            async with aiomqtt.Client("127.0.0.1", self.node.port) as client:
                await client.subscribe("aio/#", qos=2)
                for number in range(20):
                    await client.publish(f"aio/{number}", str(number), qos=number % 3)
                found = []
                async for message in client.messages:
                    found.append(message.payload)
                    if len(found) == 20:
                        return found
            return []

        found = asyncio.run(asyncio.wait_for(talk(), PATIENCE_S))
        self.assertEqual(sorted(map(int, found)), list(range(20)))


class Programs(Tests):
    def run_program(self, *words: str) -> str:
        done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE_S)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_mosquitto_pub_and_sub(self) -> None:
        place = Path(os.environ["MOSQUITTO"])
        port = str(self.node.port)
        for version in ("mqttv31", "mqttv311", "mqttv5"):
            for qos in "012":
                with self.subTest(version=version, qos=qos):
                    topic = f"m/{version}/{qos}"
                    at = ["-p", port, "-V", version, "-q", qos, "-t", topic]
                    self.run_program(str(place / "mosquitto_pub"), *at, "-m", "hello", "-r")
                    text = self.run_program(str(place / "mosquitto_sub"), *at, "-C", "1", "-W", str(PATIENCE_S))
                    self.assertEqual(text, "hello\n")

    def test_mosquitto_passwd(self) -> None:
        place = Path(os.environ["MOSQUITTO"])
        with tempfile.TemporaryDirectory(prefix="crore-users-") as folder:
            users, file = Path(folder, "users"), Path(folder, "crore.toml")
            users.touch(0o600)
            for user in ("anna", "ben"):
                self.run_program(str(place / "mosquitto_passwd"), "-b", str(users), user, f"secret of {user}")
            file.write_text(
                f'[entitlement]\nmode = "tokens"\nusers_file = "{users}"\n'
                '[[grant]]\nsubscribe = ["u/{sub}"]\npublish = ["u/{sub}"]\n'
            )
            node = Node("--config", str(file))
            self.addCleanup(node.end)
            for version in ("mqttv31", "mqttv311", "mqttv5"):
                with self.subTest(version=version):
                    at = ["-p", str(node.port), "-V", version, "-q", "1", "-u", "anna", "-P", "secret of anna"]
                    self.run_program(str(place / "mosquitto_pub"), *at, "-t", "u/anna", "-m", version, "-r")
                    words = ["-t", "u/anna", "-C", "1", "-W", str(PATIENCE_S)]
                    text = self.run_program(str(place / "mosquitto_sub"), *at, *words)
                    self.assertEqual(text, f"{version}\n")
                    for wrong in (["-P", "secret of ben"], ["-u", "cleo"]):
                        refused = [str(place / "mosquitto_pub"), *at, *wrong, "-t", "u/anna", "-m", "no"]
                        self.assertNotEqual(subprocess.run(refused, capture_output=True, timeout=PATIENCE_S).returncode, 0)

    def test_mqtt_js_over_tcp_and_web_socket(self) -> None:
        authority = self.node.url.removeprefix("http://")
        for url in (f"mqtt://127.0.0.1:{self.node.port}", f"ws://{authority}/mqtt"):
            for version in ("3", "4", "5"):
                with self.subTest(url=url, version=version):
                    script = Path(__file__).with_name("mqtt_js.cjs")
                    self.run_program("node", str(script), url, version)


def main() -> None:
    tests = unittest.defaultTestLoader.loadTestsFromModule(sys.modules[__name__])
    result = unittest.TextTestRunner(stream=sys.stdout, verbosity=2).run(tests)
    failed = len(result.failures) + len(result.errors)
    print(f"{result.testsRun - failed} passed, {failed} failed", flush=True)
    sys.exit(failed != 0)


if __name__ == "__main__":
    main()
