package io.crore;

import java.util.List;
import java.util.Map;

/** What a subscription has received since its begin, over all connections. */
public final class Report {
  private final boolean proved;
  private final long gaps;
  private final List<Gap> newest;
  private final long skips;
  private final long messages;
  private final String position;
  private final Map<Long, String> positions;

  /**
   * A report.
   *
   * @param proved whether completeness is proved
   * @param gaps the count of gaps
   * @param newest the newest of them
   * @param skips the count of skips
   * @param messages the count of messages
   * @param position the settled position of a topic, or null
   * @param positions the settled positions of a filter
   */
  public Report(
      boolean proved,
      long gaps,
      List<Gap> newest,
      long skips,
      long messages,
      String position,
      Map<Long, String> positions) {
    this.proved = proved;
    this.gaps = gaps;
    this.newest = newest;
    this.skips = skips;
    this.messages = messages;
    this.position = position;
    this.positions = positions;
  }

  /** @return whether there was no gap and no skip */
  public boolean complete() {
    return gaps == 0 && skips == 0;
  }

  /** @return whether {@link #complete()} is proved (topics), not only announced (filters) */
  public boolean proved() {
    return proved;
  }

  /** @return how many gaps there were */
  public long gaps() {
    return gaps;
  }

  /** @return the newest gaps, at most 16 */
  public List<Gap> newest() {
    return newest;
  }

  /** @return how many skips there were */
  public long skips() {
    return skips;
  }

  /** @return how many messages were handed on */
  public long messages() {
    return messages;
  }

  /** @return the settled position of a topic; null for a filter, and before it is known */
  public String position() {
    return position;
  }

  /** @return the settled positions of a filter, by partition */
  public Map<Long, String> positions() {
    return positions;
  }

  @Override
  public String toString() {
    return (complete() ? "complete" : gaps + " gaps, " + skips + " skips") + ", " + messages + " messages";
  }
}
