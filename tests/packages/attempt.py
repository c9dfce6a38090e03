"""Installs every package of a folder as a user does, and runs its program: a node, a publication, a subscription.

python attempt.py FOLDER

The README's lines of installation run as they stand. Registries are local: npm's is served here, and PyPI's is the
folder.
Invariant: nothing is installed outside of a temporary folder, and every port is one that the system gives.
"""

from __future__ import annotations

import base64
import fcntl
import gzip
import hashlib
import http.server
import json
import os
import pty
import re
import shlex
import signal
import subprocess
import sys
import tarfile
import tempfile
import termios
import threading
import unittest
import urllib.parse
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "target/packages").resolve()
TOOLS = Path(os.environ["CRORE_TOOLS"])
WHEELS = Path(os.environ["CRORE_WHEELS"])
RUNTIMES = Path(os.environ["CRORE_RUNTIMES"])
PYTHON = os.environ["CRORE_PYTHON"]
VERSION = re.search(r'^version = "(.*)"', (ROOT / "Cargo.toml").read_text(), re.M)[1]
TARGET = "x86_64-linux"
NODES = {"system": None, "22": RUNTIMES / "node-22/bin", "24": RUNTIMES / "node-24/bin"}
PATIENCE_S = 180
REFUSAL = "crore: no server program for"

#: The environment of a user: no option of a node, and ports that the system gives.
BARE = {name: value for name, value in os.environ.items() if not name.startswith(("CRORE_", "npm_", "NPM_"))}
PORTS = {"CRORE_LISTEN_CLIENTS": "127.0.0.1:0", "CRORE_LISTEN_OPERATORS": "127.0.0.1:0"}


def package(ending: str) -> Path:
    (found,) = [path for path in FOLDER.iterdir() if path.name.endswith(ending)]
    return found


def run(*command: object, ok: bool = True, **options: object) -> str:
    """The output of a command, which must succeed (or, without `ok`, fail)."""
    words = [str(word) for word in command]
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=PATIENCE_S, **options)
    if (done.returncode == 0) != ok:
        raise AssertionError(f"{' '.join(words)} ended with {done.returncode}:\n{done.stdout}")
    return done.stdout


def quoted_lines() -> list[str]:
    """The command lines of the README's installation."""
    section = (ROOT / "README.md").read_text().split("## Start")[1]
    block = re.search(r"(?:^    .*\n)+", section, re.M)[0]
    return [line.split("#")[0].strip() for line in block.splitlines()]


class Node:
    """A running `crore serve`, in a terminal or with its output in a pipe."""

    def __init__(self, command: list[str], terminal: bool = False, **options: object) -> None:
        if terminal:
            master, slave = pty.openpty()
            self.input, output = master, slave
            # The terminal of a session of its own, so that Ctrl-C reaches every process in it.
            options["preexec_fn"] = lambda: fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
            options["stdin"] = slave
        else:
            master, output = os.pipe()
        self.process = subprocess.Popen(command, stdout=output, stderr=output, start_new_session=True, **options)
        os.close(output)
        self.lines = os.fdopen(master, "r", errors="replace")
        self.shown: list[str] = []
        self.address = ""
        watch = threading.Timer(PATIENCE_S, self.kill)
        watch.start()
        try:
            self.await_line(r"(^|\s)ready$")
        finally:
            watch.cancel()
        self.address = re.search(r"listening clients http://([^ /\s]+)", "".join(self.shown))[1]

    def await_line(self, pattern: str) -> None:
        for line in iter(self.read_line, ""):
            self.shown.append(line)
            if re.search(pattern, line.strip()):
                return
        raise AssertionError("the node has ended:\n" + "".join(self.shown))

    def read_line(self) -> str:
        try:
            return self.lines.readline()
        except OSError:
            # The end of a terminal.
            return ""

    def interrupt(self) -> None:
        """Ctrl-C."""
        os.write(self.input, b"\x03")

    def end(self) -> int:
        """Waits for the end of the process and of its output, which its children share."""
        watch = threading.Timer(PATIENCE_S, self.kill)
        watch.start()
        try:
            self.shown += iter(self.read_line, "")
            return self.process.wait(PATIENCE_S)
        finally:
            watch.cancel()

    def kill(self) -> None:
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def remove(self) -> None:
        self.kill()
        self.process.wait()
        self.lines.close()


