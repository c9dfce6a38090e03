"""
Runs every test of the SDK, or those whose name contains an argument; the last line has the counts. With `--all` the
cycles of the leak tests are 10,000.
"""

from __future__ import annotations

import logging
import os
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def main() -> None:
    folders = [str(ROOT / "src"), str(ROOT / "tests")]
    sys.path[:0] = folders
    # For the programs that the tests start.
    os.environ["PYTHONPATH"] = folders[0]
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    sys.dont_write_bytecode = True
    logging.getLogger("crore").setLevel(logging.CRITICAL + 1)
    loader = unittest.TestLoader()
    names = sys.argv[1:]
    if "--all" in names:
        names.remove("--all")
        os.environ["CYCLES"] = "10000"
    loader.testNamePatterns = [f"*{it}*" for it in names] or None
    result = unittest.TextTestRunner(stream=sys.stdout, verbosity=2).run(loader.discover(folders[1]))
    failed = len(result.failures) + len(result.errors) + len(result.unexpectedSuccesses) + len(result.skipped)
    print(f"{result.testsRun - failed} passed, {failed} failed", flush=True)
    sys.exit(failed != 0)


if __name__ == "__main__":
    main()
