"""A node of the server for the tests: ephemeral ports, read from the lines that it prints."""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

from places import SERVER

#: The node takes every variable that begins with CRORE_ as an option.
_BARE = {name: value for name, value in os.environ.items() if not name.startswith("CRORE_")}

#: The deadline of what the tests wait for: a machine with other work is slow.
PATIENCE_S = 90


def own_address() -> str:
    """
    An address that no other program has: between two starts of a node nobody takes its port there. Nor does a client
    that keeps connecting: its socket has 127.0.0.1, where a connect may reach itself.
    """
    return "127." + ".".join(str(random.randint(1, 254)) for _ in range(3))


#: A log on disk.
ON_DISK = """
[node]
data_dir = "FOLDER/data"
drain_window = "1s"
[[log]]
name = "kept"
durability = "disk"
partitions_count = 4
age_max = "1d"
"""


class Node:
    """A node that may be stopped and started again at the same address."""

    def __init__(self, configuration: str = "") -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="crore-py-"))
        self.configuration = configuration.replace("FOLDER", str(self.folder))
        self.flags: list[str] = []
        self.tls_listen = ""
        self._listen = f"{own_address()}:0"
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> Node:
        """Returns when the node is ready."""
        file = self.folder / "crore.toml"
        file.write_text(self.configuration, encoding="utf-8")
        flags = ["serve", "--config", str(file), "--listen", self._listen, "--admin-listen", "127.0.0.1:0"]
        process = self._process = subprocess.Popen(
            [SERVER, *flags, *self.flags],
            env={**_BARE, "RUNTIME_DIRECTORY": str(self.folder / "run")},
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        lines: list[str] = []
        for line in process.stdout:
            lines.append(line)
            address = re.search(r"listening clients http://([^ /]+)", line)
            if address:
                self._listen = address[1].strip()
            address = re.search(r"listening clients with TLS https://([^ /]+)", line)
            if address:
                self.tls_listen = address[1].strip()
            if re.search(r"(^|\s)ready$", line.strip()):
                return self
        raise AssertionError(f"the node has ended with {process.wait()}:\n{''.join(lines)}")

    @property
    def url(self) -> str:
        return f"ws://{self._listen}"

    def signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def wait(self) -> None:
        """Returns when the process has ended."""
        if self._process is not None:
            self._process.communicate()

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        self.wait()

    def restart(self) -> None:
        self.kill()
        self.start()

    def remove(self) -> None:
        """Ends everything of it."""
        if self._process is not None and self._process.poll() is None:
            self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    @staticmethod
    def say(*flags: str) -> str:
        """What a command of the server's program prints."""
        return subprocess.run([SERVER, *flags], env=_BARE, check=True, capture_output=True, text=True).stdout.strip()


class Secure(Node):
    """A node that serves TLS too, with a certificate of its own for localhost."""

    def __init__(self) -> None:
        super().__init__()
        self.say("tls", "self-signed", "--out", str(self.folder), "--name", "localhost")
        self.certificate = str(self.folder / "cert.pem")
        self.flags = ["--tls-listen", "127.0.0.1:0", "--tls-certificate", self.certificate]
        self.flags += ["--tls-key", str(self.folder / "key.pem")]

    @property
    def port(self) -> str:
        return self.tls_listen.rsplit(":", 1)[1]


class Guarded(Node):
    """A node that requires tokens of a secret, and gives notice of their expiry two hours before."""

    def __init__(self) -> None:
        super().__init__()
        self._secret = str(self.folder / "secret")
        self.say("token", "key", "--algorithm", "HS256", "--out", self._secret)
        self.configuration = (
            '[entitlement]\nmode = "tokens"\nnotice_before = "2h"\n'
            f'[[token_key]]\nalgorithm = "HS256"\nsecret_file = "{self._secret}"\n'
        )

    def token(self, *flags: str, expires: str = "3h") -> str:
        secret = ("--secret-file", self._secret, "--algorithm", "HS256")
        return self.say("token", "gen", *secret, "--expires", expires, *flags)
