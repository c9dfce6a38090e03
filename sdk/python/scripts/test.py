"""
Runs every test of the SDK, or those whose name contains an argument; the last line has the counts.

    python scripts/test.py [--all] [--client] [--also PYTHON] [NAME]...

With `--all` the cycles of the leak tests are 10,000. `--client` leaves out the tests of the package, which need its
tools, and what is measured. `--also` runs the tests of the client with another Python at the same time.
"""

from __future__ import annotations

import argparse
import logging
import os
import subprocess
import sys
import tempfile
import unittest
from collections.abc import Iterator
from pathlib import Path
from typing import IO

ROOT = Path(__file__).resolve().parents[1]
#: Modules that `--client` leaves out.
NOT_OF_CLIENT = ("test_package", "test_figures")


def flat(suite: unittest.TestSuite) -> Iterator[unittest.TestCase]:
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from flat(test)
        else:
            yield test


def version() -> str:
    from websockets.version import version as websockets

    return f"Python {sys.version.split()[0]}, websockets {websockets}"


def run(names: list[str], only_client: bool) -> bool:
    from hypothesis import HealthCheck, settings

    folders = [str(ROOT / "src"), str(ROOT / "tests")]
    sys.path[:0] = folders
    # For the programs that the tests start.
    os.environ["PYTHONPATH"] = folders[0]
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    os.environ["HYPOTHESIS_STORAGE_DIRECTORY"] = os.path.join(tempfile.gettempdir(), "crore-hypothesis")
    sys.dont_write_bytecode = True
    for noisy in ("crore", "asyncio"):
        logging.getLogger(noisy).setLevel(logging.CRITICAL + 1)
    # A machine with other work is slow.
    settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("patient")
    loader = unittest.TestLoader()
    loader.testNamePatterns = [f"*{it}*" for it in names] or None
    left_out = NOT_OF_CLIENT if only_client else ()
    tests = (it for it in flat(loader.discover(folders[1])) if type(it).__module__ not in left_out)
    result = unittest.TextTestRunner(stream=sys.stdout, verbosity=2).run(unittest.TestSuite(tests))
    failed = len(result.failures) + len(result.errors) + len(result.unexpectedSuccesses) + len(result.skipped)
    print(version())
    print(f"{result.testsRun - failed} passed, {failed} failed", flush=True)
    return failed == 0


def begin(python: str, names: list[str], output: IO[str]) -> subprocess.Popen[str]:
    command = [python, __file__, "--client", *names]
    return subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, text=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--client", action="store_true")
    parser.add_argument("--also")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    if options.all:
        os.environ["CYCLES"] = "10000"
    with tempfile.TemporaryFile("w+") as output:
        other = None if options.also is None else begin(options.also, options.names, output)
        passed = run(options.names, options.client)
        if other is not None:
            passed = other.wait() == 0 and passed
            output.seek(0)
            print(f"\nWith {options.also}:\n{output.read()}", flush=True)
    sys.exit(not passed)


if __name__ == "__main__":
    main()
