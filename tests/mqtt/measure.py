"""What MQTT costs a broker: memory of idle connections, and processor time of deliveries.

python measure.py CRORE [MOSQUITTO] [--idle N] [--clients N] [--messages N]

Starts each broker on ports of the system, one after the other, and reads its memory (private, dirty) and its processor
time from /proc, so what this program takes is not counted. A fan-out is a topic with all clients as subscribers and a
publisher with a fixed rate. For Crore the same fan-out is measured with the native protocol too.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import select
import socket
import statistics
import struct
import subprocess
import tempfile
import time
from pathlib import Path

RATE_PER_S = 100
PAYLOAD = b"x" * 128
SETTLED_S = 3
ROUNDS = 3
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def text(value: str) -> bytes:
    return struct.pack("!H", len(value)) + value.encode()


def packet(first: int, body: bytes) -> bytes:
    length, left = bytearray(), len(body)
    while True:
        left, low = left >> 7, left & 0x7F
        length.append(low | (0x80 if left else 0))
        if not left:
            return bytes([first, *length]) + body


class Broker:
    """A running broker: its process and its addresses."""

    def __init__(self, words: list[str], mqtt: tuple[str, int] | None = None) -> None:
        self.process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.http: tuple[str, int] | None = None
        self.mqtt = mqtt
        while mqtt is None:
            line = self.process.stdout.readline()
            assert line, "the broker has ended"
            if found := re.search(r"listening clients http://([\d.]+):(\d+)", line):
                self.http = (found[1], int(found[2]))
            if found := re.search(r"mqtt://([\d.]+):(\d+)", line):
                self.mqtt = (found[1], int(found[2]))
            if line.startswith("ready"):
                break

    def memory_bytes(self) -> int:
        rollup = Path(f"/proc/{self.process.pid}/smaps_rollup").read_text()
        return int(re.search(r"Private_Dirty:\s+(\d+)", rollup)[1]) * 1024

    def processor_s(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICKS_PER_S

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


def crore(program: str) -> Broker:
    ports = ["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--set", "mqtt.listen=127.0.0.1:0"]
    return Broker([program, "serve", *ports])


def mosquitto(program: str) -> Broker:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with tempfile.NamedTemporaryFile("w", suffix=".conf", delete=False) as file:
        file.write(f"listener {port} 127.0.0.1\nallow_anonymous true\nmax_queued_messages 0\nuser root\n")
    broker = Broker([program, "-c", file.name], ("127.0.0.1", port))
    while True:
        try:
            socket.create_connection(broker.mqtt).close()
            return broker
        except ConnectionRefusedError:
            time.sleep(0.01)


def mqtt_client(broker: Broker, name: str, topic: str | None, qos: int) -> socket.socket:
    client = socket.create_connection(broker.mqtt)
    client.sendall(packet(0x10, text("MQTT") + b"\x04\x02\0\0" + text(name)))
    assert client.recv(4) == b"\x20\x02\0\0"
    if topic is not None:
        client.sendall(packet(0x82, b"\0\x01" + text(topic) + bytes([qos])))
        assert client.recv(5) == b"\x90\x03\0\x01" + bytes([qos])
    return client


def native_client(broker: Broker, topic: str) -> socket.socket:
    client = socket.create_connection(broker.http)
    client.sendall(
        b"GET /crore HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
        b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Protocol: crore.v1\r\n\r\n"
    )
    hello, name = b"\x01\0\x01\0", topic.encode()
    subscribe = b"\x02\0\x01\x01\0" + bytes([len(name)]) + name + b"\0"
    for frame in (hello, subscribe):
        client.sendall(bytes([0x82, 0x80 | len(frame)]) + bytes(4) + frame)
    found = b""
    while b"\r\n\r\n" not in found or b"\x82" not in found.split(b"\r\n\r\n", 1)[1][2:]:
        data = client.recv(4096)
        assert data, found
        found += data
    return client


def acknowledge(client: socket.socket, waiting: bytearray) -> int:
    """Answers every whole PUBLISH with QoS 1; returns their number."""
    answers, at = bytearray(), 0
    while len(waiting) - at > 4:
        length, bytes_of_length = waiting[at + 1], 1
        if length & 0x80:
            length, bytes_of_length = (length & 0x7F) | waiting[at + 2] << 7, 2
        start = at + 1 + bytes_of_length
        if len(waiting) < start + length:
            break
        topic_bytes = waiting[start] << 8 | waiting[start + 1]
        answers += b"\x40\x02" + waiting[start + 2 + topic_bytes : start + 4 + topic_bytes]
        at = start + length
    del waiting[:at]
    if answers:
        client.sendall(answers)
    return len(answers) // 4


def fan_out(broker: Broker, clients: list[socket.socket], topic: str, messages: int, qos: int) -> float:
    """The broker's processor time of a delivery, in microseconds."""
    publisher = mqtt_client(broker, "publisher", None, 0)
    publication = packet(0x30 | qos << 1, text(topic) + (b"\0\x01" if qos else b"") + PAYLOAD)
    poll = select.epoll()
    by_number = {client.fileno(): (client, bytearray()) for client in clients}
    for number in by_number:
        poll.register(number, select.EPOLLIN)
    time.sleep(SETTLED_S)
    before, start = broker.processor_s(), time.monotonic()
    sent = acknowledged = received = 0
    size = 0
    while True:
        while sent < messages and time.monotonic() >= start + sent / RATE_PER_S:
            publisher.sendall(publication)
            sent += 1
        for number, _ in (events := poll.poll(0.001)):
            client, waiting = by_number[number]
            data = client.recv(65536)
            assert data, "the broker has closed a connection"
            if qos:
                waiting += data
                acknowledged += acknowledge(client, waiting)
            received += len(data)
        if sent == messages and not events:
            size = received / (messages * len(clients))
            done = acknowledged == messages * len(clients) if qos else size >= len(PAYLOAD)
            if done or time.monotonic() > start + messages / RATE_PER_S + 60:
                break
    assert done, "not every message came"
    taken = broker.processor_s() - before
    publisher.close()
    return taken / (messages * len(clients)) * 1e6


