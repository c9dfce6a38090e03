"""Mosquitto's own broker suite against Crore.

python mosquitto.py SUITE CRORE [--jobs N] [TEST...]

SUITE is the folder `test` of the sources of Mosquitto 2.0.11, CRORE the program. Each test starts a broker as
`../../src/mosquitto`: here that is this file, which translates the command line and the configuration, and becomes
Crore. Tests run in a copy of the suite, several at a time, each with ports of its own.
`exceptions.txt` names the tests that are not run, and those that may fail, with the reason.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
PATIENCE_S = 60

#: What Mosquitto announces and bounds by default, where Crore's defaults are others.
LIKE_MOSQUITTO = {
    "mqtt.topic_alias_max": "10",
    "mqtt.receive_max": "20",
    "mqtt.inflight_max": "20",
    "mqtt.v3_refusals": "acknowledge",
    "node.drain_window": "0s",
}


#: With "persistence true" everything is on disk.
ON_DISK = """
[[log]]
name = "disk"
durability = "disk"

[[rule]]
filter = "#"
log = "disk"

[[rule]]
filter = "$mqtt/#"
log = "disk"
"""

#: With users, each may do everything.
FOR_USERS = """
[[grant]]
subscribe = ["#"]
publish = ["#"]
"""

#: What clients without a user may do, with "allow_anonymous true" beside a password file.
FOR_ANONYMOUS = ("entitlement.anonymous_subscribe", "entitlement.anonymous_publish")


def become_crore(program: str, arguments: list[str]) -> None:
    """Replaces this process by Crore, with what Mosquitto's arguments mean."""
    options = dict(LIKE_MOSQUITTO)
    ports: list[str] = []
    arguments = iter(arguments)
    for argument in arguments:
        if argument == "-p":
            ports.append(next(arguments))
        elif argument == "-c":
            ports += translate(Path(next(arguments)).read_text(), options)
    ports = ports or ["1883"]
    options["mqtt.listen"] = ",".join(f"127.0.0.1:{port}" for port in ports)
    tables = translate_access(options, ports[0])
    if options.pop("persistence", "false") == "true":
        data = Path(f"crore-{ports[0]}").resolve()
        # A test begins anew by removing the file of Mosquitto's sessions.
        database = Path(f"mosquitto-{ports[0]}.db")
        if not database.exists() and data.exists():
            shutil.rmtree(data)
        database.touch()
        options["node.data_dir"] = str(data)
        tables += ON_DISK
    words = [program, "serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"]
    if tables:
        Path(f"crore-{ports[0]}.toml").write_text(tables)
        words += ["--config", f"crore-{ports[0]}.toml"]
    for key, value in options.items():
        words += ["--set", f"{key}={value}"]
    bare = {name: value for name, value in os.environ.items() if not name.startswith("CRORE_")}
    os.execve(program, words, bare)


def translate_access(options: dict[str, str], port: str) -> str:
    """Fills in the options of authentication; returns the tables of the configuration."""
    is_open = options.pop("allow_anonymous", "true") == "true"
    users = options.pop("password_file", None)
    if is_open and users is None:
        return ""
    if users is None:
        users = f"crore-{port}.users"
        Path(users).write_text("")
    options["entitlement.mode"] = "tokens"
    options["entitlement.users_file"] = users
    if is_open:
        options.update(dict.fromkeys(FOR_ANONYMOUS, "#"))
    return FOR_USERS


def translate(configuration: str, options: dict[str, str]) -> list[str]:
    """Fills in Crore's options; the ports."""
    ports = []
    # The default beside a file with a port.
    options["allow_anonymous"] = "false"
    for line in configuration.splitlines():
        key, _, value = line.strip().partition(" ")
        match key:
            case "port" | "listener":
                ports.append(value.split()[0])
            case "max_inflight_messages":
                options["mqtt.inflight_max"] = options["mqtt.receive_max"] = value
            case "allow_anonymous" | "password_file":
                options[key] = value
            case "persistence":
                options["persistence"] = value
            case "max_keepalive":
                options["mqtt.keep_alive_max"] = f"{value}s"
            case "max_packet_size":
                options["mqtt.packet_bytes_max"] = value
            case "allow_zero_length_clientid":
                options["mqtt.assigned_ids"] = value
            case "maximum_qos":
                options["mqtt.qos_max"] = value
            case "retain_available":
                options["mqtt.retained"] = value
            case "message_size_limit":
                options["limits.message_bytes_max"] = value
    return ports