class Place(unittest.TestCase):
    """A test with a folder and an environment of its own."""

    def setUp(self) -> None:
        temporary = tempfile.TemporaryDirectory(prefix="crore-package-", ignore_cleanup_errors=True)
        self.addCleanup(temporary.cleanup)
        self.folder = Path(temporary.name)
        for name in ("home", "work", "run"):
            (self.folder / name).mkdir()
        self.work = self.folder / "work"
        self.env = BARE | {"HOME": str(self.folder / "home"), "RUNTIME_DIRECTORY": str(self.folder / "run")}

    def here(self, *command: object, ok: bool = True, **more: str) -> str:
        return run(*command, ok=ok, cwd=self.work, env=self.env | more)

    def serve(self, *command: object, terminal: bool = False, **more: str) -> Node:
        words = [str(word) for word in command]
        node = Node(words, terminal, cwd=self.work, env=self.env | PORTS | more)
        self.addCleanup(node.remove)
        return node

    def check_messages(self, node: Node, *crore: object, **more: str) -> None:
        """A publication by the command reaches its subscription."""
        more["CRORE_URL"] = f"ws://{node.address}"
        self.here(*crore, "pub", "demo/greeting", "hello", **more)
        received = self.here(*crore, "sub", "--last", "1", "--count", "1", "demo/greeting", **more)
        self.assertIn("hello", received)

    def check_program(self, *crore: object, **more: str) -> None:
        """The command has our version, an exact status, messages, and a drain at SIGTERM."""
        self.assertIn(f"crore {VERSION}\n", self.here(*crore, "version", **more))
        wrong = subprocess.run(
            [*map(str, crore), "nonsense"], cwd=self.work, env=self.env | more, capture_output=True, timeout=PATIENCE_S
        )
        self.assertEqual(wrong.returncode, 2)
        node = self.serve(*crore, "serve", **more)
        self.check_messages(node, *crore, **more)
        node.process.send_signal(signal.SIGTERM)
        self.assertEqual(node.end(), 0)
        self.assertIn("reason=SIGTERM", "".join(node.shown))

    def check_terminal(self, *serve: object, **more: str) -> None:
        """Ctrl-C drains the node once: a second signal would end it at once, without its last line."""
        node = self.serve(*serve, terminal=True, **more)
        node.interrupt()
        node.end()
        self.assertIn("The node has stopped", "".join(node.shown))

    def quoted(self, first: str) -> list[str]:
        """The line of the README that begins with this word."""
        (line,) = [line for line in quoted_lines() if line.startswith(f"{first} ")]
        return shlex.split(line)


class Registry(http.server.ThreadingHTTPServer):
    """npm's registry with our packages, and nothing else."""

    #: npm connects many times at once.
    request_queue_size = 128

    def __init__(self) -> None:
        self.packages: dict[str, dict[str, object]] = {}
        self.files: dict[str, bytes] = {}
        super().__init__(("127.0.0.1", 0), Answer)
        self.url = f"http://127.0.0.1:{self.server_port}"
        for path in FOLDER.glob("*.tgz"):
            content = path.read_bytes()
            with tarfile.open(path) as archive:
                manifest = json.load(archive.extractfile("package/package.json"))
            digest = base64.b64encode(hashlib.sha512(content).digest()).decode()
            dist = {"tarball": f"{self.url}/-/{path.name}", "integrity": f"sha512-{digest}"}
            name, version = manifest["name"], manifest["version"]
            versions = {version: manifest | {"dist": dist}}
            self.packages[name] = {"name": name, "dist-tags": {"latest": version}, "versions": versions}
            self.files[f"/-/{path.name}"] = content


