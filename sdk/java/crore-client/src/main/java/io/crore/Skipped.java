package io.crore;

import io.crore.internal.codec.Place;

/** Messages that were left out on purpose: after {@link #from()}, up to {@link #through()}. */
public final class Skipped implements Item {
  private final long from;
  private final long through;
  private final String reason;
  private final long partition;

  /**
   * A skip.
   *
   * @param from the last offset before it
   * @param through its last offset
   * @param reason the reason
   * @param partition the partition, or -1
   */
  public Skipped(long from, long through, String reason, long partition) {
    this.from = from;
    this.through = through;
    this.reason = reason;
    this.partition = partition;
  }

  @Override
  public Kind kind() {
    return Kind.SKIPPED;
  }

  /** @return the offset before the first that was left out */
  public long from() {
    return from;
  }

  /** @return the last offset that was left out */
  public long through() {
    return through;
  }

  /**
   * The reason. Given by the server: {@code conflated}, {@code dropped}, {@code other}.
   * {@code overflow}: the buffer of this client was full.
   *
   * @return the reason
   */
  public String reason() {
    return reason;
  }

  @Override
  public long partition() {
    return partition;
  }

  @Override
  public String toString() {
    return "Skipped[" + Place.text(from) + " to " + Place.text(through) + ": " + reason + "]";
  }
}
