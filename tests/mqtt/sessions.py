"""Sessions of MQTT clients in other languages over `kill -9` of the node.

python sessions.py CRORE "COMMAND VERSION"...

A program gets the name of a session and the address of a node as its last two words. It

1. connects to its session, which is new, and subscribes to `sessions/NAME` with QoS 2;
2. publishes 100 messages with each QoS, gets each in order, and disconnects;
3. publishes 100 messages with QoS 1 by a connection of another name, prints `away`, and waits for a line: the node is
   killed and starts again, and the line is its address;
4. connects to its session, which is there, gets the 100 messages once and in order, and prints `done`.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from crash import Node

PATIENCE_S = 180


def run(node: Node, command: str, name: str) -> None:
    words = [*shlex.split(command), name, node.address]
    program = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    late = threading.Timer(PATIENCE_S, program.kill)
    late.start()
    try:
        assert program.stdout.readline() == "away\n", f"{command} has not come to its second connection"
        node.kill()
        node.start()
        program.stdin.write(f"{node.address}\n")
        program.stdin.close()
        assert program.stdout.readline() == "done\n", f"{command} has not got what it missed"
        assert program.wait(PATIENCE_S) == 0
    finally:
        late.cancel()
        program.kill()
        program.wait()


def main() -> None:
    crore, *commands = sys.argv[1:]
    failed = 0
    with tempfile.TemporaryDirectory(prefix="crore-sessions-") as folder:
        node = Node(str(Path(crore).resolve()), Path(folder))
        for number, command in enumerate(commands):
            try:
                run(node, command, f"session-{number}")
                print(f"{command}: ok", flush=True)
            except AssertionError as error:
                failed += 1
                print(f"{command}: FAILED: {error}", flush=True)
        node.kill()
    print(f"{len(commands) - failed} passed, {failed} failed", flush=True)
    sys.exit(failed != 0)


if __name__ == "__main__":
    main()