class Answer(http.server.BaseHTTPRequestHandler):
    server: Registry

    def do_GET(self) -> None:
        document = self.server.packages.get(urllib.parse.unquote(self.path)[1:])
        body = json.dumps(document).encode() if document else self.server.files.get(self.path)
        self.send_response(404 if body is None else 200)
        self.send_header("Content-Length", str(len(body or b"")))
        self.end_headers()
        self.wfile.write(body or b"")

    def log_message(self, *_: object) -> None:
        pass


class Npm(Place):
    def setUp(self) -> None:
        super().setUp()
        registry = Registry()
        threading.Thread(target=registry.serve_forever, daemon=True).start()
        self.addCleanup(registry.server_close)
        self.addCleanup(registry.shutdown)
        self.env |= {
            "npm_config_registry": registry.url,
            "npm_config_update_notifier": "false",
            "npm_config_yes": "true",
        }
        self.env |= {"npm_config_fund": "false", "npm_config_audit": "false", "npm_config_fetch_retries": "0"}
        self.use("22")

    def use(self, version: str) -> None:
        if folder := NODES[version]:
            self.env["PATH"] = f"{folder}:{BARE['PATH']}"
        else:
            self.env["PATH"] = BARE["PATH"]

    def test_the_line_of_the_readme_serves_and_ends_at_ctrl_c(self) -> None:
        self.check_terminal(*self.quoted("npx"))

    def test_both_files_installed_in_an_empty_folder_give_the_command(self) -> None:
        packages = [package(f"crore-{VERSION}.tgz"), package(f"crore-linux-x64-{VERSION}.tgz")]
        # Without any registry.
        self.here("npm", "install", "--offline", *packages)
        self.assertIn(f"crore {VERSION}\n", self.here("npx", "--offline", "crore", "version"))
        self.check_messages(self.serve("node_modules/.bin/crore", "serve"), "npx", "--offline", "crore")
        # The client library beside it.
        script = "import { Crore } from 'crore'; console.log(typeof Crore)"
        self.assertEqual(self.here("node", "--input-type=module", "-e", script), "function\n")

    def test_the_command_passes_arguments_signals_and_status_in_each_version_of_node(self) -> None:
        self.here("npm", "install", "crore")
        for version in NODES:
            with self.subTest(version):
                self.use(version)
                self.check_program("node_modules/.bin/crore")
                self.check_terminal("node_modules/.bin/crore", "serve")

    def test_other_runtimes_run_the_command(self) -> None:
        self.here("npm", "install", "crore")
        bun = [RUNTIMES / "@oven/bun-linux-x64-baseline/bin/bun", "--bun"]
        deno = [RUNTIMES / "@deno/linux-x64-glibc/deno", "run", "--allow-all", "--no-lock"]
        for runtime in (bun, deno):
            with self.subTest(runtime):
                self.check_program(*runtime, "node_modules/crore/bin/crore.mjs")

    def test_another_platform_gets_the_library_and_a_sentence_instead_of_the_server(self) -> None:
        for other in (["--os=darwin", "--cpu=arm64"], ["--os=linux", "--cpu=x64", "--libc=musl"], ["--omit=optional"]):
            with self.subTest(other):
                self.here("rm", "-rf", "node_modules", "package.json", "package-lock.json")
                self.here("npm", "install", "crore", *other)
                self.assertFalse((self.work / "node_modules/@crore").exists())
                said = self.here("node_modules/.bin/crore", "serve", ok=False)
                self.assertTrue(said.startswith(REFUSAL), said)
                self.assertEqual(said.count("\n"), 1, said)

    def test_the_packages_contain_what_belongs_in_them_and_no_script(self) -> None:
        with tarfile.open(package(f"crore-linux-x64-{VERSION}.tgz")) as archive:
            names = sorted(archive.getnames())
            manifest = json.load(archive.extractfile("package/package.json"))
        belongs = ["LICENSE", "README.md", "THIRD-PARTY.txt", "bin/crore", "package.json"]
        self.assertEqual(names, [f"package/{name}" for name in belongs])
        self.assertEqual([manifest["os"], manifest["cpu"], manifest["libc"]], [["linux"], ["x64"], ["glibc"]])
        with tarfile.open(package(f"crore-{VERSION}.tgz")) as archive:
            main = json.load(archive.extractfile("package/package.json"))
        self.assertEqual(main["optionalDependencies"], {"@crore/linux-x64": VERSION})
        for each in (manifest, main):
            self.assertNotIn("scripts", each)
            self.assertNotIn("dependencies", each)


