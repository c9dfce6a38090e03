package io.crore.internal.codec;

import java.math.BigInteger;

/** A place in a topic's log: an epoch and an offset, both unsigned. Shown as {@code epoch:offset}. */
public final class Place {
  public final long epoch;
  public final long offset;

  public Place(long epoch, long offset) {
    this.epoch = epoch;
    this.offset = offset;
  }

  /** The place of a text, or null if the text is not a position. */
  public static Place parse(String text) {
    int colon = text.indexOf(':');
    if (colon < 0 || !isNumber(text, 0, colon) || !isNumber(text, colon + 1, text.length())) {
      return null;
    }
    BigInteger epoch = new BigInteger(text.substring(0, colon));
    BigInteger offset = new BigInteger(text.substring(colon + 1));
    if (epoch.bitLength() > 64 || offset.bitLength() > 64) return null;
    return new Place(epoch.longValue(), offset.longValue());
  }

  /** Digits without leading zeros. */
  private static boolean isNumber(String text, int from, int to) {
    if (from == to || (text.charAt(from) == '0' && to - from > 1)) return false;
    for (int at = from; at < to; at++) {
      if (text.charAt(at) < '0' || text.charAt(at) > '9') return false;
    }
    return true;
  }

  /** An unsigned number as text; Android 7 has no method for it. */
  public static String text(long number) {
    if (number >= 0) return Long.toString(number);
    long tenth = (number >>> 1) / 5;
    return tenth + Long.toString(number - tenth * 10);
  }

  /** Whether an offset lies above another one. */
  public static boolean above(long offset, long other) {
    return Long.compareUnsigned(offset, other) > 0;
  }

  /**
   * The first epoch from this one on whose low byte is the lineage, or the epoch itself without one
   * (-1): P16. The upper half identifies the log.
   */
  public static long advanced(long epoch, int lineage) {
    if (lineage < 0) return epoch;
    int lower = (int) epoch + ((lineage - (int) epoch) & 0xff);
    return (epoch >>> 32 << 32) | (lower & 0xffff_ffffL);
  }

  /** The greater offset. */
  public static long max(long offset, long other) {
    return above(offset, other) ? offset : other;
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof Place && ((Place) other).epoch == epoch && ((Place) other).offset == offset;
  }

  @Override
  public int hashCode() {
    return Long.hashCode(epoch) * 31 + Long.hashCode(offset);
  }

  @Override
  public String toString() {
    return text(epoch) + ":" + text(offset);
  }
}