def listed(suite: Path) -> list[tuple[int, str]]:
    """The tests of the suite, and the ports that each needs."""
    text = (suite / "broker/test.py").read_text()
    return [(int(count), name) for count, name in re.findall(r"^    \((\d+), '\./([^']+)'\)", text, re.M)]


def exceptions() -> dict[str, str]:
    """Patterns of tests with the reason why they are left out."""
    lines = (HERE / "exceptions.txt").read_text().splitlines()
    pairs = [line.split(None, 1) for line in lines if line.strip() and not line.startswith("#")]
    return {pattern: reason for pattern, reason in pairs}


def free_ports(count: int, taken: set[int]) -> list[int]:
    sockets = []
    ports: list[int] = []
    while len(ports) < count:
        one = socket.socket()
        one.bind(("127.0.0.1", 0))
        sockets.append(one)
        port = one.getsockname()[1]
        if port not in taken:
            ports.append(port)
    for one in sockets:
        one.close()
    return ports


def run_test(folder: Path, name: str, ports: list[int]) -> tuple[bool, str]:
    command = [sys.executable, f"./{name}", *map(str, ports)]
    try:
        done = subprocess.run(
            command, cwd=folder, timeout=PATIENCE_S, text=True, errors="replace",
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
        )
    except subprocess.TimeoutExpired as error:
        return False, f"no end after {PATIENCE_S} s\n{error.stdout or ''}"
    return done.returncode == 0, done.stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("suite", type=Path)
    parser.add_argument("crore")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("tests", nargs="*")
    given = parser.parse_args()
    left_out = exceptions()
    tests = []
    for count, name in listed(given.suite):
        if given.tests:
            chosen = any(pattern in name for pattern in given.tests)
        else:
            chosen = not any(name.startswith(pattern) for pattern in left_out)
        if chosen:
            tests.append((count, name))
    with tempfile.TemporaryDirectory(prefix="crore-mqtt-") as place:
        copy = Path(place) / "test"
        shutil.copytree(given.suite, copy)
        shim = Path(place) / "src/mosquitto"
        shim.parent.mkdir()
        program = str(Path(given.crore).resolve())
        shim.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{Path(__file__).resolve()}" --become "{program}" "$@"\n')
        shim.chmod(0o755)
        failed = run_tests(copy / "broker", tests, given.jobs)
        # Many of the tests measure time. One that fails beside others has another try alone.
        failed = run_tests(copy / "broker", failed, 1)
    for _, name in failed:
        print(f"failed: {name}")
    print(f"{len(tests) - len(failed)} passed, {len(failed)} failed")
    sys.exit(bool(failed))


def run_tests(folder: Path, tests: list[tuple[int, str]], jobs: int) -> list[tuple[int, str]]:
    """Runs so many tests at a time; those that failed."""
    taken: set[int] = set()
    failed = []
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        runs = {}
        for count, name in tests:
            ports = free_ports(count, taken)
            taken.update(ports)
            runs[pool.submit(run_test, folder, name, ports)] = (count, name)
        for run in concurrent.futures.as_completed(runs):
            is_passed, output = run.result()
            count, name = runs[run]
            print(f"{'ok' if is_passed else 'FAILED'} {name}", flush=True)
            if not is_passed:
                print(output)
                failed.append((count, name))
    return failed


if __name__ == "__main__":
    if sys.argv[1:2] == ["--become"]:
        become_crore(sys.argv[2], sys.argv[3:])
    main()
