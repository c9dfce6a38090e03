"""Client of Crore: publish and subscribe with a proof of no loss."""

from ._codec.client import Policy, Start
from .errors import (
    AlreadySubscribed,
    Closed,
    CroreError,
    Expired,
    Fenced,
    GapError,
    InvalidArgument,
    QueueFull,
    Refused,
    Unauthorized,
    Unknown,
)
from .items import CaughtUp, Gap, Item, Message, Page, Published, Report, Skipped, State
from .starts import LIVE, SNAPSHOT, last, since, since_each

__all__ = [
    "LIVE",
    "SNAPSHOT",
    "AlreadySubscribed",
    "CaughtUp",
    "Closed",
    "CroreError",
    "Expired",
    "Fenced",
    "Gap",
    "GapError",
    "InvalidArgument",
    "Item",
    "Message",
    "Page",
    "Policy",
    "Published",
    "QueueFull",
    "Refused",
    "Report",
    "Skipped",
    "Start",
    "State",
    "Unauthorized",
    "Unknown",
    "last",
    "since",
    "since_each",
]
