"""What is measured: that the benchmark runs to its end, and what a message and a client occupy."""

from __future__ import annotations

import re
import subprocess
import sys
import unittest
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parents[1] / "scripts"
BENCH, MEMORY = SCRIPTS / "bench.py", SCRIPTS / "memory.py"


class Benchmark(unittest.TestCase):
    def test_it_counts_every_message_of_all_four_loops_and_ends(self) -> None:
        done = subprocess.run(
            [sys.executable, str(BENCH), "--messages", "20000", "--rounds", "1", "--deadline", "300"],
            capture_output=True,
            text=True,
            timeout=400,
        )
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(len(re.findall(r"messages/s of 100 bytes", done.stdout)), 4)
        self.assertEqual(re.findall(r"(\w+): \d+% of the bare loop", done.stdout), ["asyncio", "sync"])


class Memory(unittest.TestCase):
    def test_an_idle_client_and_a_message_occupy_little(self) -> None:
        command = [sys.executable, str(MEMORY), "--clients", "100", "--messages", "2000"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=400)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        traced = dict(re.findall(r"^(.*?) +traced KiB: .*all (.*)$", done.stdout, re.M))
        self.assertEqual(set(traced), {"crore, asyncio", "crore, sync", "websockets, asyncio"})
        for kind in ("crore, asyncio", "crore, sync"):
            self.assertLess(float(traced[kind]), 30, done.stdout)
        # The message, its payload, and two offsets.
        blocks = re.search(r"a message: ([0-9.]+) blocks", done.stdout)
        assert blocks is not None, done.stdout
        self.assertLess(float(blocks[1]), 4.5)


if __name__ == "__main__":
    unittest.main()
