"""Writes `src/crore/_codes.py` from `spec/codes.toml`; with `--check` it only compares."""

from __future__ import annotations

import sys
from pathlib import Path

import tomllib

HERE = Path(__file__).resolve().parent
TARGET = HERE.parent / "src" / "crore" / "_codes.py"
SOURCE = HERE.parents[2] / "spec" / "codes.toml"


def table(name: str, entries: list[dict[str, object]]) -> str:
    lines = "".join(f'    {entry["number"]}: "{entry["name"]}",\n' for entry in entries)
    return f"{name}: Final[dict[int, str]] = {{\n{lines}}}\n"


def generated() -> str:
    codes = tomllib.loads(SOURCE.read_text(encoding="utf-8"))
    return (
        '"""Names of the codes. Generated from `spec/codes.toml` by `scripts/codes.py`."""\n\n'
        "from typing import Final\n\n"
        + table("ERRORS", codes["error"])
        + "\n"
        + table("CLOSES", codes["close"])
        + "\n"
        + table("UNSUBSCRIBES", codes["unsubscribe"])
    )


def main() -> None:
    text = generated()
    if "--check" not in sys.argv:
        TARGET.write_text(text, encoding="utf-8")
    elif TARGET.read_text(encoding="utf-8") != text:
        sys.exit("src/crore/_codes.py is out of date: run `python scripts/codes.py`")


if __name__ == "__main__":
    main()
