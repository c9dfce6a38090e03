"""Where the tests find the specification and the programs that they start."""

from __future__ import annotations

import os
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[3]


def _built(name: str) -> str:
    folders = [REPOSITORY / "target" / profile / name for profile in ("release", "debug")]
    return str(next((path for path in folders if path.exists()), folders[1]))


SPEC = Path(os.environ.get("CRORE_SPEC", REPOSITORY / "spec"))
#: The player of the scenarios.
SCRIPT = os.environ.get("CRORE_SCRIPT") or _built("crore-script")
#: The server.
SERVER = os.environ.get("CRORE_SERVER") or _built("crore")
