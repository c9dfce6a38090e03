"""Topics and filters: section 10 of the protocol."""

from __future__ import annotations

from functools import lru_cache


def has_length(topic: str) -> bool:
    """Whether a topic or filter has 1 to 255 bytes."""
    try:
        return 1 <= len(topic.encode()) <= 255
    except UnicodeEncodeError:
        return False


def is_wild(text: str) -> bool:
    """Whether the text is a filter with wildcards."""
    levels = text.split("/")
    return levels[-1] == "#" or "+" in levels


@lru_cache(maxsize=4096)
def matches(wanted: str, topic: str) -> bool:
    """Whether a filter matches a topic."""
    if topic.startswith("$") and wanted[:1] in ("+", "#"):
        return False
    wanted_levels = wanted.split("/")
    levels = topic.split("/")
    for index, level in enumerate(wanted_levels):
        if level == "#" and index == len(wanted_levels) - 1:
            return True
        if index >= len(levels) or level not in ("+", levels[index]):
            return False
    return len(wanted_levels) == len(levels)
