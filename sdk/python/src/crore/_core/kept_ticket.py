"""R11: a ticket that survives the program. It is a secret, so only `store_tickets` asks for it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from .._codec.client import Policy
from .._position import Place, parse


@dataclass(frozen=True, slots=True)
class KeptSubscription:
    """One subscription of a ticket, which restores its options too."""

    number: int
    fail_on_gap: bool
    policy: Policy | None
    #: Up to where everything had come, by partition (0 for a topic). The server goes on at the newer of the ticket's
    #: cursor and the client's own, so the ticket is of use only if all of that was processed.
    places: Mapping[str, str]

    def is_processed(self, own: Mapping[int, Place]) -> bool:
        """Whether these positions are not before the ticket's."""
        for partition, text in self.places.items():
            place, at = parse(text), own.get(int(partition))
            if place is None or at is None or at.epoch != place.epoch or at.offset < place.offset:
                return False
        return True


@dataclass(frozen=True, slots=True)
class KeptTicket:
    ticket: bytes
    #: By the server's clock; None if the server has not said it.
    expires_ms: float | None
    #: By topic or filter.
    subscriptions: Mapping[str, KeptSubscription]

    def text(self) -> str:
        subscriptions = {topic: asdict(it) for topic, it in self.subscriptions.items()}
        kept = {"ticket": self.ticket.hex(), "expires_ms": self.expires_ms, "subscriptions": subscriptions}
        return json.dumps(kept)


def kept_ticket(text: str) -> KeptTicket:
    """The ticket of such a text."""
    kept: dict[str, Any] = json.loads(text)
    subscriptions = {topic: KeptSubscription(**it) for topic, it in kept["subscriptions"].items()}
    return KeptTicket(bytes.fromhex(kept["ticket"]), kept["expires_ms"], subscriptions)
