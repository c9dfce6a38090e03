"""Reading the types of the protocol: varints, strings, flags, options."""

from __future__ import annotations

from collections.abc import Callable


class FrameError(Exception):
    """Bytes that are no frame; `unsupported`: of a newer version of the protocol."""

    def __init__(self, error: str = "malformed_frame", unsupported: bool = False) -> None:
        super().__init__(error)
        self.error = error
        self.unsupported = unsupported


def text_of(data: bytes) -> str:
    """UTF-8 of a frame."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise FrameError("malformed_utf8") from None


class Reader:
    """Reads from the front of bytes; raises `FrameError` at their end."""

    __slots__ = ("at", "data")

    def __init__(self, data: bytes, at: int = 0) -> None:
        self.data = data
        self.at = at

    def u8(self) -> int:
        at = self.at
        if at >= len(self.data):
            raise FrameError
        self.at = at + 1
        return self.data[at]

    def varint(self) -> int:
        """A varint of at most 64 bits, in its shortest form."""
        data, at = self.data, self.at
        value = shift = 0
        try:
            while True:
                byte = data[at]
                at += 1
                value |= (byte & 127) << shift
                if byte < 128:
                    break
                shift += 7
                if shift == 70:
                    raise FrameError("malformed_varint")
        except IndexError:
            raise FrameError from None
        if (byte == 0 and shift) or value >> 64:
            raise FrameError("malformed_varint")
        self.at = at
        return value

    def varint32(self) -> int:
        value = self.varint()
        if value > 0xFFFFFFFF:
            raise FrameError
        return value

    def take(self, count: int) -> bytes:
        start = self.at
        end = start + count
        if end > len(self.data):
            raise FrameError
        self.at = end
        return self.data[start:end]

    def rest(self) -> bytes:
        start = self.at
        self.at = len(self.data)
        return self.data[start:]

    def block(self) -> bytes:
        return self.take(self.varint())

    def text(self) -> str:
        return text_of(self.block())

    def topic(self) -> str:
        data = self.block()
        if not data:
            raise FrameError("malformed_topic")
        if len(data) > 255:
            raise FrameError("topic_too_long")
        return text_of(data)

    def flags(self, known: int) -> int:
        """Flags; `known` are the defined bits beside the bit of the options."""
        flags = self.u8()
        if flags & 0x7F & ~known:
            raise FrameError("unsupported_option", unsupported=True)
        return flags

    def options(
        self,
        flags: int,
        take: Callable[[int, bytes], bool] | None = None,
        repeatable: int = 0,
    ) -> None:
        """
        Reads the options, if bit 7 of the flags announces them. `take` gets key and value, and returns False for
        a key that it does not know; only the key `repeatable` may come more than once.
        """
        if not flags & 128:
            return
        seen = set[int]()
        for _ in range(self.varint()):
            key = self.varint()
            value = self.block()
            if take is None or not take(key, value):
                if key & 1:
                    raise FrameError("unsupported_option", unsupported=True)
            elif key != repeatable:
                if key in seen:
                    raise FrameError
                seen.add(key)

    def end(self) -> None:
        if self.at != len(self.data):
            raise FrameError


def varint32_of(value: bytes) -> int:
    """The value of an option that is one varint of 32 bits."""
    reader = Reader(value)
    number = reader.varint32()
    reader.end()
    return number
