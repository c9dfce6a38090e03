"""The command `crore`, as `python -m crore`: the server's program, where a wheel has brought it."""

from __future__ import annotations

import os
import sys
from importlib import metadata
from pathlib import Path

MISSING = (
    "crore: this installation has no server program. The wheel for Linux on x86-64 with glibc brings it; elsewhere use "
    "the container image, or build it with Rust: cargo install --locked --git https://github.com/crore/crore crore"
)


def program() -> Path | None:
    """The installed program of the server."""
    try:
        distribution = metadata.distribution("crore")
    except metadata.PackageNotFoundError:
        return None
    if any(it.group == "console_scripts" for it in distribution.entry_points):
        # The pure wheel: its script `crore` is this module.
        return None
    scripts = [it for it in distribution.files or [] if it.name == "crore"]
    # With `--target`, pip moves the scripts beside the packages.
    places = [*map(distribution.locate_file, scripts), distribution.locate_file("bin/crore")]
    return next((path for path in map(Path, map(str, places)) if path.is_file()), None)


def main() -> None:
    """Becomes the program, with the same arguments."""
    found = program()
    if found is None:
        sys.exit(MISSING)
    os.execv(found, [str(found), *sys.argv[1:]])


if __name__ == "__main__":
    main()
