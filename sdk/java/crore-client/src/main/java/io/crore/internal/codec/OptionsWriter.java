package io.crore.internal.codec;

import java.nio.charset.StandardCharsets;

/** Collects the options of a frame; their bit stands before them, among the flags. */
final class OptionsWriter {
  private final Writer options = new Writer();
  private int count;

  OptionsWriter bytes(int key, byte[] value) {
    if (value != null) {
      count++;
      options.varint(key).block(value);
    }
    return this;
  }

  OptionsWriter text(int key, String value) {
    return bytes(key, value == null ? null : value.getBytes(StandardCharsets.UTF_8));
  }

  /** The flags with the bit of the options. */
  int flags(int flags) {
    return count == 0 ? flags : flags | 0x80;
  }

  void into(Writer writer) {
    if (count > 0) writer.varint(count).raw(options.done());
  }
}
