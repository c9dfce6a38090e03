package io.crore;

/** Everything up to {@link #position()} is delivered or reported; live from here. */
public final class CaughtUp implements Item {
  private final String position;
  private final long partition;

  /**
   * A settled position.
   *
   * @param position the position
   * @param partition the partition, or -1
   */
  public CaughtUp(String position, long partition) {
    this.position = position;
    this.partition = partition;
  }

  @Override
  public Kind kind() {
    return Kind.CAUGHT_UP;
  }

  /** @return the settled position */
  public String position() {
    return position;
  }

  @Override
  public long partition() {
    return partition;
  }

  @Override
  public String toString() {
    return "CaughtUp[" + position + "]";
  }
}
