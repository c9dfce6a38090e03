package io.crore;

import io.crore.internal.core.Errors;

/** Which part of a topic's log to read. */
public final class HistoryOptions {
  private String position;
  private boolean isReverse;
  private long count = -1;
  private boolean throwsGaps = true;

  private HistoryOptions() {}

  /** @return the whole log, oldest first */
  public static HistoryOptions all() {
    return new HistoryOptions();
  }

  /**
   * Messages behind a position, or before it with {@link #newestFirst()}.
   *
   * @param value the position
   * @return these options
   */
  public HistoryOptions from(String value) {
    SubscribeOptions.place(value);
    position = value;
    return this;
  }

  /**
   * The newest first.
   *
   * @return these options
   */
  public HistoryOptions newestFirst() {
    isReverse = true;
    return this;
  }

  /**
   * At most so many messages.
   *
   * @param value how many
   * @return these options
   */
  public HistoryOptions limit(int value) {
    if (value < 1) throw Errors.invalid("a limit is at least 1");
    count = value;
    return this;
  }

  /**
   * No {@link GapException} where messages are gone.
   *
   * @return these options
   */
  public HistoryOptions despiteGaps() {
    throwsGaps = false;
    return this;
  }

  String position() {
    return position;
  }

  boolean isReverse() {
    return isReverse;
  }

  long count() {
    return count;
  }

  boolean throwsGaps() {
    return throwsGaps;
  }
}
