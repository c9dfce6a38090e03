package io.crore;

/** Messages are missing: thrown in place of the gap. Read again to go on behind it. */
public final class GapException extends CroreException {
  private static final long serialVersionUID = 1;

  private final transient Gap gap;

  /**
   * The error of a gap.
   *
   * @param gap the gap
   */
  public GapException(Gap gap) {
    super(GAP, "messages after " + gap.from() + " up to " + gap.to() + " are missing: " + gap.cause());
    this.gap = gap;
  }

  /** @return where the messages are missing, and why */
  public Gap gap() {
    return gap;
  }
}
