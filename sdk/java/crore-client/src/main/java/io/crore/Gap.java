package io.crore;

/** Messages of this subscription are missing: lost, or nobody knows. */
public final class Gap implements Item {
  private final String from;
  private final String to;
  private final String cause;
  private final long partition;

  /**
   * A gap.
   *
   * @param from the last settled position, or null
   * @param to the position up to which everything may be missing, or null
   * @param cause the cause
   * @param partition the partition, or -1
   */
  public Gap(String from, String to, String cause, long partition) {
    this.from = from;
    this.to = to;
    this.cause = cause;
    this.partition = partition;
  }

  @Override
  public Kind kind() {
    return Kind.GAP;
  }

  /** @return the last settled position before the gap; null if it is not known */
  public String from() {
    return from;
  }

  /** @return everything up to and including this position may be missing; null if not known */
  public String to() {
    return to;
  }

  /**
   * The cause. Announced by the server: {@code evicted}, {@code unknown_epoch}, {@code beyond_head},
   * {@code history_limit}, {@code damaged}, {@code other}. {@code unannounced}: found by this
   * client. {@code reconnected}: a filter had to begin anew.
   *
   * @return the cause
   */
  public String cause() {
    return cause;
  }

  @Override
  public long partition() {
    return partition;
  }

  @Override
  public String toString() {
    return "Gap[" + from + " to " + to + ": " + cause + "]";
  }
}
