"""What is measured: that the benchmark runs to its end, and what a message and a client occupy."""

from __future__ import annotations

import re
import subprocess
import sys
import unittest
from pathlib import Path

BENCH = Path(__file__).resolve().parents[1] / "scripts" / "bench.py"


class Benchmark(unittest.TestCase):
    def test_it_counts_every_message_of_all_four_loops_and_ends(self) -> None:
        done = subprocess.run(
            [sys.executable, str(BENCH), "--messages", "20000", "--rounds", "1", "--deadline", "60"],
            capture_output=True,
            text=True,
            timeout=90,
        )
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(len(re.findall(r"messages/s of 100 bytes", done.stdout)), 4)
        self.assertEqual(re.findall(r"(\w+): \d+% of the bare loop", done.stdout), ["asyncio", "sync"])


if __name__ == "__main__":
    unittest.main()
