package io.crore;

/** The acknowledgement of a publication. */
public final class Published {
  private final String position;
  private final boolean duplicate;

  /**
   * An acknowledgement.
   *
   * @param position the position
   * @param duplicate whether the log had the message already
   */
  public Published(String position, boolean duplicate) {
    this.position = position;
    this.duplicate = duplicate;
  }

  /** @return the position of the message */
  public String position() {
    return position;
  }

  /** @return whether the log already had it; the position is that of the first copy */
  public boolean duplicate() {
    return duplicate;
  }

  @Override
  public String toString() {
    return "Published[" + position + (duplicate ? ", duplicate]" : "]");
  }
}
