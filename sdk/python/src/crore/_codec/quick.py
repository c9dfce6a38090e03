"""
The commonest frames, MESSAGE and NAMED_MESSAGE, in their usual form: short numbers where they nearly always are short,
and no calls. It says what `decode` says, or leaves the frame to it.
"""

from __future__ import annotations

from functools import lru_cache

from ..items import Message, Tags
from .server import NamedMessage, TopicMessage

#: Topics and content types repeat, so their texts are shared.
_text = lru_cache(maxsize=1024)(bytes.decode)


def quick_message(data: bytes) -> TopicMessage | NamedMessage | None:
    """The frame; None for `decode` to look at."""
    try:
        kind, flags = data[0], data[1]
        if flags & 0x7E:
            return None
        topic, partition, epoch = "", None, 0
        if kind == 0x84:
            alias, at = data[2], 3
            if alias > 127:
                return None
        elif kind == 0x85:
            at = 3 + data[2]
            partition = data[at]
            epoch = data[at + 1]
            if at == 3 or at > 130 or partition > 127:
                return None
            topic = _text(data[3:at])
            at += 2
            if epoch > 127:
                epoch &= 127
                shift = 7
                while (byte := data[at]) > 127:
                    epoch |= (byte & 127) << shift
                    shift += 7
                    at += 1
                at += 1
                if byte == 0 or shift > 56:
                    return None
                epoch |= byte << shift
            alias = 0
        else:
            return None
        offset = data[at]
        at += 1
        if offset > 127:
            offset &= 127
            shift = 7
            while (byte := data[at]) > 127:
                offset |= (byte & 127) << shift
                shift += 7
                at += 1
            at += 1
            if byte == 0 or shift > 56:
                return None
            offset |= byte << shift
        delta = data[at]
        at += 1
        if delta > 127 or not 0 < delta <= offset:
            return None
        content_type: str | None = None
        tags: Tags = ()
        subscription: int | None = None
        lineage: int | None = None
        if flags > 127:
            attributes = _attributes(data, at, kind == 0x85)
            if attributes is None:
                return None
            content_type, tags, subscription, lineage, at = attributes
    except (IndexError, UnicodeDecodeError):
        return None
    retained = flags & 1 == 1
    message = Message(data[at:], topic, epoch, offset, offset - delta, retained, content_type, tags, partition)
    return TopicMessage(alias, message, lineage) if kind == 0x84 else NamedMessage(subscription, message, lineage)


def _attributes(data: bytes, at: int, named: bool) -> tuple[str | None, Tags, int | None, int | None, int] | None:
    """Content type, tags, the subscription of a named message, the lineage, and where the payload begins."""
    content_type: str | None = None
    subscription: int | None = None
    lineage: int | None = None
    tags: list[tuple[str, str]] = []
    count = data[at]
    at += 1
    if count > 127:
        return None
    for _ in range(count):
        key, size = data[at], data[at + 1]
        begin = at + 2
        at = begin + size
        if size > 127 or at > len(data):
            return None
        if key == 2 and content_type is None:
            content_type = _text(data[begin:at])
        elif key == 4 and size:
            middle = begin + 1 + data[begin]
            if middle > at:
                return None
            tags.append((_text(data[begin + 1 : middle]), data[middle:at].decode()))
        elif key == 10 and named and size == 1 and subscription is None and data[begin] < 128:
            subscription = data[begin]
        elif key == 18 and size == 1 and lineage is None:
            lineage = data[begin]
        else:
            return None
    return content_type, tuple(tags), subscription, lineage, at
