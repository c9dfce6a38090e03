"""The package as for a release: types, style, wheel and sdist, the README's first example, the example, reference."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import tarfile
import tempfile
import unittest
import venv
import zipfile
from pathlib import Path

import crore
from node import Node

ROOT = Path(__file__).resolve().parents[1]


def run(*command: str, folder: Path = ROOT) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
    if done.returncode:
        raise AssertionError(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def module(name: str, *arguments: str, folder: Path = ROOT) -> str:
    return run(sys.executable, "-m", name, *arguments, folder=folder)


class Static(unittest.TestCase):
    def test_types_are_strict(self) -> None:
        module("mypy", "--no-error-summary")

    def test_types_are_strict_for_pyright(self) -> None:
        module("pyright", "--pythonpath", sys.executable)

    def test_style(self) -> None:
        module("ruff", "check", "--no-cache", ".")
        module("ruff", "format", "--no-cache", "--check", ".")


class Codes(unittest.TestCase):
    def test_the_table_is_that_of_the_specification(self) -> None:
        run(sys.executable, "scripts/codes.py", "--check")


class Package(unittest.TestCase):
    def test_wheel_and_sdist_are_complete_and_install_with_one_dependency(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            dist = Path(folder)
            module("build", "--no-isolation", "--outdir", folder)
            wheel, sdist = next(dist.glob("*.whl")), next(dist.glob("*.tar.gz"))
            module("twine", "check", "--strict", str(wheel), str(sdist))
            names = zipfile.ZipFile(wheel).namelist()
            self.assertIn("crore/py.typed", names)
            self.assertEqual([it for it in names if not re.match(r"crore(-[\d.]+\.dist-info)?/", it)], [])
            with tarfile.open(sdist) as archive:
                inside = {name.split("/", 1)[-1] for name in archive.getnames()}
            self.assertLessEqual({"README.md", "CHANGELOG.md", "LICENSE", "src/crore/py.typed"}, inside)
            metadata = zipfile.ZipFile(wheel).read(next(it for it in names if it.endswith("METADATA"))).decode()
            self.assertEqual(re.findall(r"^Requires-Dist: (\w+)", metadata, re.M), ["websockets"])
            # The wheel itself, in an environment where the sources are not.
            venv.create(dist / "env", system_site_packages=False, with_pip=False)
            site = next((dist / "env").glob("lib/python*/site-packages"))
            zipfile.ZipFile(wheel).extractall(site)
            dependency = Path(sys.modules["websockets"].__file__ or "").parents[1]
            (site / "dependency.pth").write_text(str(dependency), encoding="utf-8")
            code = "import crore, crore.sync; print(crore.__file__)"
            where = run(str(dist / "env/bin/python"), "-I", "-c", code, folder=dist)
            self.assertTrue(Path(where.strip()).is_relative_to(site), where)

    def test_the_reference_has_every_public_name_with_a_text(self) -> None:
        for name in crore.__all__:
            shown = getattr(crore, name)
            if isinstance(shown, type):
                self.assertTrue(shown.__doc__, f"{name} has no documentation")
        with tempfile.TemporaryDirectory() as folder:
            module("pdoc", "crore", "crore.sync", "!crore._codec", "!crore._core", "--output-directory", folder)
            page = (Path(folder) / "crore.html").read_text(encoding="utf-8")
            for name in crore.__all__:
                self.assertIn(f'id="{name}"', page)


class Examples(unittest.TestCase):
    def setUp(self) -> None:
        self.node = Node().start()
        self.addCleanup(self.node.remove)

    def test_the_first_example_of_the_readme_runs_as_it_stands(self) -> None:
        readme = (ROOT / "README.md").read_text(encoding="utf-8")
        example = re.findall(r"```python\n(.*?)```", readme, re.S)[0]
        self.assertLessEqual(len(example.strip().splitlines()), 10)
        # Only the address is another one: no test has a fixed port.
        example = example.replace("ws://127.0.0.1:8800", self.node.url)
        self.assertEqual(run(sys.executable, "-W", "error", "-c", example), "prices/eur {'bid': 1.0842}\n")

    def test_the_blocking_example_of_the_readme_runs(self) -> None:
        readme = (ROOT / "README.md").read_text(encoding="utf-8")
        first, second = re.findall(r"```python\n(.*?)```", readme, re.S)[:2]
        for example in (first, second):
            shown = run(sys.executable, "-W", "error", "-c", example.replace("ws://127.0.0.1:8800", self.node.url))
        self.assertEqual(shown, "{'bid': 1.0842}\n")

    def test_the_market_data_publisher_publishes_each_quote_once(self) -> None:
        program = str(ROOT / "examples" / "market_data.py")
        shown = run(sys.executable, program, "publish", self.node.url, "--symbols", "EURUSD,GBPUSD", "--ticks", "50")
        self.assertIn("published 100 quotes", shown)

        async def read() -> None:
            async with crore.connect(self.node.url) as client:
                for symbol in ("EURUSD", "GBPUSD"):
                    quotes = [it.json() async for it in client.history(f"quotes/{symbol}")]
                    self.assertEqual([it["sequence"] for it in quotes], list(range(1, 51)))
                    self.assertTrue(all(it["bid"] < it["ask"] for it in quotes))

        asyncio.run(read())

    def test_the_market_data_reader_shows_quotes(self) -> None:
        program = str(ROOT / "examples" / "market_data.py")
        reader = subprocess.Popen(
            [sys.executable, "-u", program, "watch", self.node.url], stdout=subprocess.PIPE, text=True
        )
        try:
            assert reader.stdout is not None

            async def publish() -> str:
                async with crore.connect(self.node.url) as client:
                    assert reader.stdout is not None
                    reading: asyncio.Task[str] = asyncio.create_task(asyncio.to_thread(reader.stdout.readline))
                    quote = {"symbol": "EURUSD", "sequence": 1, "bid": 1.1, "ask": 1.2}
                    while not reading.done():
                        await client.publish("quotes/EURUSD", quote)
                    return await reading

            self.assertEqual(asyncio.run(publish()).split(), ["EURUSD", "1.10000", "1.20000"])
        finally:
            reader.kill()
            reader.communicate()


if __name__ == "__main__":
    unittest.main()
