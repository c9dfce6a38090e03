"""Persistent MQTT sessions over `kill -9` of the node: nothing is missing, nothing with QoS 2 comes twice, and topics keep
their order.

python crash.py CRORE [KILLS] [SESSIONS]
python crash.py --nodes ADDRESS [KILLS] [SESSIONS]

With `--nodes` the nodes of a cluster run elsewhere: for each kill this program prints `kill`, reads the address of
another node, and moves all of its clients there.

Publishers with QoS 1 and 2, each with a topic of its own, and sessions that subscribe by name and by filter, of versions
3.1.1 and 5. A round publishes a batch, lets a random number of events happen, and kills the node. One thread drives all
of paho's clients. At the end every session must have every message of its topics.

With QoS 2 from the publisher to the session a message comes once. With QoS 1 it may come again: the node writes a session
after 256 acknowledgements, not after each (docs/mqtt.md).
"""

from __future__ import annotations

import os
import random
import re
import selectors
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

KILLS, SESSIONS = 200, 300
PUBLISHERS = 8
BATCH = 5
PATIENCE_S = 120
RETRY_S = 0.2
EXPIRY_S = 3600
CONFIGURATION = """
[[log]]
name = "memory"

[[log]]
name = "disk"
durability = "disk"

[[rule]]
filter = "#"
log = "disk"
history_messages_max = 1_000_000

[[rule]]
filter = "$mqtt/#"
log = "disk"
"""


class Node:
    """A node on the same folder and port, however often it starts."""

    may_refuse = False

    def __init__(self, crore: str, folder: Path) -> None:
        self.crore, self.folder = crore, folder
        self.address = "127.0.0.1:0"
        (folder / "crore.toml").write_text(CONFIGURATION)
        self.start()

    def start(self) -> None:
        bare = {name: value for name, value in os.environ.items() if not name.startswith("CRORE_")}
        words = [self.crore, "serve", "--config", str(self.folder / "crore.toml"), "--data-dir", str(self.folder / "data")]
        words += ["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--set", f"mqtt.listen={self.address}"]
        self.log = (self.folder / "log").open("ab")
        self.process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=self.log, text=True, env=bare)
        for line in self.process.stdout:
            if found := re.search(r"mqtt://(127[^\s/]+)", line):
                self.address = found[1]
            if line.startswith("ready"):
                return
        raise RuntimeError((self.folder / "log").read_text()[-2000:])

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        self.log.close()


class Nodes:
    """The node of a cluster that the clients are at; another program kills it, and names the next one."""

    # While the engine elects a leader.
    may_refuse = True

    def __init__(self, address: str) -> None:
        self.address = address

    def kill(self) -> None:
        print("kill", flush=True)
        self.address = sys.stdin.readline().strip()

    def start(self) -> None:
        pass


class Client:
    """A client of paho without a thread: `Crowd` calls it."""

    def __init__(self, name: str, version: int) -> None:
        kind = {} if version == paho.MQTTv5 else {"clean_session": False}
        self.name = name
        self.mqtt = paho.Client(CallbackAPIVersion.VERSION2, name, protocol=version, **kind)
        self.mqtt.max_inflight_messages_set(20)
        self.more: dict[str, object] = {}
        if version == paho.MQTTv5:
            properties = Properties(PacketTypes.CONNECT)
            properties.SessionExpiryInterval = EXPIRY_S
            self.more = {"clean_start": False, "properties": properties}
        self.connected = self.present = False
        self.socket: socket.socket | None = None
        self.refused_s: float | None = None
        self.mqtt.on_connect = self.on_connect
        self.mqtt.on_disconnect = self.on_disconnect

    def on_connect(self, _: object, __: object, flags: object, reason: object, ___: object) -> None:
        if reason == "Server unavailable":
            self.refused_s = time.monotonic()
            return
        assert not reason.is_failure, reason
        self.connected, self.present = True, flags.session_present

    def on_disconnect(self, _: object, __: object, ___: object, reason: object, ____: object) -> None:
        assert not self.connected, f"the node has ended the connection of {self.name}: {reason}"


class Reader(Client):
    """A session, and the numbers that it has of each topic."""

    def __init__(self, name: str, version: int, filter: str, qos: int) -> None:
        super().__init__(name, version)
        self.filter, self.qos, self.subscribed = filter, qos, False
        self.found: dict[str, dict[int, int]] = {}
        self.newest: dict[str, int] = {}
        self.disorder: list[str] = []
        self.mqtt.on_message = self.on_message
        self.mqtt.on_subscribe = self.on_subscribe

    def on_subscribe(self, *_: object) -> None:
        self.subscribed = True

    def on_message(self, _: object, __: object, message: paho.MQTTMessage) -> None:
        number = int(message.payload)
        numbers = self.found.setdefault(message.topic, {})
        # A message that comes again may be older. A message that is new may not.
        newest = self.newest.get(message.topic, -1)
        if number not in numbers and number < newest:
            self.disorder.append(f"{self.name}: {message.topic} {number} after {newest}")
        self.newest[message.topic] = max(number, newest)
        numbers[number] = numbers.get(number, 0) + 1


