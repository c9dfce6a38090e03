"""Makes the wheel of a platform: the pure wheel, and the server's program as its script `crore`.

python scripts/platform_wheel.py PURE_WHEEL PROGRAM NOTICES TAG FOLDER

Equal input gives equal bytes: the entries have the times of the pure wheel.
"""

from __future__ import annotations

import base64
import hashlib
import sys
import zipfile
from pathlib import Path


def record(name: str, content: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(content)}\n"


def platform_wheel(pure: Path, program: Path, notices: Path, tag: str, folder: Path) -> Path:
    with zipfile.ZipFile(pure) as source:
        time = source.infolist()[0].date_time
        contents = {name: source.read(name) for name in source.namelist()}
    info = next(name.split("/")[0] for name in contents if name.endswith(".dist-info/RECORD"))
    del contents[f"{info}/RECORD"]
    # Its script `crore` would be that of the pure wheel.
    del contents[f"{info}/entry_points.txt"]
    wheel = contents[f"{info}/WHEEL"].decode()
    wheel = wheel.replace("Root-Is-Purelib: true", "Root-Is-Purelib: false").replace("none-any", f"none-{tag}")
    contents[f"{info}/WHEEL"] = wheel.encode()
    license_file = "License-File: LICENSE\n"
    metadata = contents[f"{info}/METADATA"].decode()
    metadata = metadata.replace(license_file, f"{license_file}License-File: {notices.name}\n", 1)
    contents[f"{info}/METADATA"] = metadata.encode()
    contents[f"{info}/licenses/{notices.name}"] = notices.read_bytes()
    script = info.replace(".dist-info", ".data/scripts/crore")
    contents[script] = program.read_bytes()
    lines = [record(name, content) for name, content in contents.items()]
    contents[f"{info}/RECORD"] = f"{''.join(lines)}{info}/RECORD,,\n".encode()
    path = folder / pure.name.replace("none-any", f"none-{tag}")
    with zipfile.ZipFile(path, "w") as target:
        for name, content in contents.items():
            entry = zipfile.ZipInfo(name, time)
            entry.external_attr = (0o100755 if name == script else 0o100644) << 16
            target.writestr(entry, content, zipfile.ZIP_DEFLATED, 9)
    return path


if __name__ == "__main__":
    pure, program, notices, tag, folder = sys.argv[1:]
    print(platform_wheel(Path(pure), Path(program), Path(notices), tag, Path(folder)))
