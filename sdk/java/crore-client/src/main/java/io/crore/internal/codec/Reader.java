package io.crore.internal.codec;

import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/** Reads the types of the protocol from the front of bytes. */
final class Reader {
  private static final int OPTIONS = 0x80;
  private static final long VARINT32_MAX = 0xffff_ffffL;

  final byte[] bytes;
  private int at;
  private final int end;

  Reader(byte[] bytes) {
    this(bytes, 0, bytes.length);
  }

  private Reader(byte[] bytes, int from, int end) {
    this.bytes = bytes;
    this.at = from;
    this.end = end;
  }

  /** Takes one option by its key; false if the key is unknown in this place. */
  interface Options {
    boolean take(long key, Reader value) throws FrameException;
  }

  static final Options NONE = (key, value) -> false;

  int at() {
    return at;
  }

  int left() {
    return end - at;
  }

  int u8() throws FrameException {
    if (at == end) throw FrameException.malformed();
    return bytes[at++] & 0xff;
  }

  long u64le() throws FrameException {
    long value = 0;
    for (int shift = 0; shift < 64; shift += 8) value |= (long) u8() << shift;
    return value;
  }

  /** An unsigned number of 64 bits. */
  long varint() throws FrameException {
    int first = u8();
    if (first < 128) return first;
    long value = first & 127;
    for (int shift = 7; ; shift += 7) {
      int next = u8();
      if (shift == 63 && next > 1) throw FrameException.of("malformed_varint");
      value |= (long) (next & 127) << shift;
      if (next < 128) {
        if (next == 0) throw FrameException.of("malformed_varint");
        return value;
      }
    }
  }

  /** A number of at most 2^32 - 1. */
  long varint32() throws FrameException {
    long value = varint();
    if (value < 0 || value > VARINT32_MAX) throw FrameException.malformed();
    return value;
  }

  /** Everything to the end. */
  byte[] rest() {
    byte[] rest = Arrays.copyOfRange(bytes, at, end);
    at = end;
    return rest;
  }

  /** The next `length`-prefixed bytes, as a reader of their own. */
  Reader block() throws FrameException {
    long length = varint();
    if (length < 0 || length > left()) throw FrameException.malformed();
    int from = at;
    at += (int) length;
    return new Reader(bytes, from, at);
  }

  String text() throws FrameException {
    return block().textToEnd();
  }

  /** All that is left, as UTF-8. */
  String textToEnd() throws FrameException {
    int from = at;
    at = end;
    boolean isAscii = true;
    for (int i = from; i < end && isAscii; i++) isAscii = bytes[i] >= 0;
    if (isAscii) return new String(bytes, from, end - from, StandardCharsets.US_ASCII);
    try {
      return StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(bytes, from, end - from)).toString();
    } catch (CharacterCodingException e) {
      throw FrameException.of("malformed_utf8");
    }
  }

  String topic() throws FrameException {
    Reader block = block();
    if (block.left() == 0) throw FrameException.of("malformed_topic");
    if (block.left() > 255) throw FrameException.of("topic_too_long");
    return block.textToEnd();
  }

  Place place() throws FrameException {
    long epoch = varint();
    return new Place(epoch, varint());
  }

  /** Flags; {@code known} are the defined ones beside that of the options. */
  int flags(int known) throws FrameException {
    int flags = u8();
    if ((flags & ~OPTIONS & ~known) != 0) throw FrameException.of("unsupported_option");
    return flags;
  }

  void options(int flags) throws FrameException {
    options(flags, NONE, 0);
  }

  /** The options, if the flags announce them; {@code repeatable} may come more than once. */
  void options(int flags, Options options, long repeatable) throws FrameException {
    if ((flags & OPTIONS) == 0) return;
    long seen = 0;
    for (long count = varint(); count != 0; count--) {
      long key = varint();
      Reader value = block();
      if (!options.take(key, value)) {
        if ((key & 1) == 1) throw FrameException.of("unsupported_option");
      } else if (key != repeatable) {
        // All known keys are below 64.
        if ((seen >> key & 1) == 1) throw FrameException.malformed();
        seen |= 1L << key;
      }
    }
  }

  /** The whole of an option is one number. */
  long onlyVarint32() throws FrameException {
    long value = varint32();
    end();
    return value;
  }

  int onlyByte() throws FrameException {
    int value = u8();
    end();
    return value;
  }

  void end() throws FrameException {
    if (at != end) throw FrameException.malformed();
  }
}
