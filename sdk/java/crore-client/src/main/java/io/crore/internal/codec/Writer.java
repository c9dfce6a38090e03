package io.crore.internal.codec;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/** Builds one frame. */
final class Writer {
  private byte[] bytes;
  private int length;

  Writer(int room) {
    bytes = new byte[room];
  }

  Writer() {
    this(64);
  }

  Writer u8(int value) {
    room(1);
    bytes[length++] = (byte) value;
    return this;
  }

  /** An unsigned number of 64 bits. */
  Writer varint(long value) {
    while ((value & ~0x7fL) != 0) {
      u8((int) (value & 0x7f) | 0x80);
      value >>>= 7;
    }
    return u8((int) value);
  }

  Writer raw(byte[] value) {
    room(value.length);
    System.arraycopy(value, 0, bytes, length, value.length);
    length += value.length;
    return this;
  }

  Writer block(byte[] value) {
    return varint(value.length).raw(value);
  }

  Writer text(String value) {
    return block(value.getBytes(StandardCharsets.UTF_8));
  }

  Writer place(Place place) {
    return varint(place.epoch).varint(place.offset);
  }

  byte[] done() {
    return length == bytes.length ? bytes : Arrays.copyOf(bytes, length);
  }

  private void room(int count) {
    if (length + count > bytes.length) bytes = Arrays.copyOf(bytes, Math.max(length + count, bytes.length * 2));
  }
}