class PyPI(Place):
    def setUp(self) -> None:
        super().setUp()
        self.env |= {"UV_FIND_LINKS": f"{FOLDER},{WHEELS}", "UV_NO_INDEX": "1", "UV_OFFLINE": "1"}
        self.env |= {"UV_PYTHON": sys.executable, "UV_PYTHON_DOWNLOADS": "never", "UV_LINK_MODE": "copy"}
        self.env |= {"UV_CACHE_DIR": str(self.folder / "cache"), "PIP_FIND_LINKS": f"{FOLDER} {WHEELS}"}
        self.env |= {"PIP_NO_INDEX": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
        self.env["PATH"] = f"{self.folder / 'tools'}:{BARE['PATH']}"
        (self.folder / "tools").mkdir()
        for name in ("uv", "uvx"):
            (self.folder / "tools" / name).symlink_to(TOOLS / name)

    def test_the_line_of_the_readme_serves_and_ends_at_ctrl_c(self) -> None:
        self.check_terminal(*self.quoted("uvx"))

    def test_uvx_passes_arguments_signals_and_status(self) -> None:
        self.check_program("uvx", "crore")

    def test_pip_installs_server_and_library_in_a_fresh_environment(self) -> None:
        self.here(sys.executable, "-m", "venv", "venv")
        self.here("venv/bin/pip", "install", "crore")
        self.check_program("venv/bin/crore")
        self.check_program("venv/bin/python", "-m", "crore")
        node = self.serve("venv/bin/crore", "serve")
        script = (
            "import asyncio, crore, sys\n"
            "async def main():\n"
            "    async with crore.connect(sys.argv[1]) as client:\n"
            "        print((await client.publish('a', 'b')).position)\n"
            "asyncio.run(main())"
        )
        self.assertRegex(self.here("venv/bin/python", "-c", script, f"ws://{node.address}"), r":\d+$")
        self.here("venv/bin/pip", "uninstall", "--yes", "crore")
        self.assertFalse((self.work / "venv/bin/crore").exists())

    def test_pip_with_a_target_folder_gives_the_command_as_a_module(self) -> None:
        self.here(sys.executable, "-m", "pip", "install", "--target", "here", "crore")
        self.assertIn(VERSION, self.here(sys.executable, "-m", "crore", "version", PYTHONPATH="here"))

    def test_another_platform_gets_the_library_and_a_sentence_instead_of_the_server(self) -> None:
        for platform in ("aarch64-apple-darwin", "x86_64-pc-windows-msvc", "x86_64-unknown-linux-musl"):
            with self.subTest(platform):
                options = ["--no-deps", "--python-platform", platform, "--target", platform]
                self.here("uv", "pip", "install", *options, "crore")
                wheel = next((self.work / platform).glob("crore-*.dist-info/WHEEL")).read_text()
                self.assertIn("Tag: py3-none-any", wheel)
        self.here(sys.executable, "-m", "venv", "venv")
        self.here("venv/bin/pip", "install", package("-none-any.whl"))
        for command in (["venv/bin/crore"], ["venv/bin/python", "-m", "crore"]):
            said = self.here(*command, "serve", ok=False)
            self.assertTrue(said.startswith("crore: this installation has no server program"), said)
            self.assertEqual(said.count("\n"), 1, said)

    def test_the_tag_of_the_wheel_is_true(self) -> None:
        wheel = package("_x86_64.whl")
        said = " ".join(self.here(TOOLS / "auditwheel", "show", wheel).split())
        tag = wheel.name.removesuffix(".whl").split("-")[-1]
        self.assertIn(f'consistent with the following platform tag: "{tag}"', said)

    def test_the_licences_go_with_the_program(self) -> None:
        with zipfile.ZipFile(package("_x86_64.whl")) as wheel:
            notices = wheel.read(f"crore-{VERSION}.dist-info/licenses/THIRD-PARTY.txt").decode()
            self.assertIn("License-File: THIRD-PARTY.txt", wheel.read(f"crore-{VERSION}.dist-info/METADATA").decode())
        for library in ("aws-lc-sys-", "rustls-", "tokio-", "zlib-rs-"):
            self.assertRegex(notices, rf"(?m)^(.*, )?{library}\d")

    def test_the_files_are_as_the_registry_wants_them(self) -> None:
        wheels = [*FOLDER.glob("*.whl")]
        self.assertEqual(len(wheels), 2)
        self.here(TOOLS / "check-wheel-contents", *wheels)
        self.here(PYTHON, "-m", "twine", "check", "--strict", *wheels, package(f"crore-{VERSION}.tar.gz"))


class Systems(Place):
    """Tarball, Debian, RPM: unpacked. The steps `package` and `systemd` install them."""

    def check_files(self, root: Path) -> None:
        """The files of both kinds of system packages."""
        self.check_program(root / "usr/bin/crore")
        self.here(root / "usr/bin/crore", "config", "check", "--config", root / "etc/crore/crore.toml")
        unit = (root / "usr/lib/systemd/system/crore.service").read_text()
        self.assertIn("ExecStart=/usr/bin/crore serve --config /etc/crore/crore.toml\n", unit)
        self.assertIn(b".TH crore 1", gzip.decompress((root / "usr/share/man/man1/crore.1.gz").read_bytes()))
        for path in root.rglob("*"):
            mode = 0o755 if path.is_dir() or path.name == "crore" and path.parent.name == "bin" else 0o644
            self.assertEqual(path.stat().st_mode & 0o7777, mode, path)

    def test_the_sums_are_right_and_complete(self) -> None:
        self.assertNotIn("FAILED", run("sha256sum", "--check", "SHA256SUMS", cwd=FOLDER))
        named = {line.split()[1] for line in (FOLDER / "SHA256SUMS").read_text().splitlines()}
        self.assertEqual(named, {path.name for path in FOLDER.iterdir()} - {"SHA256SUMS"})

    def test_the_tarball_runs_where_it_is_unpacked(self) -> None:
        self.here("tar", "xf", package(f"{TARGET}.tar.gz"))
        root = self.work / f"crore-{VERSION}-{TARGET}"
        self.check_program(root / "crore")
        self.here(root / "crore", "config", "check", "--config", root / "crore.toml")
        files = {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}
        self.assertLessEqual(
            {"LICENSE", "README.md", "man/crore.1", "systemd/crore.service", "completions/_crore"}, files
        )
        self.assertLess((root / "crore").stat().st_size, 25 << 20)

    def test_the_program_serves_tls(self) -> None:
        """Cryptography is C: another compiler builds it for a release."""
        self.here("tar", "xf", package(f"{TARGET}.tar.gz"))
        crore = self.work / f"crore-{VERSION}-{TARGET}/crore"
        self.here(crore, "tls", "self-signed", "--out", "tls")
        files = ["--tls-certificate", "tls/cert.pem", "--tls-key", "tls/key.pem"]
        node = self.serve(crore, "serve", "--tls-listen", "127.0.0.1:0", *files)
        address = re.search(r"listening clients with TLS https://([^ /\s]+)", "".join(node.shown))[1]
        at = ["--url", f"wss://{address}", "--ca", "tls/cert.pem"]
        self.here(crore, "pub", *at, "secret", "hello")
        self.assertIn("hello", self.here(crore, "sub", *at, "--last", "1", "--count", "1", "secret"))

    def test_the_arguments_of_the_image_in_the_readme_serve(self) -> None:
        """Only the arguments: no container engine is here."""
        self.here("tar", "xf", package(f"{TARGET}.tar.gz"))
        words = self.quoted("docker")
        arguments = words[words.index("ghcr.io/crore/crore") + 1 :]
        crore = self.work / f"crore-{VERSION}-{TARGET}/crore"
        self.check_messages(self.serve(crore, *arguments), crore)

    def test_debian_package(self) -> None:
        deb = package(".deb")
        fields = dict(line.split(": ", 1) for line in run("dpkg-deb", "--field", deb).splitlines() if line[0] != " ")
        facts = [fields["Package"], fields["Version"], fields["Architecture"]]
        self.assertEqual(facts, ["crore", VERSION, "amd64"])
        self.assertRegex(fields["Depends"], r"^libc6 \(>= 2\.\d+\)(, libgcc-s1)?, adduser$")
        self.here("dpkg-deb", "--raw-extract", deb, "root")
        control = self.work / "root/DEBIAN"
        self.assertEqual((control / "conffiles").read_text(), "/etc/crore/crore.toml\n")
        for script in ("postinst", "postrm", "prerm"):
            self.here("sh", "-n", control / script)
            self.assertEqual((control / script).stat().st_mode & 0o777, 0o755)
        run("md5sum", "--check", "--quiet", "DEBIAN/md5sums", cwd=self.work / "root")
        self.here("rm", "-r", control)
        self.check_files(self.work / "root")

    def test_rpm_package(self) -> None:
        rpm = ["rpm", "--dbpath", str(self.folder / "database"), "--query", "--package", package(".rpm")]
        facts = self.here(*rpm, "--queryformat", "%{NAME} %{VERSION} %{ARCH} %{LICENSE}")
        self.assertEqual(facts, f"crore {VERSION} x86_64 Apache-2.0")
        self.assertEqual(self.here(*rpm, "--configfiles"), "/etc/crore/crore.toml\n")
        requires = self.here(*rpm, "--requires")
        for needed in (r"libc\.so\.6\(GLIBC_2\.\d+\)\(64bit\)", "/usr/sbin/useradd", "/bin/sh"):
            self.assertRegex(requires, needed)
        for script in ("PREIN", "POSTIN", "PREUN", "POSTUN"):
            text = self.here(*rpm, "--queryformat", f"%{{{script}}}")
            self.here("sh", "-n", "-c", text)
            self.assertIn("crore", text)
        self.here("sh", "-c", 'mkdir root && rpm2archive --nocompression - <"$0" | tar x -C root', package(".rpm"))
        self.check_files(self.work / "root")


if OLD := os.environ.get("CRORE_OLD_LIBRARIES"):

    class OldSystem(Place):
        """The program of a release, with the C library of an older system than this one."""

        def test_the_program_runs(self) -> None:
            self.here("tar", "xf", package(f"{TARGET}.tar.gz"))
            crore = self.work / f"crore-{VERSION}-{TARGET}/crore"
            old = [Path(OLD) / "ld-linux-x86-64.so.2", "--library-path", OLD, crore]
            self.check_program(*old)
            # librdkafka and OpenSSL are C: the client of the engine starts, and finds no broker.
            (self.work / "engine.toml").write_text(
                'node.name = "n1"\nengine.bootstrap_servers = ["127.0.0.1:1"]\n'
                '[[log]]\nname = "memory"\n[[log]]\nname = "orders"\ndurability = "engine"\n'
            )
            init = [*old, "engine", "init", "--config", self.work / "engine.toml"]
            self.assertIn("127.0.0.1:1", self.here(*init, ok=False))


def main() -> None:
    result = unittest.TextTestRunner(stream=sys.stdout, verbosity=2).run(
        unittest.defaultTestLoader.loadTestsFromModule(sys.modules[__name__])
    )
    failed = len(result.failures) + len(result.errors)
    print(f"{result.testsRun - failed} passed, {failed} failed", flush=True)
    sys.exit(failed != 0)


if __name__ == "__main__":
    main()
