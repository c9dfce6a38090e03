"""What the end of a connection, and of the client, means."""

from __future__ import annotations

from ..errors import Closed
from ..items import State


def reconnects(code: int) -> bool:
    """C5: whether a client comes back after this close code."""
    return code in (1001, 1005, 1006) or 1011 <= code <= 1014 or 3000 <= code <= 3499 or 4000 <= code <= 4499


def closed_by(state: State) -> Closed:
    """The error of what comes after the client's end."""
    why = state.code or state.status
    return Closed(f"the client is closed: {state.reason}" + (f" ({why})" if why else ""))