def idle(broker: Broker, count: int) -> float:
    """The bytes of a further idle connection with a subscription of its own."""
    def connect(numbers: range) -> list[socket.socket]:
        return [mqtt_client(broker, f"client-{number:07}", f"t/{number:07}", 1) for number in numbers]

    first = connect(range(count // 8))
    time.sleep(SETTLED_S)
    before = broker.memory_bytes()
    further = connect(range(count // 8, count))
    time.sleep(SETTLED_S)
    after = broker.memory_bytes()
    for client in first + further:
        client.close()
    return (after - before) / len(further)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("crore")
    parser.add_argument("mosquitto", nargs="?")
    parser.add_argument("--idle", type=int, default=15_000)
    parser.add_argument("--clients", type=int, default=500)
    parser.add_argument("--messages", type=int, default=500)
    options = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    brokers = {"crore": lambda: crore(options.crore)}
    if options.mosquitto:
        brokers["mosquitto"] = lambda: mosquitto(options.mosquitto)
    times: dict[tuple[str, str], list[float]] = {}
    for name, start in brokers.items():
        broker = start()
        print(f"{name}: {idle(broker, options.idle):.0f} bytes for each further idle connection", flush=True)
        broker.end()
    for _ in range(ROUNDS):
        for name, start in brokers.items():
            for kind in ("native", "QoS 0", "QoS 1"):
                if kind == "native" and name != "crore":
                    continue
                broker = start()
                qos = 1 if kind == "QoS 1" else 0
                clients = [
                    native_client(broker, "fan/out") if kind == "native" else mqtt_client(broker, f"c{at}", "fan/out", qos)
                    for at in range(options.clients)
                ]
                taken = fan_out(broker, clients, "fan/out", options.messages, qos)
                times.setdefault((name, kind), []).append(taken)
                broker.end()
    native = statistics.median(times["crore", "native"])
    for (name, kind), found in times.items():
        median = statistics.median(found)
        every = ", ".join(f"{taken:.2f}" for taken in found)
        print(f"{name}, {kind}: {median:.2f} us of processor time for a delivery ({median / native:.2f} of native; {every})")


if __name__ == "__main__":
    main()
