"""Every scenario of spec/scenarios in core mode, none skipped; and runs without a script."""

from __future__ import annotations

import os
import unittest

from adapter_core import CoreAdapter
from play import play


class ScenariosInCoreMode(unittest.TestCase):
    def test_every_scenario_passes(self) -> None:
        only = os.environ.get("ONLY")
        outcome = play("core", CoreAdapter(), *(["--only", only] if only else []))
        print(f"core: {outcome.passed} passed, {outcome.failed} failed, {outcome.skipped} skipped")
        self.assertFalse(outcome.bad, "\n".join(outcome.bad))
        self.assertGreater(outcome.passed, 0)
        self.assertEqual(outcome.skipped, 0)

    def test_random_runs_lose_nothing(self) -> None:
        # The player expects every `once` in the log, however long it takes: no timeout.
        outcome = play(
            "core", CoreAdapter(timeout_ms=1e12), "--random", os.environ.get("RUNS", "100"), "--only", "random"
        )
        print(f"random: {outcome.passed} passed, {outcome.failed} failed")
        self.assertFalse(outcome.bad, "\n".join(outcome.bad))


if __name__ == "__main__":
    unittest.main()