class Crowd:
    """All clients, driven by one thread."""

    def __init__(self, node: Node | Nodes, clients: list[Client]) -> None:
        self.node, self.clients, self.refusals = node, clients, 0
        self.selector = selectors.DefaultSelector()

    def connect(self) -> None:
        for client in self.clients:
            self.connect_one(client)
        self.until(self.are_connected, "every client is connected")

    def connect_one(self, client: Client) -> None:
        host, port = self.node.address.split(":")
        client.connected, client.refused_s = False, None
        client.mqtt.connect(host, int(port), **client.more)
        client.socket = client.mqtt.socket()
        self.selector.register(client.socket, selectors.EVENT_READ, client)

    def are_connected(self) -> bool:
        refused = [client for client in self.clients if client.refused_s is not None]
        # All of them first: a new socket may have the number of a closed one.
        for client in refused:
            assert self.node.may_refuse, f"the node has refused {client.name}"
            if client.socket is not None:
                self.selector.unregister(client.socket)
                client.socket = None
                self.refusals += 1
        for client in refused:
            if time.monotonic() > client.refused_s + RETRY_S:
                self.connect_one(client)
        return all(client.connected for client in self.clients)

    def turn(self) -> int:
        """Lets clients read, write and send their pings; returns the number of them that read."""
        for client in self.clients:
            client.mqtt.loop_misc()
            if client.mqtt.want_write():
                client.mqtt.loop_write()
        ready = self.selector.select(0.05)
        for key, _ in ready:
            key.data.mqtt.loop_read()
        return len(ready)

    def until(self, condition: object, meaning: str) -> None:
        end = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < end, f"not within {PATIENCE_S} s: {meaning}"
            self.turn()

    def events(self, number: int) -> None:
        """Returns after that many reads, or once nothing moves."""
        while number > 0 and (read := self.turn()):
            number -= read

    def lose(self) -> None:
        """The node is dead: every client sees the end of its connection."""
        for client in self.clients:
            client.connected = False
            self.selector.unregister(client.socket)
            while client.mqtt.socket() is not None and client.mqtt.loop_read() == paho.MQTT_ERR_SUCCESS:
                pass


def topic(publisher: int) -> str:
    return f"crash/{publisher % 4}/{publisher}"


def readers(sessions: int) -> list[Reader]:
    made = []
    for number in range(sessions):
        publisher = number % PUBLISHERS
        filter = topic(publisher) if number % 3 else f"crash/{publisher % 4}/+"
        version = paho.MQTTv5 if number % 2 else paho.MQTTv311
        made.append(Reader(f"reader-{number}", version, filter, 1 + number // 2 % 2))
    return made


def qos_of(publisher: int) -> int:
    return 1 + publisher % 2


def repeats(every: list[Reader]) -> dict[tuple[int, int], dict[str, int]]:
    """How often each message came, by the QoS of its publisher and of its session."""
    qos_of_topic = {topic(publisher): qos_of(publisher) for publisher in range(PUBLISHERS)}
    found: dict[tuple[int, int], dict[str, int]] = {}
    for reader in every:
        for name, numbers in reader.found.items():
            times = found.setdefault((qos_of_topic[name], reader.qos), {})
            times.update({f"{reader.name}: {name} {number}": count for number, count in numbers.items()})
    return found


def run(node: Node | Nodes, kills: int, sessions: int) -> list[str]:
    """Returns the faults that were found."""
    chance = random.Random(21)
    every = readers(sessions)
    publishers = [Client(f"publisher-{number}", paho.MQTTv5 if number < 4 else paho.MQTTv311) for number in range(PUBLISHERS)]
    crowd = Crowd(node, [*every, *publishers])
    crowd.connect()
    for reader in every:
        reader.mqtt.subscribe(reader.filter, reader.qos)
    crowd.until(lambda: all(reader.subscribed for reader in every), "every session has its subscription")
    faults, sent = [], 0
    for _ in range(kills):
        for number in range(BATCH):
            for index, publisher in enumerate(publishers):
                publisher.mqtt.publish(topic(index), str(sent + number), qos_of(index))
        sent += BATCH
        crowd.events(chance.randrange(4 * sessions))
        node.kill()
        crowd.lose()
        node.start()
        crowd.connect()
        faults += [f"{reader.name}: session present is false" for reader in every if not reader.present]
    wanted = {reader: [name for name in map(topic, range(PUBLISHERS)) if paho.topic_matches_sub(reader.filter, name)] for reader in every}

    def missing(reader: Reader) -> list[str]:
        return [f"{name} {number}" for name in wanted[reader] for number in range(sent) if number not in reader.found.get(name, {})]

    def present() -> int:
        return sum(len(numbers) for reader in every for numbers in reader.found.values())

    expected = sum(sent * len(names) for names in wanted.values())
    # However long it takes, but not without progress.
    found, end = present(), time.monotonic() + PATIENCE_S
    while found < expected and time.monotonic() < end:
        crowd.turn()
        if (more := present()) > found:
            found, end = more, time.monotonic() + PATIENCE_S
    faults += [f"{reader.name} ({reader.filter}, QoS {reader.qos}) misses {lost}" for reader in every if (lost := missing(reader))]
    faults += [text for reader in every for text in reader.disorder]
    if crowd.refusals:
        print(f"{crowd.refusals} refusals of a connection while the engine was not available")
    for (published, subscribed), times in repeats(every).items():
        again = sum(times.values()) - len(times)
        print(f"QoS {published} to QoS {subscribed}: {len(times)} messages, {again} of them came again")
        if published == subscribed == 2:
            faults += [f"{of} came {count} times" for of, count in times.items() if count > 1]
    return faults


def main() -> None:
    is_remote = sys.argv[1] == "--nodes"
    words = sys.argv[3 if is_remote else 2 :]
    kills, sessions = [int(word) for word in words] + [KILLS, SESSIONS][len(words) :]
    if is_remote:
        faults = run(Nodes(sys.argv[2]), kills, sessions)
    else:
        with tempfile.TemporaryDirectory() as folder:
            node = Node(str(Path(sys.argv[1]).resolve()), Path(folder))
            try:
                faults = run(node, kills, sessions)
            finally:
                node.kill()
    for fault in faults[:50]:
        print(fault)
    print(f"{kills} kills, {sessions} sessions, {len(faults)} faults")
    print(f"{int(not faults)} passed, {int(bool(faults))} failed", flush=True)
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
