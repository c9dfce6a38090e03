"""Where positions of subscriptions and `once` publications survive the program."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote

from ._core.calls import Publication
from ._core.core import Core
from ._core.kept_ticket import KeptTicket, kept_ticket
from ._core.subscription import CoreSubscription
from .errors import CroreError

try:
    import fcntl
except ImportError:  # Not on Windows.
    fcntl = None  # type: ignore[assignment]

RESERVED = 1_000  # U13


class Storage(Protocol):
    """Texts by key. The asyncio client calls it in a thread of its own, one call at a time."""

    def get(self, key: str) -> str | None:
        """The text of a key."""

    def set(self, key: str, value: str) -> None:
        """Keeps a text; when this returns, it is safe."""

    def delete(self, key: str) -> None:
        """Forgets a key."""


class FileStorage:
    """
    A folder with one file for each key, which belongs to one program at a time: a second one is refused (where the
    system has `flock`), because two programs with one producer would fence each other.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._folder = Path(folder)
        self._folder.mkdir(parents=True, exist_ok=True)
        self._lock = os.open(self._folder / ".lock", os.O_RDWR | os.O_CREAT, 0o600)
        if fcntl is not None:
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                os.close(self._lock)
                raise CroreError(f"another program uses {self._folder}", name="StorageInUse") from error

    def _file(self, key: str) -> Path:
        return self._folder / quote(key, safe="")

    def get(self, key: str) -> str | None:
        try:
            return self._file(key).read_text(encoding="utf-8")
        except FileNotFoundError:
            return None

    def set(self, key: str, value: str) -> None:
        file = self._file(key)
        new = file.with_name(f"{file.name}.new")
        # Tickets are secrets.
        private = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(private, "w", encoding="utf-8") as out:
            out.write(value)
            out.flush()
            os.fsync(out.fileno())
        os.replace(new, file)

    def delete(self, key: str) -> None:
        self._file(key).unlink(missing_ok=True)

    def close(self) -> None:
        """Lets another program have the folder."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def position_key(name: str) -> str:
    return f"position:{name}"


def processed_text(it: CoreSubscription) -> str | None:
    """P14: the processed positions of a subscription; None if there is none."""
    places = {str(partition): f"{at.epoch}:{at.offset}" for partition, at in it.processed.items()}
    return json.dumps(places) if places else None


class TicketStore:
    """R11: the newest ticket, for the next program."""

    def __init__(self, storage: Storage, name: str | None) -> None:
        self._storage = storage
        self._key = f"ticket:{name or ''}"
        self._seen: object = None

    def load(self) -> KeptTicket | None:
        text = self._storage.get(self._key)
        return kept_ticket(text) if text else None

    def news(self, core: Core) -> Callable[[], None] | None:
        """What stores the client's ticket, if it is another one than before."""
        if core.held_ticket is self._seen:
            return None
        self._seen = core.held_ticket
        kept = core.kept_ticket()
        return partial(self._storage.delete, self._key) if kept is None else partial(self._set, kept.text())

    def _set(self, text: str) -> None:
        self._storage.set(self._key, text)


class Outbox:
    """
    U13: `once` publications that survive the program. Id and reserved numbers are stored first, then each publication
    before it is sent; the next start sends what is left, by the same numbers. Its calls come one at a time.
    """

    def __init__(self, storage: Storage, name: str | None) -> None:
        self._storage = storage
        self._key = f"once:{name or ''}"
        self._id = b""
        self._next = 1
        self._reserved = 0
        self._open: set[int] = set()

    def load(self) -> tuple[bytes, list[Publication]]:
        """The producer's id, and what the program before has left."""
        text = self._storage.get(self._key)
        kept: dict[str, Any] = json.loads(text) if text else {"id": secrets.token_hex(16), "first": 1, "reserved": 0}
        self._id = bytes.fromhex(kept["id"])
        left: list[Publication] = []
        for sequence in range(kept["first"], kept["reserved"] + 1):
            entry = self._storage.get(self._entry(sequence))
            if entry:
                left.append(_publication(json.loads(entry), sequence))
                self._open.add(sequence)
        self._next = kept["reserved"] + 1
        self._reserve()
        return self._id, left

    def _entry(self, sequence: int) -> str:
        return f"{self._key}:{sequence}"

    def _reserve(self) -> None:
        self._reserved = self._next + RESERVED - 1
        first = min(self._open, default=self._next)
        kept = {"id": self._id.hex(), "first": first, "reserved": self._reserved}
        self._storage.set(self._key, json.dumps(kept))

    def store(self, publication: Publication) -> Publication:
        """Stores a publication, and gives it its number."""
        if self._next > self._reserved:
            self._reserve()
        sequence = self._next
        self._next += 1
        self._storage.set(self._entry(sequence), json.dumps(_shown(publication)))
        self._open.add(sequence)
        return replace(publication, sequence=sequence)

    def forget(self, sequence: int) -> None:
        """It is answered."""
        self._open.discard(sequence)
        self._storage.delete(self._entry(sequence))


def _shown(it: Publication) -> dict[str, Any]:
    return {
        "topic": it.topic,
        "payload": it.payload.hex(),
        "retain": it.retain,
        "content_type": it.content_type,
        "tags": it.tags,
        "expected_epoch": it.expected_epoch,
    }


def _publication(kept: dict[str, Any], sequence: int) -> Publication:
    return Publication(
        topic=kept["topic"],
        payload=bytes.fromhex(kept["payload"]),
        retain=kept["retain"],
        content_type=kept["content_type"],
        tags=tuple((name, value) for name, value in kept["tags"]),
        expected_epoch=kept["expected_epoch"],
        once=True,
        sequence=sequence,
    )
