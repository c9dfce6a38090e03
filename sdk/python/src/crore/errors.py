"""Errors: refusals of the server with their code, and the client's own, which have none."""

from __future__ import annotations

from typing import TypeVar

from ._codes import ERRORS


class CroreError(Exception):
    """The one type of errors. The client's own errors are its subclasses."""

    #: The server's number; None for the client's own errors.
    code: int | None
    #: The name of the code, or of the client's own error.
    name: str
    #: Whether the same request may succeed later.
    temporary: bool
    #: The position to continue from, or the log's epoch and head.
    restart: str | None
    #: The limit that the request would have exceeded.
    limit: int | None

    def __init__(
        self,
        message: str,
        *,
        code: int | None = None,
        name: str | None = None,
        temporary: bool = False,
        restart: str | None = None,
        limit: int | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.name = name or type(self).__name__
        self.temporary = temporary
        self.restart = restart
        self.limit = limit

    def __str__(self) -> str:
        return f"{self.name}: {self.message}" if self.code is None else f"{self.name} ({self.code}): {self.message}"


class Refused(CroreError):
    """The server refused: see `code` and `name`."""


class Unknown(CroreError):
    """The request was sent, its answer never came: the server may have carried it out."""


class Expired(CroreError):
    """The timeout came before the request was sent: it never will be."""


class QueueFull(CroreError):
    """Too many publications wait for their answers."""


class Closed(CroreError):
    """The client is closed, or was closed before the request was sent."""


class InvalidArgument(CroreError):
    """Nothing was sent: a topic's length, a payload's size, an id, a key, a position."""


class AlreadySubscribed(CroreError):
    """The client has a subscription to this topic or filter."""


class Fenced(CroreError):
    """Another client publishes under this producer's id."""


class Unauthorized(CroreError):
    """Raised by a token source: there is no token, and there will be none."""


class GapError(CroreError):
    """Messages are missing: raised in place of the gap. Iterate again to go on."""

    def __init__(self, start: str | None, end: str | None, cause: str, partition: int | None = None) -> None:
        super().__init__(f"messages after {start or '?'} up to {end or '?'} are missing: {cause}")
        self.start = start
        self.end = end
        self.cause = cause
        self.partition = partition


_E = TypeVar("_E", bound=CroreError)


def refusal(code: int, temporary: bool, message: str, restart: str | None = None, limit: int | None = None) -> Refused:
    """The error of a code; an unknown code keeps its number."""
    name = ERRORS.get(code, f"error_{code}")
    return Refused(message, code=code, name=name, temporary=temporary, restart=restart, limit=limit)


def again(error: _E) -> _E:
    """A copy to raise: one error may end several readers, and a traceback belongs to one of them."""
    copy = type(error).__new__(type(error))
    copy.__dict__.update(error.__dict__)
    copy.args = error.args
    return copy
