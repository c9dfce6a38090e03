"""Client of Crore: publish and subscribe with a proof of no loss."""

from ._base import Backoff
from ._codec.client import Policy, Start
from ._subscription import Subscription
from .aio import Client, connect
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
from .storage import FileStorage, Storage

__all__ = [
    "LIVE",
    "SNAPSHOT",
    "AlreadySubscribed",
    "Backoff",
    "CaughtUp",
    "Client",
    "Closed",
    "CroreError",
    "Expired",
    "Fenced",
    "FileStorage",
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
    "Storage",
    "Subscription",
    "Unauthorized",
    "Unknown",
    "connect",
    "last",
    "since",
    "since_each",
]
