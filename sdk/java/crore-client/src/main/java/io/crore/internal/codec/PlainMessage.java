package io.crore.internal.codec;

import io.crore.Message;
import java.util.Collections;

/**
 * The commonest frame, a MESSAGE without options, read without an object for it. Whatever is not
 * exactly that is left to {@link ServerFrames}, with its faults.
 */
public final class PlainMessage {
  private static final int TYPE = 0x84;
  private static final int RETAINED = 1;

  public long alias;
  public long offset;
  public long previous;
  private boolean isRetained;
  private byte[] bytes;
  private int at;

  /** Whether the bytes are such a frame, which this then holds. */
  public boolean read(byte[] frame) {
    if (frame.length < 5 || (frame[0] & 0xff) != TYPE || (frame[1] & ~RETAINED) != 0) return false;
    bytes = frame;
    at = 2;
    isRetained = frame[1] == RETAINED;
    alias = number();
    offset = number();
    long distance = number();
    previous = offset - distance;
    return alias >= 0 && alias <= 0xffff_ffffL && offset >= 0 && distance > 0 && distance <= offset;
  }

  /** A number below 2^63 in the shortest form; else -1. */
  private long number() {
    long value = 0;
    for (int shift = 0; shift < 63 && at < bytes.length; shift += 7) {
      byte next = bytes[at++];
      value |= (long) (next & 127) << shift;
      if (next >= 0) return next == 0 && shift > 0 ? -1 : value;
    }
    return -1;
  }

  /** The message, whose topic and epoch the alias knows. */
  public Message message(String topic, long epoch) {
    return new Message(
        topic, epoch, offset, previous, isRetained, null, Collections.emptyList(), -1, -1, bytes, at);
  }
}
